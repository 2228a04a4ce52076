/* For a program that writes snapshots: while a rank waits for its disk, it is late, not gone. */
#include "common/comm/backend.h"

void process_group_keep_alive(ProcessGroup *pg)
{
    ProcessGroup *all = process_group_root(pg);
    if (all->world_size > 1 && all->backend->keep_alive != NULL)
        all->backend->keep_alive(all->state);
}
