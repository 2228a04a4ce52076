/* dataset_args.h - shared by the tests of data sets. */
#ifndef TESTS_COMMON_DATA_DATASET_ARGS_H
#define TESTS_COMMON_DATA_DATASET_ARGS_H

#include "common/data/dataset.h"

static inline Args args_of(DatasetKind dataset)
{
    return (Args){ .dataset = dataset, .dataset_size = 2048, .data_dir = "data/mnist" };
}

/* Loads the training half for these Args, in a child process. */
static inline void load_train(const void *args)
{
    Rng rng;
    rng_seed(&rng, 0);
    Dataset dataset;
    dataset_init(&dataset, args, TRAIN, &rng);
    dataset_free(&dataset);
}

#endif
