/*
 * The watchdog, as in PyTorch's ProcessGroupNCCL: a GPU that waits for a dead rank waits for ever,
 * and the host does not notice until it reads a result.
 *
 * It ends the process without aborting the communicators, as PyTorch does by default
 * (TORCH_NCCL_ASYNC_ERROR_HANDLING=3): the end of a process stops what its GPU does and closes its
 * connections, while ncclCommAbort may itself hang, and leaves partial sums that look like results.
 *
 * A thread polls the oldest unfinished call. It may query events while another thread captures a
 * graph, since its own capture mode is relaxed; but never an event recorded by a capture.
 */
#include <math.h>
#include <stdio.h>

#include "common/base/signals.h"
#include "common/comm/library_calls.h"
#include "common/comm/nccl/nccl_group.h"

/* The oldest pending call or setup. */
typedef struct {
    Collective call; // pg NULL: none, perhaps a setup
    char what[DESCRIPTION_BYTES]; // "": nothing is pending
    double since;
    char failure[256];
} Trouble;

/* Is the oldest call finished? */
static bool is_finished(const Nccl *nccl, const NcclCall *call)
{
    if (call->ticket != nccl->finished || call->state == CALL_RECORDED)
        return true; // its slot was reused; captured calls are only counted
    if (call->state == CALL_STARTING)
        return false;
    const cudaError_t result = cudaEventQuery(call->done);
    if (result != cudaErrorNotReady)
        CUDA_CHECK(result);
    return result == cudaSuccess;
}

/* Skipped while the main thread is in NCCL (see NCCL_CHECK), perhaps for long: it sees a failure
 * itself when its call returns. */
static void look_for_failures(Nccl *nccl)
{
    NcclGroup *group;
    if (pthread_mutex_trylock(&nccl->in_use) != 0)
        return;
    LIST_FOREACH(group, &nccl->groups, next)
    {
        ncclResult_t state = ncclSuccess;
        if (nccl->failure[0] == '\0' &&
            nccl->lib.comm_get_async_error(group->comm, &state) == ncclSuccess &&
            state != ncclSuccess && state != ncclInProgress)
            snprintf(nccl->failure, sizeof nccl->failure, "%s", nccl->lib.error_string(state));
    }
    pthread_mutex_unlock(&nccl->in_use);
}

/* Finds the oldest pending call, and fills in this rank's report. */
static void look(Nccl *nccl, Trouble *trouble, RankReport *report)
{
    NcclGroup *group;
    *trouble = (Trouble){ 0 };
    pthread_mutex_lock(&nccl->mutex);
    while (nccl->finished < nccl->started &&
           is_finished(nccl, &nccl->call[nccl->finished % NCCL_MAX_CALLS])) {
        nccl->finished++;
        nccl->since = seconds_now();
    }
    trouble->since = nccl->since;
    if (nccl->finished < nccl->started) {
        trouble->call = nccl->call[nccl->finished % NCCL_MAX_CALLS].collective;
        collective_describe(&trouble->call, trouble->what);
    } else if (nccl->setup != NULL) {
        snprintf(trouble->what, sizeof trouble->what, "%s", nccl->setup);
    }
    look_for_failures(nccl);
    memcpy(trouble->failure, nccl->failure, sizeof trouble->failure);
    LIST_FOREACH(group, &nccl->groups, next)
    report_add_calls(report, group->pg->name, group->num_calls);
    memcpy(report->busy, trouble->what, sizeof report->busy);
    report->keeps_alive =
        nccl->kept_alive_at > 0 && seconds_now() - nccl->kept_alive_at < nccl->watch.silence;
    pthread_mutex_unlock(&nccl->mutex);
}

static noreturn void give_up(Nccl *nccl, const Trouble *trouble, const char *line)
{
    if (trouble->call.pg != NULL)
        collective_report(&trouble->call, COLLECTIVE_FAILED);
    rank_watch_end(&nccl->watch, line);
}

/* Finds the rank to blame and ends the group, at the latest when the timeout is over. */
static void look_into(Nccl *nccl, const Trouble *trouble, double failed_at)
{
    char line[BLAME_BYTES];
    const char *what = trouble->what[0] != '\0' ? trouble->what : "no call";
    const double now = seconds_now();
    const int silent = rank_watch_poll(&nccl->watch);
    if (silent >= 0) {
        snprintf(line, sizeof line, "rank %d is gone: no sign of life for %.1f s, during %s",
                 silent, now - nccl->watch.since[silent], what);
        give_up(nccl, trouble, line);
    }
    // A rank that NCCL has lost counts as silent only after a while.
    if (trouble->failure[0] != '\0' && now - failed_at > 2 * nccl->watch.silence) {
        snprintf(line, sizeof line, "NCCL failed during %s: %s (NCCL_DEBUG=WARN tells more)", what,
                 trouble->failure);
        give_up(nccl, trouble, line);
    }
    const Collective *call = trouble->call.pg != NULL ? &trouble->call : NULL;
    const double since = fmax(trouble->since, nccl->watch.kept_alive_at);
    if (trouble->what[0] != '\0' && now - since > nccl->pg->timeout)
        give_up(nccl, trouble, rank_watch_blame(&nccl->watch, call, what, line));
}

static void *watch(void *argument)
{
    Nccl *nccl = argument;
    double failed_at = 0;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    // First, since a new thread's device is GPU 0, and any other call would make a context there.
    CUDA_CHECK(cudaSetDevice(nccl->pg->place.index));
    CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    pthread_mutex_lock(&nccl->mutex);
    while (!nccl->closing) {
        pthread_mutex_unlock(&nccl->mutex);
        Trouble trouble;
        RankReport report = { 0 };
        look(nccl, &trouble, &report);
        rank_watch_publish(&nccl->watch, &report);
        if (trouble.failure[0] != '\0' && failed_at == 0)
            failed_at = seconds_now();
        if (failed_at > 0 ||
            (trouble.what[0] != '\0' && seconds_now() - trouble.since > nccl->watch.patience))
            look_into(nccl, &trouble, failed_at);
        else
            rank_watch_reset(&nccl->watch);

        pthread_mutex_lock(&nccl->mutex);
        const struct timespec next = deadline_in(nccl->watch.period);
        if (!nccl->closing)
            pthread_cond_timedwait(&nccl->changed, &nccl->mutex, &next);
    }
    pthread_mutex_unlock(&nccl->mutex);
    return NULL;
}

void nccl_keep_alive(void *state)
{
    Nccl *nccl = ((NcclGroup *)state)->nccl;
    pthread_mutex_lock(&nccl->mutex);
    nccl->kept_alive_at = seconds_now();
    pthread_mutex_unlock(&nccl->mutex);
}

void nccl_watch_start(Nccl *nccl)
{
    rank_watch_init(&nccl->watch, nccl->pg);
    const int error = thread_start(&nccl->thread, watch, nccl);
    CHECK(error == 0, "cannot start the thread that watches NCCL: %s", strerror(error));
}

void nccl_watch_stop(Nccl *nccl)
{
    pthread_mutex_lock(&nccl->mutex);
    nccl->closing = true;
    pthread_cond_signal(&nccl->changed);
    pthread_mutex_unlock(&nccl->mutex);
    pthread_join(nccl->thread, NULL);
    rank_watch_free(&nccl->watch);
}
