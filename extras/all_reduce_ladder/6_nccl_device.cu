/* The ring kernel, by NCCL's device API: NCCL opens the other GPU's memory, and keeps the flags. */
#if __has_include(<nccl_device.h>) // since NCCL 2.28
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <nccl_device.h> // first: its C++ attributes would meet the noreturn of <stdnoreturn.h>
#pragma GCC diagnostic pop
#endif

#include "common/nn/cuda/cuda_launch.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

#if __has_include(<nccl_device.h>)

enum { BLOCK = 512, BLOCKS = 32 };

extern "C" { // NULL in an older library
ncclResult_t __attribute__((weak))
ncclDevCommCreate(ncclComm_t, ncclDevCommRequirements_t const *, ncclDevComm_t *);
ncclResult_t __attribute__((weak)) ncclDevCommDestroy(ncclComm_t, ncclDevComm_t const *);
}

static ncclDevComm_t device; // the communicator as a kernel sees it

static __global__ void sum(ncclDevComm_t device, ncclWindow_t window, size_t numel)
{
    // LSA: GPUs that load from and store to each other's memory. A barrier for each block.
    ncclLsaBarrierSession<ncclCoopCta> meeting(ncclCoopCta(), device, ncclTeamTagLsa(), blockIdx.x);
    const ncclTeam team = ncclTeamLsa(device);
    float *data = (float *)ncclGetLocalPointer(window, 0);
    const float *peer = (const float *)ncclGetLsaPointer(window, 0, 1 - team.rank);
    const size_t half = numel / 2, first = team.rank == 0 ? 0 : half, others = half - first;
    const size_t last = team.rank == 0 ? half : numel, others_last = team.rank == 0 ? numel : half;
    const size_t step = BLOCKS * BLOCK;
    meeting.sync(ncclCoopCta(), cuda::memory_order_acq_rel); // the other GPU's data is ready
    for (size_t i = first + my_index<BLOCK>(); i < last; i += step)
        data[i] += peer[i];
    meeting.sync(ncclCoopCta(), cuda::memory_order_acq_rel); // the other GPU has summed its half
    for (size_t i = others + my_index<BLOCK>(); i < others_last; i += step)
        data[i] = peer[i];
    meeting.sync(ncclCoopCta(), cuda::memory_order_acq_rel); // the other GPU has copied, too
}

static const char *open(Pair *pair)
{
    if (ncclDevCommCreate == NULL)
        return "needs NCCL 2.28 or newer";
    const char *missing = rung_symmetric.open(pair); // a communicator, and data in a window
    if (missing != NULL)
        return missing;
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER // in newer headers: tells the library their version
    ncclDevCommRequirements_t needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements_t needs = {};
#endif
    needs.lsaBarrierCount = BLOCKS;
    PAIR_CHECK(ncclDevCommCreate(pair->comm, &needs, &device));
    return NULL;
}

static void run(Pair *pair)
{
    LAUNCH(sum, BLOCKS, BLOCK, pair->stream, device, pair->window, pair->numel);
}

static void close(Pair *pair)
{
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    PAIR_CHECK(ncclDevCommDestroy(pair->comm, &device));
    rung_symmetric.close(pair);
}

const PairRung rung_device_api = { "NCCL, device API", open, run, close };
#else
static const char *open(Pair *)
{
    return "was built with the header of an NCCL before 2.28";
}

const PairRung rung_device_api = { "NCCL, device API", open, NULL, NULL };
#endif
