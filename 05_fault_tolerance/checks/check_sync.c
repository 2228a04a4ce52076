/*
 * Replicas start equal and take the same steps, so a bit that differs is a fault: bad memory, a
 * kernel that adds in a different order, a gradient that was not sent. In training it shows only as
 * a slightly worse loss.
 *
 * A hash has 53 bits, as many as a double holds exactly. So it is sent as one number, on CPUs and
 * on GPUs alike. The ranks agree if the largest equals the smallest.
 */
#include "05_fault_tolerance/checks/check_sync.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"

#define HASH_BITS 53
#define NUM_LANES 4 // independent multiplications
#define PIECE_BYTES ((size_t)64 * 1024)

/* Mixes in a word as FNV-1a over 64-bit words (Fowler, Noll and Vo), in lanes; a product mixes bits
 * upwards only, so each word is folded once more. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

static uint64_t hash_words(uint64_t hash, const uint64_t *word, size_t count)
{
    uint64_t lane[NUM_LANES];
    for (int i = 0; i < NUM_LANES; i++)
        lane[i] = hash + (uint64_t)i;
    size_t k = 0;
    for (; k + NUM_LANES <= count; k += NUM_LANES)
        for (int i = 0; i < NUM_LANES; i++)
            lane[i] = mix(lane[i], word[k + (size_t)i]);
    for (; k < count; k++)
        lane[0] = mix(lane[0], word[k]);
    for (int i = 1; i < NUM_LANES; i++)
        lane[0] = mix(lane[0], lane[i]);
    return lane[0];
}

/* Hashes one parameter's slice of an array in device memory, piece by piece. */
static uint64_t hash_tensor(uint64_t hash, Device *device, const float *array, const Tensor *tensor)
{
    uint64_t piece[PIECE_BYTES / sizeof(uint64_t)];
    const char *data = (const char *)(array + tensor->offset);
    const size_t bytes = tensor->numel * sizeof(float);
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        const size_t size = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        piece[(size - 1) / sizeof *piece] = 0; // padding of an odd number of floats
        device_copy(device, piece, data + done, size, COPY_TO_HOST);
        hash = hash_words(hash, piece, (size + sizeof *piece - 1) / sizeof *piece);
    }
    return hash;
}

/* Returns the i-th array to compare: the parameters, then each state of the optimizer. */
static const float *array_at(const Optimizer *optim, int i)
{
    return i == 0 ? optim->model->params : optim->state[i - 1];
}

static bool is_same(ProcessGroup *pg, uint64_t hash)
{
    const double number = (double)(hash >> (64 - HASH_BITS));
    const double largest = all_reduce_scalar(pg, number, REDUCE_MAX);
    const bool equal = largest == all_reduce_scalar(pg, number, REDUCE_MIN);
    return equal || pg->revoked;
}

/* Finds the ranks whose hash is not the majority's; in a tie, rank 0's is right. */
static void find_odd_ranks(ProcessGroup *pg, uint64_t hash, bool *odd)
{
    const int n = pg->world_size;
    const double own = (double)(hash >> (64 - HASH_BITS));
    double *all = mem_calloc((size_t)n, sizeof *all);
    all_gather(pg, &own, all, 1, FLOAT64);

    int usual = 0, votes = 0;
    for (int rank = 0; rank < n; rank++) {
        int same = 0;
        for (int other = 0; other < n; other++)
            same += all[other] == all[rank];
        if (same > votes) {
            votes = same;
            usual = rank;
        }
    }
    for (int rank = 0; rank < n; rank++)
        odd[rank] = all[rank] != all[usual];
    free(all);
}

/* Ends the program if this tensor differs between the ranks. */
static void check_tensor(ProcessGroup *pg, const Optimizer *optim, int array, int i)
{
    const Model *model = optim->model;
    const Tensor *tensor = &model->parameter[i];
    const uint64_t hash = hash_tensor(0, model->device, array_at(optim, array), tensor);
    if (is_same(pg, hash))
        return;
    bool *odd = mem_calloc((size_t)pg->world_size, sizeof *odd);
    find_odd_ranks(pg, hash, odd);
    const int n = pg->world_size, num_odd = rank_count(odd, n);
    char odd_ranks[RANK_LIST_BYTES], usual_ranks[RANK_LIST_BYTES];
    rank_list(odd, n, odd_ranks);
    for (int rank = 0; rank < n; rank++)
        odd[rank] = !odd[rank];
    rank_list(odd, n, usual_ranks);
    free(odd);
    // Leave the group first: otherwise the other ranks would report this rank as lost.
    process_group_destroy(pg);
    die("the replicas differ after step %" PRIu64 ", first in %s%s%s: %s differ%s from %s",
        model->step, tensor->name, array > 0 ? "." : "",
        array > 0 ? optim->state_name[array - 1] : "", odd_ranks, num_odd == 1 ? "s" : "",
        usual_ranks);
}

void check_sync(const Args *args, ProcessGroup *pg, const Optimizer *optim)
{
    const Model *model = optim->model;
    if (args->check_sync == 0 || model->step % (uint64_t)args->check_sync != 0)
        return;
    const int num_arrays = 1 + optim->num_states;
    uint64_t hash = 0;
    for (int array = 0; array < num_arrays; array++)
        for (int i = 0; i < model->num_parameters; i++)
            hash = hash_tensor(hash, model->device, array_at(optim, array), &model->parameter[i]);
    if (is_same(pg, hash))
        return;
    for (int array = 0; array < num_arrays; array++)
        for (int i = 0; i < model->num_parameters; i++)
            check_tensor(pg, optim, array, i);
    die("the replicas differ after step %" PRIu64 ", but no tensor does any more", model->step);
}
