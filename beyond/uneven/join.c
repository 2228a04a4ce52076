/*
 * A rank cannot know by itself whether others have batches left. So before each step all ranks send
 * whether they have one, in an all_reduce of a single number: the cost of joining.
 */
#include "beyond/uneven/join.h"

void join_begin(Join *join, ProcessGroup *pg, DataLoader *loader)
{
    const Sampler *sampler = loader->sampler;
    *join = (Join){ .pg = pg, .loader = loader };
    if (sampler->position < sampler->size)
        join->batch = &loader->batch; // join_next loads it
    join->number = sampler->position / (size_t)loader->batch_size - 1; // join_next counts
}

bool join_next(Join *join)
{
    if (join->batch != NULL) // else the loader would start again
        join->batch = dataloader_next(join->loader);
    join->number++;
    join->num_active = (int)all_reduce_scalar(join->pg, join->batch != NULL, REDUCE_SUM);
    return join->num_active > 0;
}
