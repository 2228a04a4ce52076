/* nccl_group.h - what the nccl backend shares with its watchdog: communicator and pending calls. */
#ifndef COMMON_COMM_NCCL_NCCL_GROUP_H
#define COMMON_COMM_NCCL_NCCL_GROUP_H

#include <nccl.h>
#include <pthread.h>

#include "common/base/cuda.h"
#include "common/base/library.h"
#include "common/comm/nccl/rank_watch.h"

/* The functions of NCCL that are used (base/library.h). */
#define NCCL_FUNCTIONS(FUNCTION) \
    FUNCTION(get_unique_id, ncclGetUniqueId) \
    FUNCTION(comm_init_rank, ncclCommInitRank) \
    FUNCTION(comm_destroy, ncclCommDestroy) \
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
    Collective collective; // for messages
    cudaEvent_t done;
    bool queued; // is `done` recorded?
    bool captured; // in a graph, to which its event belongs: it must not be queried
} NcclCall;

/* Ticket t is in call[t % NCCL_MAX_CALLS] until the slot is reused. */
typedef struct {
    const ProcessGroup *pg;
    struct NcclLibrary lib; // opened with the group
    cudaStream_t stream; // of communication
    cudaEvent_t ready; // recorded on the compute stream before a call
    char *scratch; // device memory, for host data and for barriers
    size_t scratch_bytes;
    bool recorded; // has any call been captured in a graph?
    pthread_t thread; // nccl_watch.c
    int stop_fd; // readable: the thread is to end
    RankWatch watch;

    pthread_mutex_t in_use; // held while NCCL is called, see NCCL_CHECK
    pthread_mutex_t mutex; // guards the rest
    ncclComm_t comm; // NULL until it is complete
    uint64_t num_calls; // started, send and recv excluded
    NcclCall call[NCCL_MAX_CALLS];
    long started, finished; // tickets; the watchdog counts those that are finished
    double since; // when the oldest unfinished call, or ncclCommInitRank, became the oldest
    double kept_alive_at; // see nccl_keep_alive
    char failure[256]; // NCCL's error; "": none
    bool closing; // the watchdog ends, or has ended
} Nccl;

/* NCCL_CHECK(nccl, "its name", call): an error ends the process; if NCCL has lost another rank,
 * waits for the watchdog to name it. Only one thread at a time may use a communicator (NCCL User
 * Guide, "Thread Safety"), and the watchdog asks it for errors, so both hold the lock. */
#define NCCL_CHECK(nccl, name, call) \
    do { \
        pthread_mutex_lock(&(nccl)->in_use); \
        const ncclResult_t nccl_result = (call); \
        pthread_mutex_unlock(&(nccl)->in_use); \
        nccl_check(nccl, nccl_result, name); \
    } while (0)
void nccl_check(Nccl *nccl, ncclResult_t result, const char *name);

/* nccl_watch.c: the watchdog thread, which reports this rank's progress to the others, polls
 * pending calls, and ends the process, saying why, when one fails or takes too long. */
void nccl_watch_start(Nccl *nccl);
void nccl_watch_stop(Nccl *nccl);

/* As keep_alive of Backend: the next reports say so. */
void nccl_keep_alive(void *state);

#endif
