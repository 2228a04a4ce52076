/* Stands in for the NCCL rungs in builds without NCCL. */
#include "extras/all_reduce_ladder/pair_cuda.h"

static const char *open(Pair *pair)
{
    (void)pair;
    return "this build has no NCCL";
}

const PairRung rung_nccl = { "NCCL", open, NULL, NULL };
const PairRung rung_symmetric = { "NCCL, symmetric", open, NULL, NULL };
const PairRung rung_device_api = { "NCCL, device API", open, NULL, NULL };
