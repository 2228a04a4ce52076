/*
 * The watchdog, as in PyTorch's ProcessGroupNCCL: a GPU that waits for a dead rank waits for ever,
 * and the host does not notice until it reads a result. It ends the process without aborting the
 * communicator, as PyTorch does by default (TORCH_NCCL_ASYNC_ERROR_HANDLING=3): the end of a
 * process stops what its GPU does and closes its connections, while ncclCommAbort may itself hang.
 *
 * A thread polls the oldest unfinished call. It may query events while another thread captures a
 * graph, since its own capture mode is relaxed; but never an event recorded by a capture.
 */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/signals.h"
#include "common/comm/nccl/nccl_group.h"

/* What is pending. */
typedef struct {
    Collective call; // the oldest; pg NULL: none, perhaps ncclCommInitRank
    double since;
    char failure[256];
    RankReport report; // its `busy` says what is pending, "": nothing
} Trouble;

/* Is the oldest call finished? */
static bool is_finished(const Nccl *nccl, const NcclCall *call)
{
    if (call->ticket != nccl->finished || call->captured)
        return true; // its slot was reused; captured calls are only counted
    if (!call->queued)
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
    ncclResult_t state = ncclSuccess;
    if (nccl->comm == NULL || pthread_mutex_trylock(&nccl->in_use) != 0)
        return;
    if (nccl->failure[0] == '\0' &&
        nccl->lib.comm_get_async_error(nccl->comm, &state) == ncclSuccess && state != ncclSuccess &&
        state != ncclInProgress)
        snprintf(nccl->failure, sizeof nccl->failure, "%s", nccl->lib.error_string(state));
    pthread_mutex_unlock(&nccl->in_use);
}

/* Finds the oldest pending call, and fills in this rank's report. */
static void look(Nccl *nccl, Trouble *trouble)
{
    RankReport *report = &trouble->report;
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
        collective_describe(&trouble->call, report->busy);
    } else if (nccl->comm == NULL) {
        strcpy(report->busy, "ncclCommInitRank");
    }
    look_for_failures(nccl);
    memcpy(trouble->failure, nccl->failure, sizeof trouble->failure);
    report->num_calls = nccl->num_calls;
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
    const bool pending = trouble->report.busy[0] != '\0';
    const char *what = pending ? trouble->report.busy : "no call";
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
    if (pending && now - since > nccl->pg->timeout)
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
    struct pollfd stop = { .fd = nccl->stop_fd, .events = POLLIN };
    while (poll(&stop, 1, 1 + (int)(1e3 * nccl->watch.period)) <= 0) {
        Trouble trouble;
        look(nccl, &trouble);
        rank_watch_publish(&nccl->watch, &trouble.report);
        if (trouble.failure[0] != '\0' && failed_at == 0)
            failed_at = seconds_now();
        if (failed_at > 0 || (trouble.report.busy[0] != '\0' &&
                              seconds_now() - trouble.since > nccl->watch.patience))
            look_into(nccl, &trouble, failed_at);
        else
            nccl->watch.polling = false; // the problem is over
    }
    return NULL;
}

void nccl_keep_alive(void *state)
{
    Nccl *nccl = state;
    pthread_mutex_lock(&nccl->mutex);
    nccl->kept_alive_at = seconds_now();
    pthread_mutex_unlock(&nccl->mutex);
}

void nccl_watch_start(Nccl *nccl)
{
    rank_watch_init(&nccl->watch, nccl->pg);
    nccl->stop_fd = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(nccl->stop_fd);
    const int error = thread_start(&nccl->thread, watch, nccl);
    CHECK(error == 0, "cannot start the thread that watches NCCL: %s", strerror(error));
}

void nccl_watch_stop(Nccl *nccl)
{
    pthread_mutex_lock(&nccl->mutex);
    nccl->closing = true;
    pthread_mutex_unlock(&nccl->mutex);
    eventfd_write(nccl->stop_fd, 1);
    pthread_join(nccl->thread, NULL);
    close(nccl->stop_fd);
    rank_watch_free(&nccl->watch);
}
