/*
 * Every rank tells its color, from which each computes the members.
 *
 * A subgroup renumbers its ranks from 0, so all code for groups works on it unchanged. It shares
 * connections and queue with its group: so the calls of both keep their order, chains of waiting
 * ranks are followed across them, and a lost rank is named by every rank.
 */
#include "extras/hierarchical/split.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/backend.h"

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
    CHECK(pg->backend == &backend_tcp, "only tcp has subgroups");
    *sub = (ProcessGroup){ .store = pg->store,
                           .number = pg->number,
                           .place = pg->place,
                           .timeout = pg->timeout,
                           .backend = pg->backend,
                           .state = pg->state,
                           .parent = pg };
    // The sequence number is the same on all ranks, and another for the next split.
    const int length = snprintf(sub->name, sizeof sub->name, "%s%ssplit %d color %d", pg->name,
                                pg->name[0] != '\0' ? "/" : "", (int)pg->sequence, color);
    CHECK(length < GROUP_NAME_BYTES, "groups within groups go no deeper than \"%s\"", pg->name);
    find_members(sub, pg, color);
    sub->mean_ranks = sub->world_size;
}

void subgroup_free(ProcessGroup *sub)
{
    free(sub->members);
}
