/* The loader moves no data: a batch is a list of row numbers. The sampler's strides determine which
 * row of the global batch each one is. Dropout masks depend only on that number, so they are the
 * same for any number of ranks. */
#include "common/data/dataloader.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

void dataloader_init(DataLoader *loader, const Dataset *dataset, Sampler *sampler, int batch_size)
{
    CHECK(batch_size > 0, "a batch of %d rows cannot be made", batch_size);
    if (dataset->shards > 0)
        sampler_pad(sampler, dataset->shards);
    *loader = (DataLoader){ .dataset = dataset, .sampler = sampler, .batch_size = batch_size };
    const size_t rows = sampler->size < (size_t)batch_size ? sampler->size : (size_t)batch_size;
    loader->index = mem_calloc(rows, sizeof *loader->index);
    loader->batch = (Batch){ .dataset = dataset,
                             .index = loader->index,
                             .first_row = sampler->rank,
                             .row_stride = sampler->world_size };
}

size_t dataloader_num_batches(const DataLoader *loader)
{
    const size_t batch_size = (size_t)loader->batch_size;
    return loader->sampler->size / batch_size + (loader->sampler->size % batch_size != 0);
}

const Batch *dataloader_next(DataLoader *loader)
{
    const size_t batch_size = (size_t)loader->batch_size;
    loader->batch.number = loader->sampler->position / batch_size; // correct after a seek too
    loader->batch.size = (int)sampler_next(loader->sampler, loader->index, batch_size);
    return loader->batch.size > 0 ? &loader->batch : NULL;
}

void dataloader_free(DataLoader *loader)
{
    free(loader->index);
}
