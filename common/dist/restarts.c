/* A launcher inside a requeued job counts from 0 again: hence the sum. */
#include "common/dist/restarts.h"

#include <stdlib.h>

/* What is no number, or too large for one, is none. */
static int count_in(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    const long count = text != NULL ? strtol(text, &end, 10) : 0;
    return count > 0 && count < 1000000 && *end == '\0' ? (int)count : 0;
}

int restart_count(void)
{
    return count_in("TORCHELASTIC_RESTART_COUNT") + count_in("SLURM_RESTART_COUNT");
}
