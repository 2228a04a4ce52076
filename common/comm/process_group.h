/* process_group.h - the ranks that train together, and their collectives.
 *
 *               data     all_reduce (sum)   broadcast   all_gather   reduce_scatter (sum)
 *     rank 0    1  2          11 22           1  2      1 2 10 20          11
 *     rank 1   10 20          11 22           1  2      1 2 10 20             22
 *
 * - To form a group, call process_group_init on every rank; process_group_destroy ends it.
 * - To combine data, call a collective: all_reduce, broadcast, barrier ... All ranks must call the
 *   same ones, in the same order, with the same count, type and operation.
 * - To compute meanwhile, call the form that ends in _async, and work_wait before using the data.
 * - Errors do not return: a rank that loses another, or waits for it longer than the timeout, names
 *   it in one line and exits. Its launcher does the rest.
 *
 * Names and meaning are those of torch.distributed. Every function is collective, unless its
 * comment says "Local"; send and recv concern two ranks. */
#ifndef COMMON_COMM_PROCESS_GROUP_H
#define COMMON_COMM_PROCESS_GROUP_H

#include "common/base/args.h"
#include "common/base/divergence.h"
#include "common/base/memory.h"
#include "common/comm/store/store.h"

struct Collective;
struct Mesh;

typedef enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN } ReduceOp;

#define GROUP_NAME_BYTES 48
#define OPTIONS_BYTES 1536

typedef struct ProcessGroup {
    int rank, world_size;

    // Set by init, and inherited by subgroups.
    Store *store; // NULL if there is none
    int64_t number; // index of this group in the job: part of its keys in the store
    MemoryLocation place; // where the data of collectives is
    double timeout; // seconds
    bool check_collectives; // whether to compare fingerprints on backends that do not always do so
    const struct Backend *backend; // tcp, mpi or nccl (backend.h)

    // Not inherited by subgroups, except for `state`.
    void *state, *survivor; // the backend's; step 05's, in a group that errors only revoke
    uint64_t sequence; // collectives started so far
    int mean_ranks; // what REDUCE_MEAN divides by: world_size
    char options[OPTIONS_BYTES]; // "rank 0 has " those that all ranks must share
    bool revoked; // has been revoked: all calls return at once, with undefined results
    bool (*keeps_waiting)(void *survivor, double begun); // nccl asks it; returns false when revoked
    int missing; // rank for which the failed call waited (-1 if it failed for another reason)
    // Replaces tcp's algorithms for all_reduce and barrier (step 05's reduce_order.h), unless NULL.
    void (*tcp_all_reduce)(struct Mesh *mesh, const struct Collective *collective);
    struct Wire *wire; // replaces all that tcp sends (beyond/gloo), unless NULL

    // Fields of a subgroup (extras/hierarchical).
    struct ProcessGroup *parent; // the group whose subgroup it is; NULL for the group of all ranks
    int *members; // global rank of each rank in this group; NULL if they are equal
    char name[GROUP_NAME_BYTES]; // for messages; "" for the group of all ranks

    // Fields of the group of all ranks.
    bool owns_store; // init opened the store, and destroy closes it
    struct Nodes *nodes; // which ranks share a node (backend.h); NULL if all do, or if unknown
    struct Staging *staging; // copies GPU memory through the host (backend.h); NULL if not needed
    struct { // this rank's calls, those on subgroups included
        struct Observer *observers; // list of observers of these calls (backend.h); NULL if empty
        uint64_t count;
        const char *error_suffix; // end of a failed call's message: "; see ...", or ""
    } calls;
} ProcessGroup;

/* A collective that has been started and not yet waited for. A value, nothing to free. */
typedef struct {
    ProcessGroup *pg;
    long ticket; // what the backend's start returned
} Work;

/* Starts to replace gradients by their mean over all ranks (ddp.h). */
typedef Work (*CommHook)(void *state, float *grads, size_t numel);

/* Forms the group, as torch.distributed.init_process_group does: rank 0 serves a store at
 * master_addr:master_port, unless a launcher's agent does, through which all ranks find each other.
 * Names a rank that does not come, or that comes with other options, and dies. With mpi the ranks
 * find each other through MPI, which names none; there is no store, and address and port are not
 * used (NULL and 0 will do). If ranks share a GPU, nccl is a usage error, and auto takes tcp. Data
 * of later calls is in `place`, or in host memory, which with a GPU costs a copy and makes starting
 * a call wait. */
void process_group_init(ProcessGroup *pg, const Args *args, const char *master_addr,
                        int master_port, int rank, int world_size, MemoryLocation place);

/* Forms the group over an open store, which the caller keeps. */
void process_group_init_store(ProcessGroup *pg, const Args *args, Store *store, int rank,
                              int world_size, MemoryLocation place);

/* Begins process_group_init, without waiting for other ranks: see step 05's reconfigure.h. */
void process_group_open(ProcessGroup *pg, const Args *args, const char *master_addr,
                        int master_port, int rank, int world_size, MemoryLocation place);

/* Sets which ranks share a node: those that pass the same number. With --all-reduce hierarchical, a
 * Reducer made later averages long buckets in stages, inside the nodes and between them
 * (extras/hierarchical), unless there is only one node, or one rank on each, which rank 0 logs.
 * Call it once, with the args that formed the group. */
void process_group_set_nodes(ProcessGroup *pg, const Args *args, int node);

/* Makes the subgroup of these ranks of pg, renumbered from 0, as torch.distributed.new_group does.
 * It shares connections, queue and timeout with pg, so the calls of both keep their order; in a
 * rank that is in none (count 0) it must not be used. Only tcp executes calls on it. Sends nothing,
 * so every rank may make its own. Free it when all calls on it have been waited for. Local. */
void process_group_new(ProcessGroup *sub, ProcessGroup *pg, const int *ranks, int count,
                       const char *name);
void subgroup_free(ProcessGroup *sub);

/* Waits for all ranks, then closes the connections, and the store if init opened it: another group
 * may then be formed at its address. Before it ends, rank 0 writes traces and profiles of all
 * ranks, and on several nodes it logs what all_reduce has sent (hierarchy_leaving). */
void process_group_destroy(ProcessGroup *pg);

/* Tells the other ranks that this one is alive though it is late, as when it waits for a disk: the
 * timeouts of the calls in which they wait start again (not on mpi). Call it every few
 * milliseconds, from the thread that makes the calls; most calls do nothing. Local. */
void process_group_keep_alive(ProcessGroup *pg);

/* Counts are in elements, 0 allowed. Sums of integers wrap around, means are rounded towards zero.
 * reduce leaves the other ranks' data unchanged. */
void all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op);
void broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root);
void reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root);
/* Below, `count` is each rank's share: the longer array holds world_size shares in the order of the
 * ranks, and with a root only the root's is used. In and out must not overlap; but as in NCCL, the
 * short array of all_gather and reduce_scatter may be this rank's share of the long one, whose
 * other shares reduce_scatter then leaves undefined. */
void gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
void all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type);
void scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
void reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                    ReduceOp op);
void barrier(ProcessGroup *pg);
/* Calls are executed in order: of two ranks that swap messages, one must receive first. */
void pg_send(ProcessGroup *pg, const void *data, size_t count, DType type, int to);
void pg_recv(ProcessGroup *pg, void *data, size_t count, DType type, int from);

/* Start a collective: the data must not be touched until work_wait returns.
 *
 * With nccl these may be called while the GPU's stream is captured into a graph: on GPU memory, for
 * calls made before (NCCL connects ranks at the first), each waited for before the capture ends.
 * While the graph is replayed (MemoryLocation.replaying) they only count, for the sequence numbers
 * in messages and the timeout, and queue nothing. */
Work all_reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op);
Work broadcast_async(ProcessGroup *pg, void *data, size_t count, DType type, int root);
Work reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root);
Work all_gather_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type);
Work reduce_scatter_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                          ReduceOp op);

/* Waits until the data may be used: by the host; or on a GPU by work queued on its stream from now
 * on (nccl then does not block the host; for the others see staging_start). */
void work_wait(Work work);

/* All-reduces one number per rank, in host memory whatever the group's place. */
double all_reduce_scalar(ProcessGroup *pg, double value, ReduceOp op);

/* Applies check_divergence to ranks that average their gradients: all of them have diverged, or
 * none has. Rank 0 names those whose own loss was the first that was not finite. */
void all_check_divergence(ProcessGroup *pg, const Args *args, Divergence mine);

#endif
