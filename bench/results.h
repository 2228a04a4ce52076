/* results.h - results without the lines that each checkpoint prints beside them. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <fcntl.h>
#include <unistd.h>

#include "common/base/log.h"

/* Returns a descriptor for the results, and discards all other standard output. */
static inline int results_alone(void)
{
    const int results = dup(STDOUT_FILENO);
    SYS_CHECK(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO));
    return results;
}

#endif
