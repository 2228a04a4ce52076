/* A build without extras/watch. */
#include "common/base/log.h"
#include "common/launch/logs.h"

int tee_add(struct Tee **tee, int file_fd, int console_fd, const Flags *flags, int rank,
            int local_rank)
{
    (void)tee, (void)file_fd, (void)console_fd, (void)flags, (void)rank, (void)local_rank;
    usage_error("--tee is in extras/watch, which this build does not have; --redirects writes "
                "files without it");
}

void tee_start(struct Tee *tee)
{
    (void)tee;
}

void tee_finish(struct Tee *tee)
{
    (void)tee;
}
