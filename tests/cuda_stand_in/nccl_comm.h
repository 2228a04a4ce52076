/* nccl_comm.h - communicators of the stand-in of NCCL, and their jobs. */
#ifndef TESTS_NCCL_COMM_H
#define TESTS_NCCL_COMM_H

#include <pthread.h>

#include "nccl_wire.h"
#include "stand_in.h"

enum { MAX_GROUPED = 32, CALLS_TO_CONNECT = 3, NAME_BYTES = 64 };

/* One or more calls executed together. */
typedef struct Job {
    struct Job *next;
    struct ncclComm *comm;
    cudaStream_t stream;
    int num_calls;
    WireCall calls[MAX_GROUPED]; // on copies in host memory
    const void *in[MAX_GROUPED]; // device memory
    void *out[MAX_GROUPED];
    size_t in_bytes[MAX_GROUPED], out_bytes[MAX_GROUPED];
    bool recorded; // in a graph, so it will be repeated
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
    atomic_bool in_use; // true while a thread calls NCCL
    long calls; // calls queued so far, except those in graphs
    long recorded; // calls in graphs that are not destroyed
    long registered; // number of registered arrays
    size_t window_bytes; // size of the window that is being registered
    bool connected, finalized;
    Choice choice; // this rank's choice in a split
    struct ncclComm **part; // destination of the new communicator
    Job *job; // job to be queued

    pthread_t requested; // the thread of a request, see comm_request
    void (*request)(struct ncclComm *comm); // NULL if there is none
    atomic_bool answered;

    pthread_mutex_t mutex; // guards what follows
    pthread_cond_t changed;
    Job *first, **last; // queue of the thread
    bool working; // true while it works on a job
    ncclResult_t state;
    bool closing;
};

/* Marks this thread as the only one in a communicator until the end of the block. */
#define IN_COMM(comm) \
    __attribute__((cleanup(comm_leave), unused)) struct ncclComm *entered = comm_enter(comm)
struct ncclComm *comm_enter(struct ncclComm *comm);
void comm_leave(struct ncclComm **comm);

/* Executes a request: in this thread if the communicator is blocking, otherwise in a thread started
 * for it, as in NCCL 2.23 and later; the call is complete when ncclCommGetAsyncError has found that
 * it has ended. */
ncclResult_t comm_request(struct ncclComm *comm, void (*request)(struct ncclComm *comm));

/* Returns true for bytes of an array of ncclMemAlloc that this communicator has registered. */
bool comm_has_registered(const struct ncclComm *comm, const void *array, size_t bytes);

/* Returns an array's position in a symmetric window, counted from 1 (0 if in none). */
size_t comm_place_in_window(const struct ncclComm *comm, const void *array);

/* Returns all ranks' memory of the communicator's first symmetric window, or of the next one; NULL
 * if there is none. */
void **comm_next_window(const struct ncclComm *comm, void **memory);
void **comm_window_memory(ncclWindow_t window);
void *comm_own_memory(ncclWindow_t window);

/* Queues a job on its stream; the ranks must be connected. */
void job_push(Job *job);

#endif
