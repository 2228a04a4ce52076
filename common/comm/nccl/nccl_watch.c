/* The watchdog, as in PyTorch's ProcessGroupNCCL: a GPU that waits for a dead rank waits forever,
 * and the host does not notice until it reads a result. It ends the process without aborting the
 * communicator, as PyTorch does by default (TORCH_NCCL_ASYNC_ERROR_HANDLING=3): the end of a
 * process stops what its GPU does and closes its connections, while ncclCommAbort may itself hang.
 *
 * It has two threads, since CUDA may hang in any call, even one that only asks whether an event is
 * done. The poller asks CUDA and NCCL, and holds no lock meanwhile that the main thread needs. The
 * heartbeat calls neither and takes no lock: whatever hangs, it reports to the other ranks, reads
 * their verdict, and ends the process when the poller does not return within the timeout. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/signals.h"
#include "common/comm/nccl/nccl_group.h"

/* ---- the poller ---- */

/* Gets the oldest call that is not counted as finished. Returns false if there is none. */
static bool oldest_call(Nccl *nccl, NcclCall *call)
{
    pthread_mutex_lock(&nccl->mutex);
    const bool pending = nccl->finished < nccl->started;
    *call = nccl->call[nccl->finished % NCCL_MAX_CALLS];
    pthread_mutex_unlock(&nccl->mutex);
    return pending;
}

static bool is_finished(Nccl *nccl, const NcclCall *call)
{
    if (call->ticket != nccl->finished)
        return true; // its slot was reused
    if (!call->queued || call->done == call->captured)
        return call->queued; // captured calls are only counted
    nccl->polls = "cudaEventQuery";
    const cudaError_t result = cudaEventQuery(call->done);
    NcclCall now;
    if (oldest_call(nccl, &now) && now.ticket != call->ticket)
        return true; // its slot was reused meanwhile, and the event may be a later call's
    if (result != cudaErrorNotReady)
        CUDA_CHECK(result);
    return result == cudaSuccess;
}

/* Does nothing while the main thread is in NCCL (see NCCL_CHECK), perhaps for long, because that
 * thread sees a failure itself when its call returns. */
static void look_for_failures(Nccl *nccl)
{
    ncclResult_t state = ncclSuccess;
    if (nccl->comm == NULL || pthread_mutex_trylock(&nccl->in_use) != 0)
        return;
    nccl->polls = "ncclCommGetAsyncError";
    const bool failed = nccl->lib.comm_get_async_error(nccl->comm, &state) == ncclSuccess &&
                        state != ncclSuccess && state != ncclInProgress;
    pthread_mutex_unlock(&nccl->in_use);
    pthread_mutex_lock(&nccl->mutex);
    if (failed && nccl->failure[0] == '\0')
        snprintf(nccl->failure, sizeof nccl->failure, "%s", nccl->lib.error_string(state));
    pthread_mutex_unlock(&nccl->mutex);
}

/* Counts the finished calls, and finds what is pending. */
static NcclFinding look(Nccl *nccl)
{
    NcclFinding finding = { 0 };
    NcclCall call;
    bool pending;
    while ((pending = oldest_call(nccl, &call)) && is_finished(nccl, &call)) {
        pthread_mutex_lock(&nccl->mutex);
        nccl->finished++;
        nccl->polled_at = nccl->since = seconds_awake();
        pthread_mutex_unlock(&nccl->mutex);
    }
    look_for_failures(nccl);
    if (pending) {
        finding.call = call.collective;
        collective_describe(&call.collective, finding.busy);
    } else if (nccl->comm == NULL) {
        strcpy(finding.busy, "ncclCommInitRank");
    }
    pthread_mutex_lock(&nccl->mutex);
    finding.since = nccl->since;
    memcpy(finding.failure, nccl->failure, sizeof finding.failure);
    pthread_mutex_unlock(&nccl->mutex);
    nccl->polled_at = finding.at = seconds_awake();
    return finding;
}

static bool sleeps(const Nccl *nccl, int stop)
{
    return poll_awake(&(struct pollfd){ .fd = stop, .events = POLLIN }, 1, nccl->watch.period) <= 0;
}

static void *poll_calls(void *argument)
{
    Nccl *nccl = argument;
    // Relaxed: it may query events while another thread captures a graph.
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    // First, since a new thread's device is GPU 0, and any other call would make a context there.
    CUDA_CHECK(cudaSetDevice(nccl->pg->place.index));
    CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    do {
        const NcclFinding finding = look(nccl);
        if (!nccl->delivered) {
            nccl->finding = finding;
            nccl->delivered = true;
        }
    } while (sleeps(nccl, nccl->stop_poller));
    return NULL;
}

/* ---- the heartbeat ---- */

static noreturn void give_up(Nccl *nccl, const NcclFinding *finding, const char *line)
{
    if (finding->call.pg != NULL)
        collective_report(&finding->call, COLLECTIVE_FAILED);
    rank_watch_end(&nccl->watch, line);
}

/* Finds the rank to blame and ends the group, at the latest when the timeout is over. */
static void look_into(Nccl *nccl, const NcclFinding *finding, double failed_at)
{
    char line[BLAME_BYTES];
    const bool pending = finding->busy[0] != '\0';
    const char *what = pending ? finding->busy : "no call";
    const double now = seconds_awake(), timeout = nccl->pg->timeout;
    const int silent = rank_watch_poll(&nccl->watch);
    if (silent >= 0) {
        snprintf(line, sizeof line, "rank %d is gone: no sign of life for %.1f s, during %s",
                 silent, now - nccl->watch.since[silent], what);
        give_up(nccl, finding, line);
    }
    // A rank that NCCL has lost counts as silent only after a while.
    if (finding->failure[0] != '\0' && now - failed_at > 2 * nccl->watch.silence) {
        snprintf(line, sizeof line, "NCCL failed during %s: %s (NCCL_DEBUG=WARN tells more)", what,
                 finding->failure);
        give_up(nccl, finding, line);
    }
    if (now - nccl->polled_at > timeout) {
        snprintf(line, sizeof line,
                 "the GPU of rank %d does not answer: %s has not returned for %g s, during %s "
                 "(nvidia-smi and dmesg may say why)",
                 nccl->pg->rank, nccl->polls, timeout, what);
        give_up(nccl, finding, line);
    }
    // At that time the call was still pending; it may have ended since.
    const Collective *call = finding->call.pg != NULL ? &finding->call : NULL;
    if (pending && finding->at - fmax(finding->since, nccl->watch.kept_alive_at) > timeout)
        give_up(nccl, finding, rank_watch_blame(&nccl->watch, call, what, line));
}

/* Returns what the other ranks read. */
static RankReport report_of(const Nccl *nccl, const NcclFinding *finding, bool is_stuck)
{
    const double now = seconds_awake(), kept_alive_at = nccl->kept_alive_at;
    RankReport report = { .num_calls = nccl->num_calls,
                          .keeps_alive =
                              kept_alive_at > 0 && now - kept_alive_at < nccl->watch.silence };
    if (is_stuck)
        snprintf(report.busy, sizeof report.busy, "%s, which does not return", nccl->polls);
    else
        memcpy(report.busy, finding->busy, sizeof report.busy);
    return report;
}

static void *watch(void *argument)
{
    Nccl *nccl = argument;
    double failed_at = 0;
    NcclFinding finding = { .busy = "ncclCommInitRank", .since = seconds_awake() };
    while (sleeps(nccl, nccl->stop_heartbeat)) {
        if (nccl->delivered) {
            finding = nccl->finding;
            nccl->delivered = false;
        }
        const bool is_stuck = seconds_awake() - nccl->polled_at > nccl->watch.wait_limit;
        const RankReport report = report_of(nccl, &finding, is_stuck);
        rank_watch_publish(&nccl->watch, &report);
        if (finding.failure[0] != '\0' && failed_at == 0)
            failed_at = seconds_awake();
        if (failed_at > 0 || is_stuck ||
            (finding.busy[0] != '\0' && seconds_awake() - finding.since > nccl->watch.wait_limit))
            look_into(nccl, &finding, failed_at);
        else
            nccl->watch.polling = false; // the problem is over
    }
    return NULL;
}

void nccl_keep_alive(void *state)
{
    ((Nccl *)state)->kept_alive_at = seconds_awake();
}

static void start(pthread_t *thread, int *stop, void *(*run)(void *), Nccl *nccl)
{
    *stop = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(*stop);
    const int error = thread_start(thread, run, nccl);
    CHECK(error == 0, "cannot start a thread that watches NCCL: %s", strerror(error));
}

static void stop(pthread_t thread, int stop)
{
    eventfd_write(stop, 1);
    pthread_join(thread, NULL);
    close(stop);
}

void nccl_watch_start(Nccl *nccl)
{
    rank_watch_init(&nccl->watch, nccl->pg);
    nccl->polls = "cudaSetDevice";
    nccl->polled_at = seconds_awake();
    start(&nccl->poller, &nccl->stop_poller, poll_calls, nccl);
    start(&nccl->heartbeat, &nccl->stop_heartbeat, watch, nccl);
}

void nccl_watch_stop(Nccl *nccl)
{
    pthread_mutex_lock(&nccl->mutex);
    nccl->closing = true;
    pthread_mutex_unlock(&nccl->mutex);
    stop(nccl->poller, nccl->stop_poller); // the heartbeat ends the process if the poller hangs
    stop(nccl->heartbeat, nccl->stop_heartbeat);
    rank_watch_free(&nccl->watch);
}
