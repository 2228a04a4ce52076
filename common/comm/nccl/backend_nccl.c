/* The nccl backend: hands each collective to NVIDIA's NCCL, which moves it from GPU to GPU.
 *
 *     compute stream         --+--- backward pass goes on ---+-- optimizer -->
 *                        ready |                             | done
 *     communication stream     +------- ncclAllReduce -------+
 *
 * Events order the streams in both directions, and the host waits for neither. Data in host memory
 * goes through device memory; then the host waits. Ranks find each other through the store, and a
 * watchdog thread (nccl_watch.c) supervises every call, since neither a GPU that waits for another
 * rank has a timeout, nor a call that creates the communicator. PyTorch's ProcessGroupNCCL does the
 * same.
 *
 * While the compute stream is captured (--cuda-graph), all this becomes part of the graph, NCCL
 * calls included; process_group.h documents what holds for these. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/library_calls.h"
#include "common/comm/nccl/nccl_group.h"

#define LIBRARY "libnccl.so.2"
#define NEEDED_BY "--backend nccl"
#define ALIGNMENT 256
#define SCRATCH_BYTES 4096

/* ---- calling NCCL ---- */

/* In a group that survives, waits on the host until the call in progress, or `done`, is complete.
 * If the group is lost meanwhile, aborts what NCCL does, so that the streams go on. */
static void outlive(Nccl *nccl, ncclResult_t result, const NcclCall *call)
{
    ProcessGroup *pg = nccl->pg;
    const double begun = seconds_awake();
    while (pg->survivor != NULL && !pg->revoked &&
           (call != NULL ? cudaEventQuery(call->done) == cudaErrorNotReady
                         : result == ncclInProgress) &&
           pg->keeps_waiting(pg->survivor, begun))
        if (call == NULL)
            nccl->lib.comm_get_async_error(nccl->comm, &result);
    pg->revoked = pg->revoked || (pg->survivor != NULL && result != ncclSuccess);
    if (pg->revoked && nccl->comm != NULL)
        nccl->lib.comm_abort(atomic_exchange(&nccl->comm, NULL));
}

void nccl_check(Nccl *nccl, ncclResult_t result, const char *name)
{
    if (result == ncclSuccess)
        return;
    outlive(nccl, result, NULL);
    if (nccl->pg->survivor != NULL)
        return;
    CHECK(result != ncclInProgress, "%s: unset NCCL_COMM_BLOCKING, or set it to 1", name);
    const char *error = nccl->lib.error_string(result), *more = nccl->lib.last_error(NULL);
    if (result == ncclInvalidArgument || result == ncclInvalidUsage ||
        result == ncclUnhandledCudaError)
        die("%s: %s: %s", name, error, more);
    pthread_mutex_lock(&nccl->mutex);
    snprintf(nccl->failure, sizeof nccl->failure, "%s: %s", error, more);
    const bool is_watched = !nccl->closing;
    pthread_mutex_unlock(&nccl->mutex);
    CHECK(is_watched, "%s: %s", name, nccl->failure);
    for (;;)
        pause(); // the watchdog finds the rank to blame and ends the process
}

/* Returns true for means of integers: the host divides, since NCCL versions round differently. */
static bool host_divides(const Collective *c)
{
    const bool reduces = c->kind == ALL_REDUCE || c->kind == REDUCE || c->kind == REDUCE_SCATTER;
    const bool is_integer = c->type == INT32 || c->type == INT64 || c->type == UINT8;
    return reduces && c->op == REDUCE_MEAN && is_integer;
}

/* Does gather and scatter, which NCCL leaves to its users, by grouped sends and receives. */
static ncclResult_t gather_or_scatter(const Nccl *nccl, const Collective *c, ncclDataType_t type)
{
    const size_t share = c->count * dtype_size(c->type);
    const bool gathers = c->kind == GATHER;
    const struct NcclLibrary *lib = &nccl->lib;
    const ncclComm_t comm = nccl->comm;
    const cudaStream_t stream = nccl->stream;
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

static ncclResult_t issue(const Nccl *nccl, const Collective *c)
{
    static const ncclDataType_t types[] = {
        [FLOAT32] = ncclFloat32, [BFLOAT16] = ncclBfloat16, [FLOAT64] = ncclFloat64,
        [INT32] = ncclInt32,     [INT64] = ncclInt64,       [UINT8] = ncclUint8
    };
    static const ncclRedOp_t ops[] = { ncclSum, ncclAvg, ncclMax, ncclMin }; // as ReduceOp
    const struct NcclLibrary *lib = &nccl->lib;
    const ncclComm_t comm = nccl->comm;
    const cudaStream_t stream = nccl->stream;
    const ncclDataType_t type = types[c->type];
    const ncclRedOp_t op = host_divides(c) ? ncclSum : ops[c->op];
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
        return gather_or_scatter(nccl, c, type);
    case ALL_GATHER:
        return lib->all_gather(c->in, c->out, c->count, type, comm, stream);
    case REDUCE_SCATTER:
        return lib->reduce_scatter(c->in, c->out, c->count, type, op, comm, stream);
    case BARRIER: // a sum of one element, because NCCL does not synchronise on none
        return lib->all_reduce(nccl->scratch, nccl->scratch, 1, ncclUint8, ncclSum, comm, stream);
    case SEND:
        return lib->send(c->in, c->count, type, c->root, comm, stream);
    case RECV:
        return lib->recv(c->out, c->count, type, c->root, comm, stream);
    }
    return ncclInvalidArgument;
}

/* ---- into the stream ---- */

static bool is_replayed(const Nccl *nccl)
{
    const bool *replaying = nccl->pg->place.replaying;
    return replaying != NULL && *replaying;
}

/* Records a call for the watchdog before NCCL gets it, because NCCL may not return. */
static NcclCall *call_begin(Nccl *nccl, const Collective *c)
{
    const bool is_captured = cuda_is_captured(nccl->pg->place.stream);
    pthread_mutex_lock(&nccl->mutex);
    NcclCall *call = &nccl->call[nccl->started % NCCL_MAX_CALLS];
    call->ticket = nccl->started++;
    call->collective = *c;
    call->done = is_captured ? call->captured : call->called;
    call->queued = false;
    if (nccl->finished == call->ticket)
        nccl->since = seconds_awake();
    if (!collective_is_point_to_point(c->kind))
        nccl->num_calls = c->sequence + 1;
    pthread_mutex_unlock(&nccl->mutex);
    return call;
}

/* Queues a call on device memory. Messages describe it as `shown`. */
static NcclCall *enqueue(Nccl *nccl, const Collective *c, const Collective *shown)
{
    const cudaStream_t compute = nccl->pg->place.stream;
    NcclCall *call = call_begin(nccl, shown);
    if (is_replayed(nccl)) { // the step's graph, which has been launched, makes the call
        CUDA_CHECK(cudaEventRecord(call->done, compute));
    } else {
        CUDA_CHECK(cudaEventRecord(nccl->ready, compute));
        CUDA_CHECK(cudaStreamWaitEvent(nccl->stream, nccl->ready, 0));
        if (c->count > 0 || c->kind == BARRIER)
            NCCL_CHECK(nccl, collective_name(c->kind), issue(nccl, c));
        CUDA_CHECK(cudaEventRecord(call->done, nccl->stream));
    }
    pthread_mutex_lock(&nccl->mutex);
    call->queued = true;
    pthread_mutex_unlock(&nccl->mutex);
    return call;
}

/* ---- host memory, and what only the host can do ---- */

static void copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    if (bytes > 0)
        CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

/* Makes nccl->scratch device memory of at least this size. */
static void reserve(Nccl *nccl, size_t bytes)
{
    if (bytes <= nccl->scratch_bytes)
        return;
    CUDA_CHECK(cudaStreamSynchronize(nccl->stream));
    CUDA_CHECK(cudaFree(nccl->scratch));
    CUDA_CHECK(cudaMalloc((void **)&nccl->scratch, bytes));
    nccl->scratch_bytes = bytes;
}

static bool needs_host(const Collective *c)
{
    size_t in_bytes, out_bytes;
    collective_extents(c, &in_bytes, &out_bytes);
    return c->count > 0 && (host_divides(c) || (in_bytes > 0 && !cuda_is_on_gpu(c->in)) ||
                            (out_bytes > 0 && !cuda_is_on_gpu(c->out)));
}

/* Makes the call through device memory and back, complete on return. */
static NcclCall *start_by_host(Nccl *nccl, const Collective *c, const Collective *shown)
{
    const cudaStream_t compute = nccl->pg->place.stream;
    size_t in_bytes, out_bytes;
    collective_extents(c, &in_bytes, &out_bytes);

    Collective device = *c;
    const size_t longest = in_bytes > out_bytes ? in_bytes : out_bytes;
    const size_t room = (longest + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    reserve(nccl, 2 * room);
    device.in = nccl->scratch;
    device.out = nccl->scratch + (c->in == c->out ? 0 : room);
    copy((void *)device.in, c->in, in_bytes, compute);
    NcclCall *call = enqueue(nccl, &device, shown);
    outlive(nccl, ncclSuccess, call);
    CUDA_CHECK(cudaStreamWaitEvent(compute, call->done, 0));

    void *result = host_divides(c) ? mem_calloc(1, out_bytes) : c->out;
    copy(result, device.out, out_bytes, compute);
    CUDA_CHECK(cudaStreamSynchronize(compute));
    if (host_divides(c)) {
        reduce_finish(result, out_bytes / dtype_size(c->type), c->type, c->op,
                      nccl->pg->world_size);
        copy(c->out, result, out_bytes, compute);
        CUDA_CHECK(cudaStreamSynchronize(compute));
        free(result);
    }
    return call;
}

/* Exchanges what each rank is about to call. Blocks, and so is off by default. */
static void compare_calls(Nccl *nccl, const Collective *collective)
{
    const ProcessGroup *pg = nccl->pg;
    Collective *all = mem_calloc((size_t)pg->world_size, sizeof *all);
    const Collective exchange = { .pg = pg,
                                  .kind = ALL_GATHER,
                                  .type = UINT8,
                                  .count = sizeof *all,
                                  .in = collective,
                                  .out = all };
    start_by_host(nccl, &exchange, collective);
    collectives_compare(pg, all);
    free(all);
}

static long nccl_start(void *state, const Collective *c)
{
    Nccl *nccl = state;
    const ProcessGroup *pg = nccl->pg;
    const bool graph = cuda_is_captured(pg->place.stream) || is_replayed(nccl);
    const bool by_host = needs_host(c);
    char text[DESCRIPTION_BYTES];
    CHECK(!graph || (!by_host && c->kind != BARRIER),
          "%s: a graph cannot record what needs the host", collective_describe(c, text));

    // Captured calls have been compared before.
    if (pg->check_collectives && !collective_is_point_to_point(c->kind) && !graph)
        compare_calls(nccl, c);
    const NcclCall *call = by_host ? start_by_host(nccl, c, c) : enqueue(nccl, c, c);
    if (c->kind == BARRIER) {
        outlive(nccl, ncclSuccess, call);
        CUDA_CHECK(cudaStreamSynchronize(nccl->stream)); // the watchdog bounds the wait
    }
    return call->ticket;
}

/* Waits for the call's event. If a later call has the slot by now, it ends after ours. */
static void nccl_wait(void *state, long ticket)
{
    Nccl *nccl = state;
    const NcclCall *call = &nccl->call[ticket % NCCL_MAX_CALLS];
    outlive(nccl, ncclSuccess, call);
    CUDA_CHECK(cudaStreamWaitEvent((cudaStream_t)nccl->pg->place.stream, call->done, 0));
}

/* ---- the group ---- */

#define GPU_BYTES 192 // "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 of HOST"

/* Writes the GPU's UUID, which identifies it even if each rank sees only one, as number 0. NCCL
 * lets ranks share a GPU if configured to, or if they claim different hosts (NCCL_HOSTID), and so
 * do we. */
static void describe_gpu(const ProcessGroup *pg, char text[GPU_BYTES])
{
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, pg->place.index));
    char name[96] = "";
    gethostname(name, sizeof name - 1);
    const char *host_id = getenv("NCCL_HOSTID");
    int length = snprintf(text, GPU_BYTES, "GPU-");
    for (int i = 0; i < 16; i++)
        length += snprintf(text + length, GPU_BYTES - (size_t)length, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                           (unsigned char)properties.uuid.bytes[i]);
    length += snprintf(text + length, GPU_BYTES - (size_t)length, " of %s",
                       host_id != NULL ? host_id : name);
    if (nccl_may_share() && length < GPU_BYTES)
        snprintf(text + length, GPU_BYTES - (size_t)length, " for rank %d", pg->rank);
}

/* Finds two ranks that share a GPU, the same on all; NCCL reports it less clearly or not at all. */
static const Backend *nccl_or_tcp(const ProcessGroup *pg, const Args *args)
{
    char key[STORE_KEY_BYTES], reason[256] = "", text[GPU_BYTES] = "";
    describe_gpu(pg, text);
    store_set(pg->store, process_group_key(pg, "GPU of rank", pg->rank, key), text, strlen(text));
    char(*gpus)[GPU_BYTES] = mem_calloc((size_t)pg->world_size, GPU_BYTES);
    for (int rank = 0; rank < pg->world_size && reason[0] == '\0'; rank++) {
        process_group_key(pg, "GPU of rank", rank, key);
        store_get(pg->store, key, gpus[rank], GPU_BYTES - 1);
        for (int other = 0; other < rank; other++)
            if (strcmp(gpus[rank], gpus[other]) == 0)
                snprintf(reason, sizeof reason, "ranks %d and %d share %s", other, rank,
                         gpus[rank]);
    }
    free(gpus);
    if (reason[0] == '\0')
        return &backend_nccl;
    if (args->backend == BACKEND_AUTO && has_staging) {
        if (pg->rank == 0)
            log_info("%s, which nccl does not allow: --backend tcp takes their data through the "
                     "host (NCCL 2.30 and later can: " NCCL_MAY_SHARE "=1)",
                     reason);
        return &backend_tcp;
    }
    process_group_leave(pg, pg->store, pg->world_size);
    usage_error("--backend nccl wants a GPU for each rank, but %s: start fewer ranks on this "
                "node, use %s, or set " NCCL_MAY_SHARE "=1 (NCCL 2.30 and later)",
                reason, has_staging ? "--backend tcp, which may share one" : "--device cpu");
}

static void *nccl_init(ProcessGroup *pg)
{
    CUDA_CHECK(cudaSetDevice(pg->place.index));
    Nccl *nccl = mem_calloc(1, sizeof *nccl);
    nccl->pg = pg;
    nccl->lib = (struct NcclLibrary){ NCCL_FUNCTIONS(LIBRARY_FIND) };
    pthread_mutex_init(&nccl->in_use, NULL);
    pthread_mutex_init(&nccl->mutex, NULL);

    // High priority, because the computation waits for its results.
    int least, greatest;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&nccl->stream, cudaStreamNonBlocking, greatest));
    CUDA_CHECK(cudaEventCreateWithFlags(&nccl->ready, cudaEventDisableTiming));
    for (NcclCall *call = nccl->call; call < nccl->call + NCCL_MAX_CALLS; call++) {
        CUDA_CHECK(cudaEventCreateWithFlags(&call->called, cudaEventDisableTiming));
        CUDA_CHECK(cudaEventCreateWithFlags(&call->captured, cudaEventDisableTiming));
    }
    reserve(nccl, SCRATCH_BYTES);
    nccl->since = seconds_awake();
    if (pg->survivor == NULL) // else keeps_waiting takes its place
        nccl_watch_start(nccl);

    ncclUniqueId id = { 0 };
    char key[STORE_KEY_BYTES];
    process_group_key(pg, "NCCL's unique id", 0, key);
    if (pg->rank == 0) {
        NCCL_CHECK(nccl, "ncclGetUniqueId", nccl->lib.get_unique_id(&id));
        store_set(pg->store, key, &id, sizeof id);
    } else {
        const double begun = seconds_awake();
        while (pg->survivor != NULL && !store_check(pg->store, key) &&
               pg->keeps_waiting(pg->survivor, begun))
            continue;
        if (!pg->revoked)
            store_get(pg->store, key, &id, sizeof id);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (pg->survivor != NULL)
        config.blocking = 0; // else a call that waits for a lost rank would not return
    ncclComm_t comm = NULL;
    const ncclResult_t result =
        pg->revoked ? ncclSuccess
                    : nccl->lib.comm_init_rank(&comm, pg->world_size, id, pg->rank, &config);
    nccl->comm = comm; // from now on the watchdog asks it for errors
    nccl_check(nccl, result, "ncclCommInitRank");
    return nccl;
}

static void nccl_destroy(void *state, ProcessGroup *pg)
{
    Nccl *nccl = state;
    Watchdog watchdog;
    if (pg->survivor == NULL)
        nccl_watch_stop(nccl); // the store ends with rank 0, so all watchdogs must have stopped
    watchdog_start(&watchdog, pg->timeout, "ncclCommDestroy",
                   "a rank has died since the last call; NCCL_DEBUG=INFO may tell more");
    barrier(pg);
    if (pg->place.drop_graph != NULL) // else NCCL would wait until it is destroyed
        pg->place.drop_graph(pg->place.replaying);
    if (pg->survivor != NULL && nccl->comm != NULL)
        nccl->lib.comm_abort(nccl->comm); // a rank may be gone
    else
        NCCL_CHECK(nccl, "ncclCommDestroy", nccl->lib.comm_destroy(nccl->comm));
    CUDA_CHECK(cudaStreamSynchronize(nccl->stream));
    for (NcclCall *call = nccl->call; call < nccl->call + NCCL_MAX_CALLS; call++) {
        CUDA_CHECK(cudaEventDestroy(call->called));
        CUDA_CHECK(cudaEventDestroy(call->captured));
    }
    CUDA_CHECK(cudaEventDestroy(nccl->ready));
    CUDA_CHECK(cudaStreamDestroy(nccl->stream));
    CUDA_CHECK(cudaFree(nccl->scratch));
    watchdog_stop(&watchdog);
    pthread_mutex_destroy(&nccl->mutex);
    pthread_mutex_destroy(&nccl->in_use);
    free(nccl);
}

static void *nccl_stream(void *state)
{
    return ((const Nccl *)state)->stream;
}

const Backend backend_nccl = { .name = "nccl",
                               .reads_gpu = true,
                               .adapt = nccl_or_tcp,
                               .init = nccl_init,
                               .start = nccl_start,
                               .wait = nccl_wait,
                               .keep_alive = nccl_keep_alive,
                               .destroy = nccl_destroy,
                               .stream = nccl_stream };
