/* split.h - groups within a group, for backend tcp. */
#ifndef EXTRAS_HIERARCHICAL_SPLIT_H
#define EXTRAS_HIERARCHICAL_SPLIT_H

#include "common/comm/process_group.h"

/* Cuts pg into groups, as MPI_Comm_split does: ranks of equal color form one, in the order of their
 * ranks in pg. A rank of color < 0 is in none: its sub has world_size 0, and must not be used.
 * Everything else is inherited from pg. A rank's calls on pg and its subgroups are executed in the
 * order of the calls, so all ranks' calls, async ones too, must be consistent with one order over
 * pg and all its subgroups. Free it by subgroup_free. Collective on pg. */
void process_group_split(ProcessGroup *sub, ProcessGroup *pg, int color);

#endif
