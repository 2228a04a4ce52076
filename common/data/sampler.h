/*
 * sampler.h - in which order the rows are visited, and which rank takes which.
 *
 * As torch.utils.data.distributed.DistributedSampler: all ranks shuffle alike (from seed + epoch),
 * then rank r takes number r, r + world_size, r + 2 world_size, ... of that order.
 */
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
    int epoch; // in which it stands; (epoch, position) is what comes next, and all a resume needs
    size_t position; // how many of its samples it has had
    int rank, world_size;
    bool shuffle;
    uint64_t seed;
} Sampler;

/* For training: every rank gets equally many rows. What does not divide is padded by repeating
 * the start of the order, or with drop_last left out. Local. */
void distributed_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size,
                              bool shuffle, bool drop_last, uint64_t seed);

/* Pads every epoch to a multiple of `multiple`, which world_size divides, and never cuts it: then
 * what the ranks are dealt together does not depend on their number. Before the first row. */
void sampler_pad(Sampler *sampler, int multiple);

/* For evaluation: in order, and each row exactly once, so some ranks may get one fewer. Local. */
void sequential_sampler_init(Sampler *sampler, size_t dataset_size, int rank, int world_size);

/* Starts an epoch: shuffles from seed + epoch. Without it every epoch has the order of epoch 0. The
 * position stays where it is in an epoch that the sampler stands in already, as after a resume. */
void sampler_set_epoch(Sampler *sampler, int epoch);

/* Moves to where `position` samples of the epoch are done, over all ranks together, or a few less:
 * as many on each rank. Where all rows are done, to its end. */
void sampler_seek(Sampler *sampler, size_t position);

/* Writes the next rows of this rank to index, at most max; returns how many. At the end of the
 * epoch returns 0 once and stands at the beginning of the next. */
size_t sampler_next(Sampler *sampler, size_t *index, size_t max);

void sampler_free(Sampler *sampler);

#endif
