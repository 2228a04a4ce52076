/* The watchdog is a thread that waits to be stopped, and ends the process if it is not, because the
 * thread that should stop it is inside a call that does not return. */
#include "common/comm/library_calls.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/signals.h"

static void *watch(void *argument)
{
    const Watchdog *watchdog = argument;
    struct pollfd stop = { .fd = watchdog->stop_fd, .events = POLLIN };
    CHECK(poll_awake(&stop, 1, watchdog->seconds) != 0, "%s did not end within %g s: %s",
          watchdog->call, watchdog->seconds, watchdog->remedy);
    return NULL;
}

void watchdog_start(Watchdog *watchdog, double seconds, const char *call, const char *remedy)
{
    *watchdog = (Watchdog){ .seconds = seconds, .call = call, .remedy = remedy };
    watchdog->stop_fd = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(watchdog->stop_fd);
    const int error = thread_start(&watchdog->thread, watch, watchdog);
    CHECK(error == 0, "cannot start a thread that watches the time: %s", strerror(error));
}

void watchdog_stop(Watchdog *watchdog)
{
    eventfd_write(watchdog->stop_fd, 1);
    pthread_join(watchdog->thread, NULL);
    close(watchdog->stop_fd);
}

void collective_extents(const Collective *c, size_t *in_bytes, size_t *out_bytes)
{
    enum { NOTHING, SHARE, WHOLE }; // WHOLE: a share of each rank
    static const struct {
        uint8_t in, out, root_in, root_out;
    } extents[] = {
        [ALL_REDUCE] = { SHARE, SHARE, SHARE, SHARE },
        [BROADCAST] = { NOTHING, SHARE, SHARE, NOTHING },
        [REDUCE] = { SHARE, NOTHING, SHARE, SHARE },
        [GATHER] = { SHARE, NOTHING, SHARE, WHOLE },
        [ALL_GATHER] = { SHARE, WHOLE, SHARE, WHOLE },
        [SCATTER] = { NOTHING, SHARE, WHOLE, SHARE },
        [REDUCE_SCATTER] = { WHOLE, SHARE, WHOLE, SHARE },
        [BARRIER] = { NOTHING, NOTHING, NOTHING, NOTHING },
        [SEND] = { SHARE, NOTHING, NOTHING, NOTHING }, // the other rank is the root
        [RECV] = { NOTHING, SHARE, NOTHING, NOTHING },
    };
    const size_t share = c->count * dtype_size(c->type);
    const size_t bytes[] = { 0, share, share * (size_t)c->pg->world_size };
    const bool is_root = c->pg->rank == c->root;
    *in_bytes = bytes[is_root ? extents[c->kind].root_in : extents[c->kind].in];
    *out_bytes = bytes[is_root ? extents[c->kind].root_out : extents[c->kind].out];
}

static bool same_call(const Collective *a, const Collective *b)
{
    return a->sequence == b->sequence && a->kind == b->kind && a->type == b->type &&
           a->op == b->op && a->count == b->count && a->root == b->root;
}

void collectives_compare(const ProcessGroup *pg, Collective *all)
{
    all[0].pg = pg; // the other ranks' pg points to their memory
    for (int rank = 1; rank < pg->world_size; rank++) {
        all[rank].pg = pg;
        char first[DESCRIPTION_BYTES], other[DESCRIPTION_BYTES];
        CHECK(same_call(&all[0], &all[rank]),
              "the ranks' calls differ: rank %d calls %s, rank %d calls %s",
              process_group_global_rank(pg, 0), collective_describe(&all[0], first),
              process_group_global_rank(pg, rank), collective_describe(&all[rank], other));
    }
}
