/*
 * Subgroups: every rank tells its color, from which each computes the members.
 *
 * A subgroup renumbers its ranks from 0, so all code for groups works on it unchanged. Messages use
 * the global ranks, which the launcher knows.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/nccl/staging.h"

int process_group_global_rank(const ProcessGroup *pg, int rank)
{
    return pg->members != NULL ? pg->members[rank] : rank;
}

ProcessGroup *process_group_root(const ProcessGroup *pg)
{
    while (pg->parent != NULL)
        pg = pg->parent;
    return (ProcessGroup *)pg;
}

const char *process_group_advice(const ProcessGroup *pg)
{
    const char *advice = pg != NULL ? process_group_root(pg)->advice : NULL;
    return advice != NULL ? advice : "";
}

/* Sets size and members of the subgroup of this color, and this rank's number in it. */
static void find_members(ProcessGroup *sub, ProcessGroup *pg, int32_t color)
{
    int32_t *colors = mem_calloc((size_t)pg->world_size, sizeof *colors);
    all_gather(pg, &color, colors, 1, INT32);
    sub->members = mem_calloc((size_t)pg->world_size, sizeof *sub->members);
    for (int rank = 0; rank < pg->world_size; rank++) {
        if (colors[rank] != color || color < 0)
            continue;
        if (rank == pg->rank)
            sub->rank = sub->world_size;
        sub->members[sub->world_size++] = process_group_global_rank(pg, rank);
    }
    free(colors);
}

void process_group_split(ProcessGroup *sub, ProcessGroup *pg, int color)
{
    *sub = (ProcessGroup){ .store = pg->store,
                           .number = pg->number,
                           .place = pg->place,
                           .timeout = pg->timeout,
                           .check_collectives = pg->check_collectives,
                           .backend = pg->backend,
                           .staging = pg->staging,
                           .parent = pg };
    pg->num_splits++;
    const int length = snprintf(sub->name, sizeof sub->name, "%s%ssplit %d color %d", pg->name,
                                pg->name[0] != '\0' ? "/" : "", pg->num_splits, color);
    CHECK(length < GROUP_NAME_BYTES, "groups within groups go no deeper than \"%s\"", pg->name);

    find_members(sub, pg, color);
    if (pg->staging != NULL)
        staging_drain(pg->staging);
    pg->backend->split(sub, pg, color);
    sub->mean_ranks = sub->world_size;
    pg->num_subgroups += sub->world_size > 0;
}
