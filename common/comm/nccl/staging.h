/*
 * staging.h - copies GPU data of collectives through the host, for backends without GPU support.
 *
 * So tcp and mpi work with GPUs too: more slowly than nccl, but several ranks may share one GPU.
 * Gloo's CUDA algorithms do the same for PyTorch (gloo/cuda_workspace.h).
 */
#ifndef COMMON_COMM_NCCL_STAGING_H
#define COMMON_COMM_NCCL_STAGING_H

#include "common/comm/backend.h"

extern const bool staging_available; // in this build?

/* Stands in front of the backend of the group of all ranks, and of its later subgroups': a thread
 * of its own executes calls in order, and it alone calls the backend. Starting a call does not wait
 * for the GPU; work_wait blocks the host until the result is in host memory, and the GPU's stream
 * until it is on the GPU. Data in host memory is not copied. Local. */
void staging_wrap(ProcessGroup *pg);

#endif
