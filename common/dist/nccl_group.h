/* nccl_group.h - what the files of the nccl backend share: communicators, and calls on their way.
 */
#ifndef COMMON_DIST_NCCL_GROUP_H
#define COMMON_DIST_NCCL_GROUP_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "common/base/cuda.h"
#include "common/dist/rank_watch.h"

#define NCCL_MAX_CALLS 256

typedef enum {
    CALL_STARTING, // its event is not recorded yet
    CALL_QUEUED,
    CALL_RECORDED, // in a graph: its event belongs to that and tells nobody else anything
} NcclCallState;

typedef struct {
    long ticket;
    Collective collective; // for messages
    NcclCallState state;
    cudaEvent_t done;
} NcclCall;

/* A group or a part of it. */
typedef struct NcclGroup {
    struct Nccl *nccl;
    const ProcessGroup *pg;
    ncclComm_t comm;
    uint64_t num_calls; // started; those of two ranks aside
    LIST_ENTRY(NcclGroup) next;
} NcclGroup;

/* The group of all ranks, and what its parts share with it: one stream, so that all calls keep
 * their order. Ticket t is in call[t % NCCL_MAX_CALLS] until another takes its place. */
typedef struct Nccl {
    const ProcessGroup *pg;
    cudaStream_t stream; // of communication
    cudaEvent_t ready; // the compute stream has come to the call
    char *scratch; // device memory, for what comes from the host and for barriers
    size_t scratch_bytes;
    bool recorded; // is any call part of a graph?
    pthread_t thread; // nccl_watch.c
    RankWatch watch;

    pthread_mutex_t in_use; // held by whoever calls NCCL; after that it may be aborted
    bool aborted;
    atomic_bool waiting; // the host waits in here, and nowhere else

    pthread_mutex_t mutex; // guards the rest
    pthread_cond_t changed;
    LIST_HEAD(, NcclGroup) groups;
    NcclCall call[NCCL_MAX_CALLS];
    long started, finished; // tickets; finished runs behind until somebody looks
    double since; // when the oldest that is not finished had its turn
    const char *setup; // what is being made or undone instead, or NULL
    char failure[256]; // what NCCL said; "": nothing
    bool closing;
} Nccl;

/* NCCL is called between these two. Where the group has ended they do not return. */
void nccl_enter(Nccl *nccl);
void nccl_leave(Nccl *nccl);

/* NCCL_CHECK(nccl, call): a mistake ends the process; where NCCL has lost another rank, waits for
 * the watch to say which one. To be called between enter and leave. */
void nccl_check(Nccl *nccl, ncclResult_t result, const char *call);
#define NCCL_CHECK(nccl, call) nccl_check(nccl, (call), #call)

/* A communicator does its work in the background; waits until it has done what it was asked for. */
void nccl_settle(NcclGroup *group);

/* nccl_calls.c: as start and wait of Backend. */
long nccl_start(ProcessGroup *pg, const Collective *collective);
void nccl_wait(ProcessGroup *pg, long ticket);

/* nccl_watch.c: a thread that tells others how far this rank is, looks how far calls are, and ends
 * the process, saying why, when one takes too long or fails. */
void nccl_watch_start(Nccl *nccl);
void nccl_watch_stop(Nccl *nccl);

#endif
