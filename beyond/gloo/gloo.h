/*
 * gloo.h - a rank of a PyTorch job: Gloo's protocol in place of tcp's.
 *
 *     group_init(backend="gloo")     a PyTorch rank     ---.
 *     gloo_group_init                a rank in C        ---+--- one store, one group
 *
 * - Call gloo_group_init where a step calls process_group_init; all else stays: collectives,
 *   work_wait, process_group_destroy, which ends with a barrier, as a PyTorch program should.
 * - Every rank must make the same calls, those of DistributedDataParallel included (torch_ddp.h).
 * - From the bottom up: gloo_connect.c connects the ranks, gloo_messages.c moves messages, gloo.c
 *   has the algorithms. Queue and threads are tcp's (common/comm/tcp/backend_tcp.c).
 * - Errors end the process with one line, as with tcp; but Gloo's ranks do not tell each other what
 *   they wait for.
 *
 * Gloo's numbers have no version. This is what the PyTorchs of GLOO_TRIED say.
 */
#ifndef BEYOND_GLOO_GLOO_H
#define BEYOND_GLOO_GLOO_H

#include "common/comm/process_group.h"

/* Forms the group of a PyTorch job, whose ranks call init_process_group(backend="gloo"), or with
 * --backend tcp a group of ours. Usage error if an option needs calls that PyTorch's ranks do not
 * make. Dies after --timeout, and names the ranks that are missing. Collective. */
void gloo_group_init(ProcessGroup *pg, const Args *args, const char *master_addr, int master_port,
                     int rank, int world_size, MemoryLocation place);

#endif
