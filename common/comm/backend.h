/* backend.h - what tcp, mpi and nccl must provide.
 *
 * One struct describes any collective. A backend is a table of functions that queue it, compare it
 * with the other ranks' and execute it. */
#ifndef COMMON_COMM_BACKEND_H
#define COMMON_COMM_BACKEND_H

#include "common/comm/process_group.h"

typedef enum {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    GATHER,
    ALL_GATHER,
    SCATTER,
    REDUCE_SCATTER,
    BARRIER,
    SEND,
    RECV,
} CollectiveKind;

/* A collective call, as made by this rank. */
typedef struct Collective {
    const ProcessGroup *pg;
    uint64_t op_id; // number of earlier calls of any kind by this rank, on all groups
    uint64_t sequence; // number of earlier collectives on this group
    CollectiveKind kind;
    DType type;
    ReduceOp op;
    size_t count;
    int root; // rank in pg of the root, or of the peer for send and recv
    const void *in; // equal to out if the call works in place
    void *out;
    bool async; // the caller continues, and may call work_wait much later
} Collective;

typedef struct Backend {
    const char *name;
    const char *remedy; // how to get this backend if the build lacks it; else NULL
    // Compares pg->options, for ranks that find each other without a store. NULL if they use one.
    void (*compare)(const ProcessGroup *pg);
    bool reads_gpu; // accepts GPU memory (else data goes through extras/staging)
    void (*check)(int rank, int world_size); // usage error if impossible, before any wait; or NULL
    // Returns the backend that these ranks can use with their devices: this one, or another with
    // --backend auto. Dies if there is none. Collective over the store. NULL if always this one.
    const struct Backend *(*adapt)(const ProcessGroup *pg, const Args *args);
    void *(*init)(ProcessGroup *pg); // returns the state that the functions below take. Collective
    long (*start)(void *state, const Collective *collective); // queues it, returns its op_id
    void (*wait)(void *state, long ticket); // waits for the call with this op_id
    void (*keep_alive)(void *state); // see process_group_keep_alive; NULL if not supported
    void (*destroy)(void *state, ProcessGroup *pg); // collective
    void *(*stream)(void *state); // the cudaStream_t of all calls; NULL if the host executes them
} Backend;

extern const Backend backend_tcp;
extern const Backend backend_mpi; // in builds without MPI: comm_no_mpi.c
extern const Backend backend_nccl; // in builds without NCCL: comm_no_nccl.c

/* Makes the process that serves the store exit last. Call it before this rank exits for a reason
 * that `present` ranks find at the same time, each with its own connection to the store. */
void process_group_leave(const ProcessGroup *pg, Store *store, int present);

#define STORE_KEY_BYTES 64
/* Writes the store key of a value that the group or a rank publishes to `key`, and returns that. */
char *process_group_key(const ProcessGroup *pg, const char *what, int rank,
                        char key[STORE_KEY_BYTES]);

/* Returns whether the rank with this line has the same pg->options. If not, ranks_disagree names
 * the first one that differs, and dies. */
bool options_agree(const ProcessGroup *pg, const char *line);
_Noreturn void ranks_disagree(const ProcessGroup *pg, const char *line);

/* Connects the ranks: the last part of forming a group. */
void process_group_connect(ProcessGroup *pg, const Args *args);

const char *collective_name(CollectiveKind kind); // "all_reduce"
bool collective_is_point_to_point(CollectiveKind kind); // whether it is send or recv

/* Return the group of all ranks (pg itself, or the one it is a subgroup of), and a rank's number
 * there, as used in messages. */
ProcessGroup *process_group_root(const ProcessGroup *pg);
int process_group_global_rank(const ProcessGroup *pg, int rank);

#define DESCRIPTION_BYTES 192
/* Writes "all_reduce #12 of 18432 float32 (sum)", for messages, to text, and returns text. */
char *collective_describe(const Collective *collective, char text[DESCRIPTION_BYTES]);

#define RANK_LIST_BYTES 256
/* Lists the ranks with has[rank]: "ranks 0 to 2, 5 and 7", cut off if too long. Returns text. */
char *rank_list(const bool *has, int world_size, char text[RANK_LIST_BYTES]);
int rank_count(const bool *has, int world_size);

/* ---- observers, which see the progress of every call ---- */

typedef enum {
    // These names are those of PyTorch's Flight Recorder.
    COLLECTIVE_SCHEDULED, // called, not begun. Reported by the calling thread
    COLLECTIVE_STARTED, // in progress. Any thread may report this and the next two
    COLLECTIVE_COMPLETED, // its data may be used
    COLLECTIVE_FAILED, // this rank gives up, and exits once all ranks know
    // Steps of the calling thread, independent of the states above.
    COLLECTIVE_QUEUED, // the backend has it
    COLLECTIVE_AWAITED, // work_wait begins; only pg and op_id are set
    COLLECTIVE_RETURNED, // work_wait returns; only pg and op_id are set
} CollectiveState;

typedef struct Observer {
    /* Called when a call has reached this state. collective->op_id identifies it; only its pointer
     * pg is valid. Must return quickly, because the collective waits. */
    void (*see)(void *context, const Collective *collective, CollectiveState state);
    void *context;
    struct Observer *next; // in the group's list
} Observer;

/* Registers an observer of the calls on the group of all ranks and on all its subgroups. Call it
 * while none is in progress; the observer must not move until the group is destroyed. Local. */
void process_group_observe(ProcessGroup *pg, Observer *observer);

/* Notifies the observers. A backend reports STARTED, COMPLETED and FAILED as far as it can, but
 * nccl's host does not see the first two. */
void collective_report(const Collective *collective, CollectiveState state);

/* ---- what extras add to the group of all ranks (extras/group; comm_no_extras.c without) ---- */

void group_extras_check(const ProcessGroup *pg,
                        const Args *args); // usage error: options do not suit
void group_extras_formed(ProcessGroup *pg, const Args *args); // the group is formed. Collective
void group_extras_leaving(ProcessGroup *pg); // all ranks are still connected. Collective
void group_extras_waits_for(const struct Mesh *mesh, int rank); // tcp has waited for it for a while

/* The nodes of the ranks, if there are several (extras/hierarchical). */
typedef struct Nodes {
    int *node_of; // each global rank's node, numbered in the order of the nodes' first ranks
    int num_nodes;
    CommHook comm_hook; // for Reducers, with this struct as state; NULL if all_reduce is flat
    /* Called when tcp has sent a message of a call. */
    void (*count_sent)(struct Nodes *nodes, const Collective *collective, int to, size_t bytes);
} Nodes;

/* GPU memory for backends that only reach the host's (extras/staging). All calls of a group and its
 * subgroups go through it. Starting one blocks the host until the GPU has done what was queued
 * before and the input is in host memory; waiting for it blocks the host until its result and those
 * of earlier calls are on the GPU. Data in host memory is not copied. Local. */
extern const bool has_staging; // whether this build has it
struct Staging *staging_init(const ProcessGroup *pg);
long staging_start(struct Staging *staging, const Collective *collective); // like Backend's start
void staging_wait(struct Staging *staging, long ticket);
void staging_free(struct Staging *staging); // call it after all calls have been waited for

/* ---- the arithmetic (reduce_ops.c) ---- */

/* Sets out[i] = a[i] op b[i]; a mean is a sum until reduce_finish. out may equal a or b, but not
 * overlap them otherwise. Sums of integers wrap around. */
void reduce_elements(void *out, const void *a, const void *b, size_t count, DType type,
                     ReduceOp op);

/* Finishes a reduction over n ranks: divides a mean by n, rounding integers towards zero. */
void reduce_finish(void *data, size_t count, DType type, ReduceOp op, int n);

#endif
