/* median.h - the middle of some measurements: other work on the machine makes a few much longer. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values; of an even number of them, the upper one of the middle two. */
static inline double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, median_compare);
    return values[count / 2];
}

#endif
