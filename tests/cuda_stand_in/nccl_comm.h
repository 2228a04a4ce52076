/* nccl_comm.h - communicators of the stand-in of NCCL, and what they have to do. */
#ifndef TESTS_NCCL_COMM_H
#define TESTS_NCCL_COMM_H

#include <pthread.h>

#include "nccl_wire.h"
#include "stand_in.h"

enum { MAX_GROUPED = 32, CALLS_TO_CONNECT = 3, NAME_BYTES = 64 };

/* One or more calls at once. */
typedef struct Job {
    struct Job *next;
    struct ncclComm *comm;
    cudaStream_t stream;
    int num_calls;
    WireCall calls[MAX_GROUPED]; // on copies in host memory
    const void *in[MAX_GROUPED]; // device memory
    void *out[MAX_GROUPED];
    size_t in_bytes[MAX_GROUPED], out_bytes[MAX_GROUPED];
    bool recorded; // in a graph: will be done again
    atomic_bool done;
} Job;

typedef struct {
    int color, key;
} Choice;

struct ncclComm {
    Wire wire;
    char name[NAME_BYTES];
    int rank, num_ranks, num_splits;
    bool blocking;
    long num_jobs, fails_at;
    pthread_t thread; // carries out jobs
    atomic_bool in_use; // by a thread that calls NCCL
    long calls; // queued so far, but for those in graphs
    long recorded; // in graphs that are not destroyed
    long registered; // arrays that are
    size_t window_bytes; // of the window that is being registered
    bool connected, finalized;
    Choice choice; // of a split
    struct ncclComm **part; // where it goes
    Job *job; // to be queued

    pthread_t requested; // the thread of a request, see comm_request
    void (*request)(struct ncclComm *comm); // NULL: there is none
    atomic_bool answered;

    pthread_mutex_t mutex; // guards what follows
    pthread_cond_t changed;
    Job *first, **last; // for the thread
    bool working; // on a job
    ncclResult_t state;
    bool closing;
};

/* Only one thread at a time may be in a communicator: from here to the end of the block, this one.
 */
#define IN_COMM(comm) \
    __attribute__((cleanup(comm_leave), unused)) struct ncclComm *entered = comm_enter(comm)
struct ncclComm *comm_enter(struct ncclComm *comm);
void comm_leave(struct ncclComm **comm);

/* Does what a call asks for: in this thread where the communicator blocks. Where it does not, in a
 * thread that is started for it, as from NCCL 2.23 on; the call is complete when
 * ncclCommGetAsyncError has found that it has ended. */
ncclResult_t comm_request(struct ncclComm *comm, void (*request)(struct ncclComm *comm));

/* Of an array that ncclMemAlloc made and this communicator has registered? */
bool comm_has_registered(const struct ncclComm *comm, const void *array, size_t bytes);

/* Where in a symmetric window an array begins, counted from 1; 0: in none. */
size_t comm_place_in_window(const struct ncclComm *comm, const void *array);

/* Queues a job on its stream, whose ranks are connected. */
void job_push(Job *job);

#endif
