/* median.h - the median, because other work on the machine makes a few measurements longer. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. Returns the upper one of the middle two for an even count. */
static inline double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, median_compare);
    return values[count / 2];
}

#endif
