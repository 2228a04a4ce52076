/*
 * staging.h - takes collectives on GPU memory through the host, for backends that only reach that.
 *
 * So tcp and mpi serve GPUs too: more slowly than nccl, but they let several ranks share one GPU.
 * What Gloo's CUDA algorithms do for PyTorch (gloo/cuda_workspace.h).
 */
#ifndef COMMON_DIST_STAGING_H
#define COMMON_DIST_STAGING_H

#include "common/dist/backend.h"

typedef struct Staging Staging;

extern const bool staging_available; // in this build?

/* From now on the calls on pg go through here: they are carried out in order by a thread of its
 * own, which alone calls the backend. Neither that nor starting a call waits for the GPU; work_wait
 * blocks the host until the data is back in host memory, and the GPU's stream until it is on the
 * GPU. Local; once for the group of all ranks, whose parts share it. */
void staging_init(ProcessGroup *pg);

/* Carries out all calls that have been started: then this thread may call the backend. Local. */
void staging_drain(Staging *staging);
void staging_free(ProcessGroup *pg);

/* As those of Backend. Data that lies in host memory is left there. */
long staging_start(ProcessGroup *pg, const Collective *collective);
void staging_wait(ProcessGroup *pg, long ticket);

#endif
