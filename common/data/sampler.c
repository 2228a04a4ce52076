/* The order is the same on every rank and is shuffled for each epoch; a rank only walks through it
 * in strides of world_size. All-reduce needs the same number of steps on every rank, so a training
 * order is padded or cut to a multiple of world_size. In an evaluation a row counts once. */
#include "common/data/sampler.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"

static void sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size)
{
    CHECK(rank >= 0 && rank < world_size, "rank %d is not one of %d ranks", rank, world_size);
    *sampler = (Sampler){ .dataset_size = dataset_size, .rank = rank, .world_size = world_size };
}

static void sampler_deal(Sampler *sampler, size_t total)
{
    // Where rows are left out, the shuffle still needs room for all of them.
    const size_t n = sampler->dataset_size;
    const size_t rank = (size_t)sampler->rank, world_size = (size_t)sampler->world_size;
    sampler->order = mem_calloc(n > total ? n : total, sizeof *sampler->order);
    sampler->total = total;
    sampler->size = total / world_size + (total % world_size > rank); // each world_size-th
    sampler_set_epoch(sampler, 0);
}

void distributed_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size,
                              bool shuffle, bool drop_last, uint64_t seed)
{
    sampler_init(sampler, dataset_size, rank, world_size);
    sampler->shuffle = shuffle;
    sampler->seed = seed;
    const size_t ranks = (size_t)world_size, rest = dataset_size % ranks;
    sampler_deal(sampler, dataset_size - rest + (rest > 0 && !drop_last ? ranks : 0));
}

void sampler_pad(Sampler *sampler, int multiple)
{
    const size_t n = sampler->dataset_size, shards = (size_t)multiple;
    CHECK(multiple % sampler->world_size == 0, "%d ranks cannot share %d places",
          sampler->world_size, multiple);
    free(sampler->order);
    sampler_deal(sampler, (n + shards - 1) / shards * shards);
}

void sequential_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size)
{
    sampler_init(sampler, dataset_size, rank, world_size);
    sampler_deal(sampler, dataset_size);
}

void sampler_set_epoch(Sampler *sampler, int epoch)
{
    const size_t n = sampler->dataset_size;
    if (sampler->shuffle) {
        Rng rng;
        rng_seed(&rng, sampler->seed + (uint64_t)epoch);
        rng_permutation(&rng, sampler->order, n);
    } else {
        for (size_t i = 0; i < n; i++)
            sampler->order[i] = i;
    }
    for (size_t i = n; i < sampler->total; i++) // several times over where n < world_size
        sampler->order[i] = sampler->order[i - n];
    if (sampler->size > 0)
        log_detail(LOG_SAMPLER,
                   "epoch %d, %s: %zu of %zu rows are ours, the first is row %zu; %zu come twice "
                   "to make the shares equal",
                   epoch, sampler->shuffle ? "shuffled" : "in order", sampler->size, n,
                   sampler->order[sampler->rank], sampler->total > n ? sampler->total - n : 0);
    if (epoch != sampler->epoch)
        sampler->position = 0;
    sampler->epoch = epoch;
}

void sampler_seek(Sampler *sampler, size_t position)
{
    // All ranks resume at the same position, or their steps would no longer match; a remainder is
    // visited again. A group of another size padded differently, so once all rows have been visited
    // nothing is left.
    const bool ended = position >= sampler->dataset_size;
    sampler->position = ended ? sampler->size : position / (size_t)sampler->world_size;
}

size_t sampler_next(Sampler *sampler, size_t *index, size_t max)
{
    const size_t left = sampler->size - sampler->position;
    const size_t n = left < max ? left : max;
    const size_t rank = (size_t)sampler->rank, world_size = (size_t)sampler->world_size;
    for (size_t i = 0; i < n; i++)
        index[i] = sampler->order[rank + (sampler->position + i) * world_size];
    sampler->position += n;
    if (left == 0) {
        sampler->epoch++;
        sampler->position = 0;
    }
    return n;
}

void sampler_free(Sampler *sampler)
{
    free(sampler->order);
}
