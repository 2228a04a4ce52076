/* sampler.h - the order in which rows are visited, and which rank takes which row.
 *
 * As torch.utils.data.distributed.DistributedSampler: all ranks shuffle the same way (seed +
 * epoch), then rank r takes number r, r + world_size, r + 2 world_size, ... of that order. */
#ifndef COMMON_DATA_SAMPLER_H
#define COMMON_DATA_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t *order; // [total]: the rows in the order of this epoch, the same on every rank
    size_t dataset_size;
    size_t total; // samples dealt out per epoch to all ranks, padding included
    size_t size; // samples that this rank gets per epoch
    int epoch; // the current one; (epoch, position) is the next sample, and all a resume needs
    size_t position; // how many of its samples this rank has taken
    int rank, world_size;
    bool shuffle;
    uint64_t seed;
} Sampler;

/* Initialises for training: every rank gets the same number of rows. The order is padded by
 * repeating its start, or with drop_last the remainder is left out. Local. */
void distributed_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size,
                              bool shuffle, bool drop_last, uint64_t seed);

/* Pads every epoch to a multiple of `multiple`, which world_size divides, and never cuts it: then
 * the rows of all ranks together do not depend on their number. Call it before the first row. */
void sampler_pad(Sampler *sampler, int multiple);

/* Initialises for evaluation: each row once, in order, so some ranks may get one fewer. Local. */
void sequential_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size);

/* Starts an epoch: shuffles from seed + epoch. Without it every epoch has the order of epoch 0. If
 * the sampler is already in that epoch, as after a resume, it keeps its position. */
void sampler_set_epoch(Sampler *sampler, int epoch);

/* Moves to the point where `position` samples of the epoch are done over all ranks together,
 * rounded down to the same number on each rank; to the end of the epoch if all rows are done. */
void sampler_seek(Sampler *sampler, size_t position);

/* Writes the next rows of this rank to index, at most max; returns how many. At the end of the
 * epoch returns 0 once and moves to the beginning of the next. */
size_t sampler_next(Sampler *sampler, size_t *index, size_t max);

void sampler_free(Sampler *sampler);

#endif
