/*
 * staging.h - copies GPU data of collectives through the host, for backends without GPU support.
 *
 * So tcp and mpi work with GPUs too: more slowly than nccl, but several ranks may share one GPU.
 * Gloo's CUDA algorithms do the same for PyTorch (gloo/cuda_workspace.h).
 */
#ifndef COMMON_COMM_NCCL_STAGING_H
#define COMMON_COMM_NCCL_STAGING_H

#include "common/comm/backend.h"

typedef struct Staging Staging;

extern const bool staging_available; // in this build?

/* From now on calls on pg go through here: a thread of their own executes them in order, and it
 * alone calls the backend. Starting a call does not wait for the GPU; work_wait blocks the host
 * until the result is in host memory, and the GPU's stream until it is on the GPU. Local; once for
 * the group of all ranks, whose subgroups share it. */
void staging_init(ProcessGroup *pg);

/* Waits for all started calls: then the calling thread may use the backend. Local. */
void staging_drain(Staging *staging);
void staging_free(ProcessGroup *pg);

/* As start and wait of Backend. Data in host memory is not copied. */
long staging_start(ProcessGroup *pg, const Collective *collective);
void staging_wait(ProcessGroup *pg, long ticket);

#endif
