/*
 * replicas.h - what DataParallel does in one process: a replica of the model for each device, and a
 * thread for each replica. The functions have the names of torch.nn.parallel.
 *
 * Device 0 is the master. It sends or receives every byte that is moved.
 */
#ifndef BEYOND_REPLICAS_H
#define BEYOND_REPLICAS_H

#include <pthread.h>

#include "common/nn/model.h"

typedef struct {
    Device device; // unused in the master, which has the caller's device and model
    Model own; // unused in the master, too
    Model *model;
    Batch share; // its rows of the batch
    pthread_t thread;
} Replica;

typedef struct {
    Replica *replica; // [num_replicas]; 0 is the master
    int num_replicas;
    int batch_size; // rows of the last batch
    uint64_t moved_bytes; // bytes copied from and to the master
    double begun, sum, fastest; // seconds_now() of a step; the steps' seconds, without the first
} Replicas;

/* Makes a replica for each of world_size devices, for batches of up to max_batch rows. */
void replicas_init(Replicas *replicas, const Args *args, Model *master, int world_size,
                   int max_batch);
void replicas_free(Replicas *replicas);

/* Gives each replica consecutive rows. A row keeps its place, so its dropout mask is the same. */
void replicas_scatter(Replicas *replicas, const Batch *batch);

/* Copies the master's weights to all, and zeroes the gradients. Call it first in a step. */
void replicas_replicate(Replicas *replicas);

/* Runs forward and backward pass of all replicas, each in its thread, on its share. */
void replicas_parallel_apply(Replicas *replicas);

/* Writes the mean gradient of the batch to the master's gradients. */
void replicas_reduce_add(Replicas *replicas);

/* Records the end of a step, for replicas_print. */
void replicas_end_step(Replicas *replicas);

double replicas_mean_loss(const Replicas *replicas); // mean over the last batch

/* Prints what device 0 moved in a step, and the time that a step took. */
void replicas_print(const Replicas *replicas);

#endif
