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

typedef struct ProcessGroup {
    int rank, world_size;
    Store *store;
    int64_t number; // counts the groups that this job forms: names its keys in the store
    Place place; // where the data of collectives lies
    double timeout; // seconds
    bool check_collectives; // compare fingerprints on backends that do not do so anyway
    uint64_t sequence; // collectives started so far
    const struct Backend *backend;
    void *state; // the backend's own
} ProcessGroup;

/* A collective that has been started and not yet waited for. A value, nothing to free. */
typedef struct {
    ProcessGroup *pg;
    long ticket;
} Work;

/* Forms the group over the store. All ranks must agree on backend, device and world size; who does
 * not is named. args: backend, timeout, check_collectives. Data of later calls lies in `place`. */
void process_group_init(ProcessGroup *pg, const Args *args, Store *store, int rank, int world_size,
                        Place place);

/* Waits for all ranks, then closes the connections. */
void process_group_destroy(ProcessGroup *pg);

/* Counts are in elements, 0 allowed. The mean of integers is rounded towards zero. */
void all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op);
void broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root);
void reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root);
/* The other ranks' data is left as it was by reduce. Below, `count` is each rank's share: the
 * longer array holds world_size shares in the order of the ranks, and matters on the root only
 * where there is one. In and out must not overlap. */
void gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
void all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type);
void scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root);
void reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                    ReduceOp op);
void barrier(ProcessGroup *pg);
void pg_send(ProcessGroup *pg, const void *data, size_t count, DType type, int to);
void pg_recv(ProcessGroup *pg, void *data, size_t count, DType type, int from);

/* The same, started only: the data must be left alone until work_wait. */
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

/* Waits until the data may be used: by the host, or by work queued on the GPU's stream from now on
 * (then it does not block the host). */
void work_wait(Work work);

/* One number of each rank, in host memory wherever the group's data lies. */
double all_reduce_scalar(ProcessGroup *pg, double value, ReduceOp op);

#endif
