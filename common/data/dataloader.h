/* dataloader.h - cuts a sampler's order into batches. */
#ifndef COMMON_DATA_DATALOADER_H
#define COMMON_DATA_DATALOADER_H

#include "common/data/dataset.h"
#include "common/data/sampler.h"

/* A batch lists its rows; the device fetches them (model_forward), since it decides where they go
 * and in which format. */
typedef struct {
    const Dataset *dataset;
    const size_t *index; // [size]: rows of the data set
    int size; // the last batch of an epoch may be short
    size_t number; // its number in the epoch, from 0
    int first_row, row_stride; // row i is row first_row + i * row_stride of the global batch
} Batch;

typedef struct {
    const Dataset *dataset;
    Sampler *sampler;
    int batch_size;
    size_t *index;
    Batch batch;
} DataLoader;

/* Pads the sampler if the data set's batches are cut into shards. */
void dataloader_init(DataLoader *loader, const Dataset *dataset, Sampler *sampler, int batch_size);
size_t dataloader_num_batches(const DataLoader *loader); // batches of a whole epoch
const Batch *dataloader_next(DataLoader *loader); // returns NULL once, at the end of the epoch
void dataloader_free(DataLoader *loader);

#endif
