/* Stands in for the extras that act on a group, and for extras/comfort. */
#include "common/base/comfort.h"
#include "common/comm/backend.h"

void comfort_check_launchers(void)
{
}

void group_extras_check(const ProcessGroup *pg, const Args *args)
{
    (void)pg, (void)args;
}

void group_extras_formed(ProcessGroup *pg, const Args *args)
{
    (void)pg, (void)args;
}

void group_extras_leaving(ProcessGroup *pg)
{
    (void)pg;
}

void group_extras_waits_for(const struct Mesh *mesh, int rank)
{
    (void)mesh, (void)rank;
}

void process_group_set_nodes(ProcessGroup *pg, const Args *args, int node)
{
    (void)pg, (void)args, (void)node;
}
