/* lab-ring5 in a real program: groups that process_group_init forms have the learner's ring in
 * place of the tcp backend's algorithms for an all_reduce. */
#include "teach/lab/ring5/ring5.h"

void __real_process_group_init(ProcessGroup *pg, const Args *args, const char *master_addr,
                               int master_port, int rank, int world_size, MemoryLocation place);

static void run(Mesh *mesh, const Collective *collective)
{
    if (collective->kind == ALL_REDUCE)
        lab_ring(mesh, collective);
    else
        doubling_all_reduce(mesh, collective); // a barrier
}

void __wrap_process_group_init(ProcessGroup *pg, const Args *args, const char *master_addr,
                               int master_port, int rank, int world_size, MemoryLocation place)
{
    __real_process_group_init(pg, args, master_addr, master_port, rank, world_size, place);
    pg->tcp_all_reduce = run;
}
