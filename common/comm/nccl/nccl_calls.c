/*
 * Each call becomes an NCCL call on a separate stream.
 *
 *     compute stream         --+--- backward pass goes on ---+-- optimizer -->
 *                        ready |                             | done
 *     communication stream     +------- ncclAllReduce -------+
 *
 * Events order the streams in both directions, and the host waits for neither. Data in host memory
 * goes through device memory; then the host waits.
 *
 * While the compute stream is captured (--cuda-graph), all this becomes part of the graph, NCCL
 * calls included. Each kind of call must have run before, since NCCL connects ranks at the first;
 * each must be waited for before the capture ends; calls that need the host are refused. While the
 * graph is replayed (MemoryLocation.replaying) calls are counted and nothing is queued.
 */
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/library_calls.h"
#include "common/comm/nccl/nccl_group.h"

#define ALIGNMENT 256

/* gather and scatter, which NCCL leaves to its users: grouped sends and receives. */
static ncclResult_t gather_or_scatter(const NcclGroup *group, const Collective *c,
                                      ncclDataType_t type)
{
    const size_t share = c->count * dtype_size(c->type);
    const bool gathers = c->kind == GATHER;
    const struct NcclLibrary *lib = &group->nccl->lib;
    const ncclComm_t comm = group->comm;
    const cudaStream_t stream = group->nccl->stream;
    ncclResult_t result = lib->group_start();
    if (c->pg->rank == c->root)
        for (int i = 0; i < c->pg->world_size && result == ncclSuccess; i++)
            result = gathers ? lib->recv((char *)c->out + (size_t)i * share, c->count, type, i,
                                         comm, stream)
                             : lib->send((const char *)c->in + (size_t)i * share, c->count, type, i,
                                         comm, stream);
    if (result == ncclSuccess)
        result = gathers ? lib->send(c->in, c->count, type, c->root, comm, stream)
                         : lib->recv(c->out, c->count, type, c->root, comm, stream);
    const ncclResult_t end = lib->group_end(); // needed even after an error
    return result == ncclSuccess ? end : result;
}

static ncclResult_t issue(const NcclGroup *group, const Collective *c)
{
    static const ncclDataType_t types[] = {
        [FLOAT32] = ncclFloat32, [BFLOAT16] = ncclBfloat16, [FLOAT64] = ncclFloat64,
        [INT32] = ncclInt32,     [INT64] = ncclInt64,       [UINT8] = ncclUint8
    };
    static const ncclRedOp_t ops[] = { ncclSum, ncclAvg, ncclMax, ncclMin }; // as ReduceOp
    const Nccl *nccl = group->nccl;
    const struct NcclLibrary *lib = &nccl->lib;
    const ncclComm_t comm = group->comm;
    const cudaStream_t stream = nccl->stream;
    const ncclDataType_t type = types[c->type];
    const ncclRedOp_t op = ops[c->op];
    switch (c->kind) {
    case ALL_REDUCE:
        return lib->all_reduce(c->in, c->out, c->count, type, op, comm, stream);
    case BROADCAST:
        return lib->broadcast(c->in, c->out, c->count, type, c->root, comm, stream);
    case REDUCE: // the other ranks' data is unchanged
        return lib->reduce(c->in, c->pg->rank == c->root ? c->out : NULL, c->count, type, op,
                           c->root, comm, stream);
    case GATHER:
    case SCATTER:
        return gather_or_scatter(group, c, type);
    case ALL_GATHER:
        return lib->all_gather(c->in, c->out, c->count, type, comm, stream);
    case REDUCE_SCATTER:
        return lib->reduce_scatter(c->in, c->out, c->count, type, op, comm, stream);
    case BARRIER: // a sum of one element: NCCL does not synchronise on none
        return lib->all_reduce(nccl->scratch, nccl->scratch, 1, ncclUint8, ncclSum, comm, stream);
    case SEND:
        return lib->send(c->in, c->count, type, c->root, comm, stream);
    case RECV:
        return lib->recv(c->out, c->count, type, c->root, comm, stream);
    }
    return ncclInvalidArgument;
}

/* ---- into the stream ---- */

static bool is_replayed(const ProcessGroup *pg)
{
    return pg->place.replaying != NULL && *pg->place.replaying;
}

/* The watchdog learns of a call before NCCL does, which may not return. */
static NcclCall *call_begin(NcclGroup *group, const Collective *shown)
{
    Nccl *nccl = group->nccl;
    pthread_mutex_lock(&nccl->mutex);
    NcclCall *call = &nccl->call[nccl->started % NCCL_MAX_CALLS];
    call->ticket = nccl->started++;
    call->collective = *shown;
    call->state = CALL_STARTING;
    if (nccl->finished == call->ticket)
        nccl->since = seconds_now();
    if (!collective_is_point_to_point(shown->kind))
        group->num_calls = shown->sequence + 1;
    pthread_mutex_unlock(&nccl->mutex);
    return call;
}

/* Queues a call on device memory and returns its ticket. Messages describe it as `shown`. */
static NcclCall *enqueue(NcclGroup *group, const Collective *c, const Collective *shown)
{
    const ProcessGroup *pg = group->pg;
    Nccl *nccl = group->nccl;
    const cudaStream_t compute = pg->place.stream;
    NcclCall *call = call_begin(group, shown);
    const bool captured = cuda_is_captured(compute);
    nccl->recorded |= captured;
    if (is_replayed(pg)) { // the step's graph, which has been launched, makes the call
        CUDA_CHECK(cudaEventRecord(call->done, compute));
    } else {
        CUDA_CHECK(cudaEventRecord(nccl->ready, compute));
        CUDA_CHECK(cudaStreamWaitEvent(nccl->stream, nccl->ready, 0));
        if (c->count > 0 || c->kind == BARRIER)
            NCCL_CHECK(nccl, collective_name(c->kind), issue(group, c));
        CUDA_CHECK(cudaEventRecord(call->done, nccl->stream));
    }
    pthread_mutex_lock(&nccl->mutex);
    call->state = captured ? CALL_RECORDED : CALL_QUEUED;
    pthread_mutex_unlock(&nccl->mutex);
    return call;
}

/* ---- host memory, and what only the host can do ---- */

static void copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    if (bytes > 0)
        CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

/* Device memory of at least so many bytes at nccl->scratch. */
static void reserve(Nccl *nccl, size_t bytes)
{
    if (bytes <= nccl->scratch_bytes)
        return;
    CUDA_CHECK(cudaStreamSynchronize(nccl->stream));
    CUDA_CHECK(cudaFree(nccl->scratch));
    CUDA_CHECK(cudaMalloc((void **)&nccl->scratch, bytes));
    nccl->scratch_bytes = bytes;
}

/* NCCL versions round means of integers differently: NCCL adds, and the host divides. */
static bool host_divides(const Collective *c)
{
    const bool reduces = c->kind == ALL_REDUCE || c->kind == REDUCE || c->kind == REDUCE_SCATTER;
    const bool is_integer = c->type == INT32 || c->type == INT64 || c->type == UINT8;
    return reduces && c->op == REDUCE_MEAN && is_integer;
}

/* The call through device memory and back, complete on return. */
static NcclCall *start_by_host(NcclGroup *group, const Collective *c, const Collective *shown)
{
    Nccl *nccl = group->nccl;
    const cudaStream_t compute = group->pg->place.stream;
    size_t in_bytes, out_bytes;
    collective_extents(c, &in_bytes, &out_bytes);

    Collective device = *c;
    const size_t longest = in_bytes > out_bytes ? in_bytes : out_bytes;
    const size_t room = (longest + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    reserve(nccl, 2 * room);
    device.in = nccl->scratch;
    device.out = nccl->scratch + (c->in == c->out ? 0 : room);
    if (host_divides(c))
        device.op = REDUCE_SUM;
    copy((void *)device.in, c->in, in_bytes, compute);
    NcclCall *call = enqueue(group, &device, shown);
    CUDA_CHECK(cudaStreamWaitEvent(compute, call->done, 0));

    void *result = host_divides(c) ? mem_calloc(1, out_bytes) : c->out;
    copy(result, device.out, out_bytes, compute);
    CUDA_CHECK(cudaStreamSynchronize(compute));
    if (host_divides(c)) {
        reduce_finish(result, out_bytes / dtype_size(c->type), c->type, c->op,
                      group->pg->mean_ranks);
        copy(c->out, result, out_bytes, compute);
        CUDA_CHECK(cudaStreamSynchronize(compute));
        free(result);
    }
    return call;
}

/* Exchanges what each rank is about to call. Blocks, and so is off by default. */
static void compare_calls(NcclGroup *group, const Collective *collective)
{
    const ProcessGroup *pg = group->pg;
    Collective *all = mem_calloc((size_t)pg->world_size, sizeof *all);
    const Collective show = { .pg = pg,
                              .kind = ALL_GATHER,
                              .type = UINT8,
                              .count = sizeof *all,
                              .in = collective,
                              .out = all };
    start_by_host(group, &show, collective);
    collectives_compare(pg, all);
    free(all);
}

long nccl_start(void *state, const Collective *c)
{
    NcclGroup *group = state;
    const ProcessGroup *pg = group->pg;
    size_t in_bytes, out_bytes;
    collective_extents(c, &in_bytes, &out_bytes);
    const bool graph = cuda_is_captured(pg->place.stream) || is_replayed(pg);
    const bool by_host =
        c->count > 0 && (host_divides(c) || (in_bytes > 0 && !cuda_is_on_gpu(c->in)) ||
                         (out_bytes > 0 && !cuda_is_on_gpu(c->out)));
    char text[DESCRIPTION_BYTES];
    CHECK(!graph || (!by_host && c->kind != BARRIER),
          "%s: a graph cannot record what needs the host", collective_describe(c, text));

    // Captured calls have been compared before.
    if (pg->check_collectives && !collective_is_point_to_point(c->kind) && !graph)
        compare_calls(group, c);
    NcclCall *call = by_host ? start_by_host(group, c, c) : enqueue(group, c, c);
    const long ticket = call->ticket;
    if (c->kind == BARRIER)
        CUDA_CHECK(cudaStreamSynchronize(group->nccl->stream)); // the watchdog bounds the wait
    return ticket;
}

/* If a later call has the slot by now, it ends after ours. */
void nccl_wait(void *state, long ticket)
{
    const NcclGroup *group = state;
    const NcclCall *call = &group->nccl->call[ticket % NCCL_MAX_CALLS];
    CUDA_CHECK(cudaStreamWaitEvent((cudaStream_t)group->pg->place.stream, call->done, 0));
}
