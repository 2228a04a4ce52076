/*
 * nccl_device.h - the part of NCCL's device API that the project calls, for tests: the memory of
 * other GPUs, and barriers with them, from within a kernel (tests/cuda_stand_in/nccl_device.c).
 */
#ifndef STAND_IN_NCCL_DEVICE_H
#define STAND_IN_NCCL_DEVICE_H

#include "nccl.h"

enum { STAND_IN_DEVICE_RANKS = 8 };

typedef struct {
    int lsaBarrierCount;
} ncclDevCommRequirements_t;

typedef struct {
    int rank, num_ranks;
    unsigned *flags[STAND_IN_DEVICE_RANKS]; // each rank's: by barrier, the turns that others begin
    unsigned *turns; // by barrier, this rank's
} ncclDevComm_t;

#ifdef __cplusplus
#include "cuda_runtime.h"

extern "C" {
#endif
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *requirements,
                               ncclDevComm_t *device);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *device);

/* Returns where a rank's memory of the window is in this process. */
void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int rank);
void *ncclGetLocalPointer(ncclWindow_t window, size_t offset);
#ifdef __cplusplus
}

struct ncclTeam {
    int nRanks, rank, stride;
};
struct ncclTeamTagLsa {
};
struct ncclCoopCta {
};
namespace cuda
{
enum memory_order { memory_order_acq_rel };
}

static inline ncclTeam ncclTeamLsa(const ncclDevComm_t &device)
{
    return { device.num_ranks, device.rank, 1 };
}

template <typename Coop> class ncclLsaBarrierSession
{
    const ncclDevComm_t &device;
    const unsigned index;

  public:
    ncclLsaBarrierSession(Coop, const ncclDevComm_t &device, ncclTeamTagLsa, unsigned index)
        : device(device), index(index)
    {
    }

    void sync(Coop, cuda::memory_order)
    {
        __syncthreads();
        if (threadIdx.x == 0) {
            const unsigned turn = ++device.turns[index];
            volatile unsigned *own = device.flags[device.rank] + index * device.num_ranks;
            __sync_synchronize();
            for (int rank = 0; rank < device.num_ranks; rank++)
                ((volatile unsigned *)device.flags[rank])[index * device.num_ranks + device.rank] =
                    turn;
            for (int rank = 0; rank < device.num_ranks; rank++)
                while (own[rank] < turn)
                    __nanosleep(20);
            __sync_synchronize();
        }
        __syncthreads();
    }
};

/* A window is no address, so a launch has nothing to check. */
template <> inline void stand_in_check(const char *, int, const ncclWindow_t &, cudaStream_t)
{
}
#endif

#endif
