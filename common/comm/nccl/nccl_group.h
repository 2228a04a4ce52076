/* nccl_group.h - what the nccl backend shares with its watchdog: communicator and pending calls. */
#ifndef COMMON_COMM_NCCL_NCCL_GROUP_H
#define COMMON_COMM_NCCL_NCCL_GROUP_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/base/cuda.h"
#include "common/base/library.h"
#include "common/comm/nccl/rank_watch.h"

/* The functions of NCCL that are used (base/library.h). */
#define NCCL_FUNCTIONS(FUNCTION) \
    FUNCTION(get_unique_id, ncclGetUniqueId) \
    FUNCTION(comm_init_rank, ncclCommInitRankConfig) \
    FUNCTION(comm_destroy, ncclCommDestroy) \
    FUNCTION(comm_abort, ncclCommAbort) \
    FUNCTION(comm_get_async_error, ncclCommGetAsyncError) \
    FUNCTION(error_string, ncclGetErrorString) \
    FUNCTION(last_error, ncclGetLastError) \
    FUNCTION(all_reduce, ncclAllReduce) \
    FUNCTION(broadcast, ncclBroadcast) \
    FUNCTION(reduce, ncclReduce) \
    FUNCTION(all_gather, ncclAllGather) \
    FUNCTION(reduce_scatter, ncclReduceScatter) \
    FUNCTION(send, ncclSend) \
    FUNCTION(recv, ncclRecv) \
    FUNCTION(group_start, ncclGroupStart) \
    FUNCTION(group_end, ncclGroupEnd)
struct NcclLibrary {
    NCCL_FUNCTIONS(LIBRARY_POINTER)
};

#define NCCL_MAX_CALLS 256

typedef struct {
    long ticket;
    Collective collective; // the call as shown in messages
    cudaEvent_t done; // one of the two below
    // A query of an event that a capture records would end the capture, and the watchdog may just
    // be querying the event of the call that had the slot before.
    cudaEvent_t called, captured;
    bool queued; // whether `done` is recorded
} NcclCall;

/* What the poller has found. */
typedef struct {
    double at; // when the poller looked
    Collective call; // the oldest pending one; pg is NULL if none, or for ncclCommInitRank
    char busy[DESCRIPTION_BYTES]; // what is pending, or ""
    double since; // when that call became the oldest
    char failure[256]; // NCCL's error, or ""
} NcclFinding;

/* Ticket t is in call[t % NCCL_MAX_CALLS] until the slot is reused. */
typedef struct {
    ProcessGroup *pg;
    struct NcclLibrary lib; // opened with the group
    cudaStream_t stream; // communication stream
    cudaEvent_t ready; // recorded on the compute stream before a call
    char *scratch; // device memory, for host data and for barriers
    size_t scratch_bytes;
    // The two threads of nccl_watch.c, and what they share.
    pthread_t poller, heartbeat;
    int stop_poller, stop_heartbeat; // eventfds, readable once the thread must end
    RankWatch watch; // used by the heartbeat
    NcclFinding finding; // written while it is not delivered, read while it is
    atomic_bool delivered;
    _Atomic double polled_at; // when the poller last finished a round
    _Atomic(const char *) polls; // what it has called since
    _Atomic uint64_t num_calls; // calls started, send and recv excluded
    _Atomic double kept_alive_at; // see nccl_keep_alive

    pthread_mutex_t in_use; // held while NCCL is called, see NCCL_CHECK
    pthread_mutex_t mutex; // guards the rest
    _Atomic(ncclComm_t) comm; // NULL until it is complete
    NcclCall call[NCCL_MAX_CALLS];
    long started, finished; // tickets; the watchdog counts those that are finished
    double since; // when the oldest unfinished call, or ncclCommInitRank, became the oldest
    char failure[256]; // NCCL's error, or ""
    bool closing; // the watchdog ends, or has ended
} Nccl;

/* NCCL_CHECK(nccl, "its name", call): an error ends the process; if NCCL has lost another rank,
 * waits for the watchdog to name it. Only one thread at a time may use a communicator (NCCL User
 * Guide, "Thread Safety"), and the watchdog asks it for errors, so both hold the lock. */
#define NCCL_CHECK(nccl, name, call) \
    do { \
        pthread_mutex_lock(&(nccl)->in_use); \
        const ncclResult_t nccl_result = (nccl)->pg->revoked ? ncclSuccess : (call); \
        pthread_mutex_unlock(&(nccl)->in_use); \
        nccl_check(nccl, nccl_result, name); \
    } while (0)
void nccl_check(Nccl *nccl, ncclResult_t result, const char *name);

/* nccl_watch.c: the watchdog, which reports this rank's progress to the others, polls pending
 * calls, and ends the process, with the reason, when one fails or takes too long. */
void nccl_watch_start(Nccl *nccl);
void nccl_watch_stop(Nccl *nccl);

/* Does what Backend's keep_alive does, by means of the next reports. */
void nccl_keep_alive(void *state);

#endif
