/* Stands in for --tee of extras/watch in builds without extras. */
#include "common/launch/logs.h"

const bool tee_is_available = false;

int tee_add(struct Tee **tee, int file_fd, int console_fd, const Flags *flags, int rank,
            int local_rank)
{
    (void)tee, (void)file_fd, (void)console_fd, (void)flags, (void)rank, (void)local_rank;
    return -1; // never called: logs_init has refused --tee
}

void tee_start(struct Tee *tee)
{
    (void)tee;
}

void tee_finish(struct Tee *tee)
{
    (void)tee;
}
