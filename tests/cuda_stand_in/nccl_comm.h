/* nccl_comm.h - communicators of the stand-in of NCCL, and what they have to do. */
#ifndef TESTS_NCCL_COMM_H
#define TESTS_NCCL_COMM_H

#include <pthread.h>

#include "nccl_wire.h"
#include "stand_in.h"

enum { MAX_GROUPED = 32, CALLS_TO_CONNECT = 3, POLLS_TO_QUEUE = 3, NAME_BYTES = 64 };

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
    long num_jobs, fails_at;
    pthread_t thread;
    pthread_mutex_t mutex; // guards what follows
    pthread_cond_t changed;
    Job *first, **last; // for the thread
    ncclResult_t state;
    Choice choice; // of a split that is asked for
    struct ncclComm **part; // where it goes; NULL: none is asked for
    bool closing, finalized;
    Job *starting; // not yet queued
    int polls; // since it was asked for something
    long calls; // queued so far, but for those in graphs
};

/* Queues a job on its stream, whose ranks are connected. */
void job_push(Job *job);

#endif
