/*
 * lab-sampler: which rank takes which row. sampler.h says what each function does.
 *
 * Seven rows in the order of an epoch, three ranks. Two rows come twice, so that all ranks get
 * three:
 *
 *     order     4 1 6 0 5 2 3 | 4 1
 *     rank 0    4     0     3
 *     rank 1      1     5     4
 *     rank 2        6     2     1
 */
#include "common/data/sampler.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"

/* Makes the order of epoch 0: `total` rows for all ranks together. */
static void deal(Sampler *sampler, size_t total)
{
    (void)sampler, (void)total;
}

/* Rung 1, 2 and 3. */
void distributed_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size,
                              bool shuffle, bool drop_last, uint64_t seed)
{
    CHECK(rank >= 0 && rank < world_size, "rank %d is not one of %d ranks", rank, world_size);
    (void)sampler, (void)dataset_size, (void)shuffle, (void)drop_last, (void)seed;
    die("rung 1 is not written yet");
}

/* Given: as many rows for every number of ranks that divides `multiple`. */
void sampler_pad(Sampler *sampler, int multiple)
{
    const size_t n = sampler->dataset_size, shards = (size_t)multiple;
    CHECK(multiple % sampler->world_size == 0, "%d ranks cannot share %d places",
          sampler->world_size, multiple);
    sampler_free(sampler);
    deal(sampler, (n + shards - 1) / shards * shards);
}

/* Rung 4. */
void sequential_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size)
{
    CHECK(rank >= 0 && rank < world_size, "rank %d is not one of %d ranks", rank, world_size);
    (void)sampler, (void)dataset_size;
    die("rung 4 is not written yet");
}

/* Rungs 3 and 5. */
void sampler_set_epoch(Sampler *sampler, int epoch)
{
    (void)sampler, (void)epoch;
    die("rung 3 is not written yet");
}

/* Rung 5. */
void sampler_seek(Sampler *sampler, size_t position)
{
    (void)sampler, (void)position;
    die("rung 5 is not written yet");
}

/* Rung 1. */
size_t sampler_next(Sampler *sampler, size_t *index, size_t max)
{
    (void)sampler, (void)index, (void)max;
    die("rung 1 is not written yet");
}

/* Given. */
void sampler_free(Sampler *sampler)
{
    free(sampler->order);
}
