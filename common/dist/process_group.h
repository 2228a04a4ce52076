/*
 * process_group.h - the ranks that train together, and what they do together.
 *
 * Every function that takes a ProcessGroup is collective: all ranks must call it, in the same order
 * and with the same count, type and operation (send and recv: the two ranks concerned). A rank that
 * loses another, or waits longer than the timeout, says which one in a line and exits; its launcher
 * does the rest. Names and meaning are those of torch.distributed.
 */
#ifndef COMMON_DIST_PROCESS_GROUP_H
#define COMMON_DIST_PROCESS_GROUP_H

#include "common/base/args.h"
#include "common/base/place.h"
#include "common/base/tensor.h"
#include "common/dist/store.h"

typedef enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN } ReduceOp;

#define GROUP_NAME_BYTES 48

typedef struct ProcessGroup {
    int rank, world_size;
    Store *store; // NULL: there is none
    bool owns_store; // init opened it, destroy closes it
    int64_t number; // counts the groups that this job forms: names its keys in the store
    Place place; // where the data of collectives lies
    double timeout; // seconds
    bool check_collectives; // compare fingerprints on backends that do not do so anyway
    uint64_t sequence; // collectives started so far
    const struct Backend *backend;
    void *state; // the backend's own
    struct Staging *staging; // takes GPU memory through the host; NULL: the backend needs no help
    int mean_ranks; // what REDUCE_MEAN divides by: world_size
    bool fixed_order; // all_reduce adds up as the tree of args_shards does (tcp, not in parts)

    struct ProcessGroup *parent; // of which it is a part; NULL: formed by init, of all ranks
    int *members; // their ranks in the group of all, by rank here; NULL: the same
    char name[GROUP_NAME_BYTES]; // for messages; "" for the group of all ranks
    struct Nodes *nodes; // which ranks share one; NULL: not known
    struct Traffic *traffic; // counts what is sent; NULL: nothing does
    struct Observer *observers; // see all calls, those on parts too (observer.h); NULL: nobody does
    uint64_t num_ops; // of this rank, on the group and its parts; parts do not count
    const char *advice; // ends the message of a call that fails: "; see ..."; or NULL
    int num_splits; // made of this group so far: the same on all ranks
    int num_parts; // of those in which this rank is, how many are not destroyed
} ProcessGroup;

/* A collective that has been started and not yet waited for. A value, nothing to free. */
typedef struct {
    ProcessGroup *pg;
    long ticket;
} Work;

/* Forms the group, as torch.distributed.init_process_group does: rank 0 serves a store at
 * master_addr:master_port, unless a launcher's agent does, and all ranks meet there. They must
 * agree on backend, device, world size, --all-reduce and --reduce-order; who does not, or does not
 * come, is named. With backend mpi the ranks meet through MPI, which names nobody; address and port
 * are not used (NULL and 0 will do) and there is no store. args: backend, timeout,
 * check_collectives, all_reduce (usage error on backends that know the nodes themselves),
 * reduce_order (usage error on backends whose order is their own). Data of later calls lies in
 * `place`, or in host memory, which on a GPU costs a detour and makes starting a call wait. Of
 * several ranks on one GPU nccl makes a usage error, auto a tcp group. */
void process_group_init(ProcessGroup *pg, const Args *args, const char *master_addr,
                        int master_port, int rank, int world_size, Place place);

/* The group that process_group_init has formed last and that is not destroyed, as torch.distributed
 * has a default group; NULL: there is none. For those who sum over the ranks and are handed no
 * group, such as metrics. Local. */
ProcessGroup *process_group_default(void);

/* The same over a store that is open already, and stays the caller's. */
void process_group_init_store(ProcessGroup *pg, const Args *args, Store *store, int rank,
                              int world_size, Place place);

/* Cuts pg into groups, as MPI_Comm_split does: ranks of equal color form one, in the order of their
 * ranks in pg. A rank of color < 0 is in none: its sub has world_size 0. Everything else is pg's.
 * What a rank calls on pg and on its parts is carried out in the order of the calls: so all
 * ranks' calls, async ones too, must fit into one order over pg and all its parts. Collective on
 * pg. */
void process_group_split(ProcessGroup *sub, ProcessGroup *pg, int color);

/* The rank in the group of all ranks, by which messages name it. Local. */
int process_group_global_rank(const ProcessGroup *pg, int rank);

/* Says which ranks share a machine: those that give the same number. From then on, with args
 * --all-reduce hierarchical, long all_reduces are done in stages, inside the nodes and between them
 * (hierarchy.h), unless there is but one node, or one rank on each; rank 0 says so. To be called
 * once, on the group of all ranks, with the args that formed it. */
void process_group_set_nodes(ProcessGroup *pg, const Args *args, int node);

/* Waits for all ranks, then closes the connections, and the store if init opened it. Parts come
 * before what they are a part of. On several nodes, rank 0 says what all_reduce has sent (tcp). */
void process_group_destroy(ProcessGroup *pg);

/* Counts are in elements, 0 allowed. Sums of integers wrap around, means are rounded towards zero.
 */
void all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op);
void broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root);
void reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root);
/* The other ranks' data is left as it was by reduce. Below, `count` is each rank's share: the
 * longer array holds world_size shares in the order of the ranks, and matters on the root only
 * where there is one. In and out must not overlap; but as in NCCL, the short array of all_gather
 * and reduce_scatter may be this rank's share of the long one, whose other shares reduce_scatter
 * leaves in any state then. */
void gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
void all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type);
void scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
void reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                    ReduceOp op);
void barrier(ProcessGroup *pg);
/* Calls are carried out one after the other: of two ranks that swap messages, one must receive
 * first. */
void pg_send(ProcessGroup *pg, const void *data, size_t count, DType type, int to);
void pg_recv(ProcessGroup *pg, void *data, size_t count, DType type, int from);

/* The same, started only: the data must be left alone until work_wait.
 *
 * With nccl these may be called while the GPU's stream is captured into a graph: on GPU memory,
 * with calls that were made before (NCCL connects ranks at their first), and each waited for before
 * the capture ends. While the graph is replayed (Place.replaying) they count, so that numbers in
 * messages and the timeout mean the same as ever, and queue nothing. */
Work all_reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op);
Work broadcast_async(ProcessGroup *pg, void *data, size_t count, DType type, int root);
Work reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root);
Work gather_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
Work all_gather_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type);
Work scatter_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
Work reduce_scatter_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                          ReduceOp op);
Work pg_send_async(ProcessGroup *pg, const void *data, size_t count, DType type, int to);
Work pg_recv_async(ProcessGroup *pg, void *data, size_t count, DType type, int from);

/* Waits until the data may be used: by the host; or on a GPU by work queued on its stream from now
 * on (then nccl does not block the host, see staging.h for the others). */
void work_wait(Work work);

/* One number of each rank, in host memory wherever the group's data lies. */
double all_reduce_scalar(ProcessGroup *pg, double value, ReduceOp op);

#endif
