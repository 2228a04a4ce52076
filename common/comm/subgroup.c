/* A subgroup renumbers its ranks from 0, so all code for groups works on it unchanged. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"

void process_group_new(ProcessGroup *sub, ProcessGroup *pg, const int *ranks, int count,
                       const char *name)
{
    *sub = (ProcessGroup){ .world_size = count,
                           .mean_ranks = count,
                           .store = pg->store,
                           .number = pg->number,
                           .place = pg->place,
                           .timeout = pg->timeout,
                           .backend = pg->backend,
                           .state = pg->state,
                           .parent = pg };
    const int length = snprintf(sub->name, sizeof sub->name, "%s", name);
    CHECK(length < GROUP_NAME_BYTES, "groups within groups go no deeper than \"%s\"", pg->name);
    sub->members = mem_calloc((size_t)count, sizeof *sub->members);
    for (int i = 0; i < count; i++) {
        sub->members[i] = process_group_global_rank(pg, ranks[i]);
        if (ranks[i] == pg->rank)
            sub->rank = i;
    }
}

void subgroup_free(ProcessGroup *sub)
{
    free(sub->members);
}
