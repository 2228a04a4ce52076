/*
 * All ranks gather their colors; each computes the members from them.
 *
 * A subgroup renumbers its ranks from 0, so all code for groups works on it unchanged. It shares
 * connections and queue with its group, so the calls of both keep their order, chains of waiting
 * ranks are followed across them, and a lost rank is named by every rank.
 */
#include "extras/hierarchical/split.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/backend.h"

void process_group_split(ProcessGroup *sub, ProcessGroup *pg, int color)
{
    CHECK(pg->backend == &backend_tcp, "only tcp has subgroups");
    // The sequence number is the same on all ranks, and another for the next split.
    char name[2 * GROUP_NAME_BYTES];
    snprintf(name, sizeof name, "%s%ssplit %d color %d", pg->name, pg->name[0] != '\0' ? "/" : "",
             (int)pg->sequence, color);
    int32_t *colors = mem_calloc((size_t)pg->world_size, sizeof *colors), mine = color;
    int *members = mem_calloc((size_t)pg->world_size, sizeof *members), count = 0;
    all_gather(pg, &mine, colors, 1, INT32);
    for (int rank = 0; rank < pg->world_size; rank++)
        if (color >= 0 && colors[rank] == color)
            members[count++] = rank;
    process_group_new(sub, pg, members, count, name);
    free(members);
    free(colors);
}
