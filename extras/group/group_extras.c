/* Passes on to each extra that the group of all ranks is formed, or left: in the reverse order. */
#include "extras/group/group_extras.h"

void group_extras_check(const ProcessGroup *pg, const Args *args)
{
    hierarchy_check(pg, args);
    register_check(pg, args);
}

void group_extras_formed(ProcessGroup *pg, const Args *args)
{
    network_formed(pg, args);
    watch_group_formed(pg, args);
    register_formed(pg, args);
}

void group_extras_leaving(ProcessGroup *pg)
{
    register_leaving(pg);
    watch_group_leaving(pg);
    hierarchy_leaving(pg);
}

void group_extras_waits_for(const struct Mesh *mesh, int rank)
{
    watch_group_waits_for(mesh, rank);
}
