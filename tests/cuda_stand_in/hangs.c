/*
 * Calls that hang: a query to CUDA that another thread's work in the driver, or a lost GPU, blocks.
 * Other calls work meanwhile.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "stand_in.h"

void stand_in_hang(void)
{
    static atomic_bool asked;
    const char *text = getenv("CUDA_STAND_IN_QUERY_SECONDS");
    const double seconds = text != NULL ? atof(text) : 0;
    while (seconds < 0)
        pause();
    if (seconds > 0 && !atomic_exchange(&asked, true))
        usleep((useconds_t)(1e6 * seconds));
}
