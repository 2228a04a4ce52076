/*
 * The nccl backend: hands each collective to NVIDIA's NCCL, which moves it from GPU to GPU.
 *
 * The rest is what PyTorch's ProcessGroupNCCL does: ranks find each other through the store, calls
 * go to a stream beside the computation (nccl_calls.c), and a watchdog thread supervises them
 * (nccl_watch.c), since a GPU that waits for another rank has no timeout. Neither has a call that
 * creates a communicator or makes its first connections; the watchdog also covers those.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/library_calls.h"
#include "common/comm/nccl/nccl_group.h"

#define LIBRARY "libnccl.so.2"
#define NEEDED_BY "--backend nccl"
#define SCRATCH_BYTES 4096

/* ---- calling NCCL ---- */

void nccl_check(Nccl *nccl, ncclResult_t result, const char *name)
{
    if (result == ncclSuccess)
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

/* Sets what is being set up or torn down, for messages; NULL: nothing. */
static void set_up(Nccl *nccl, const char *setup)
{
    pthread_mutex_lock(&nccl->mutex);
    nccl->setup = setup;
    nccl->since = seconds_now();
    pthread_mutex_unlock(&nccl->mutex);
}

/* ---- the group ---- */

#define GPU_BYTES 192 // "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 of HOST"

/* The GPU's UUID, which identifies it even if each rank sees only one, as number 0. NCCL lets ranks
 * share a GPU if they claim different hosts (NCCL_HOSTID): so do we. */
static void describe_gpu(const ProcessGroup *pg, char text[GPU_BYTES])
{
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, pg->place.index));
    char host[96] = "";
    const char *host_id = getenv("NCCL_HOSTID");
    if (host_id != NULL)
        snprintf(host, sizeof host, "%s", host_id);
    else
        gethostname(host, sizeof host - 1);

    int length = snprintf(text, GPU_BYTES, "GPU-");
    for (int i = 0; i < 16; i++)
        length += snprintf(text + length, GPU_BYTES - (size_t)length, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                           (unsigned char)properties.uuid.bytes[i]);
    snprintf(text + length, GPU_BYTES - (size_t)length, " of %s", host);
}

/* Writes to `reason` which two ranks have the same GPU, if any: all ranks find the same two. */
static bool share_gpu(const ProcessGroup *pg, char *reason, size_t bytes)
{
    char key[STORE_KEY_BYTES], text[GPU_BYTES] = "";
    describe_gpu(pg, text);
    store_set(pg->store, process_group_key(pg, "GPU of rank", pg->rank, key), text, strlen(text));
    char(*gpus)[GPU_BYTES] = mem_calloc((size_t)pg->world_size, GPU_BYTES);
    for (int rank = 0; rank < pg->world_size; rank++) {
        process_group_key(pg, "GPU of rank", rank, key);
        store_get(pg->store, key, gpus[rank], GPU_BYTES - 1);
    }
    reason[0] = '\0';
    for (int rank = 0; rank < pg->world_size && reason[0] == '\0'; rank++)
        for (int other = 0; other < rank; other++)
            if (strcmp(gpus[rank], gpus[other]) == 0)
                snprintf(reason, bytes, "ranks %d and %d share %s", other, rank, gpus[rank]);
    free(gpus);
    return reason[0] != '\0';
}

/* NCCL reports ranks that share a GPU less clearly, or not at all. */
static const Backend *nccl_or_tcp(const ProcessGroup *pg, const Args *args)
{
    char reason[256];
    if (!share_gpu(pg, reason, sizeof reason))
        return &backend_nccl;
    if (strcmp(args->backend, "auto") == 0) {
        if (pg->rank == 0)
            log_info("%s, which nccl does not allow: --backend tcp takes their data through the "
                     "host",
                     reason);
        return &backend_tcp;
    }
    process_group_farewell(pg, pg->store, pg->world_size);
    usage_error("--backend nccl wants a GPU for each rank, but %s: start fewer ranks on this "
                "node, or use --backend tcp, which may share one",
                reason);
}

static Nccl *nccl_new(const ProcessGroup *pg)
{
    Nccl *nccl = mem_calloc(1, sizeof *nccl);
    nccl->pg = pg;
    nccl->lib = (struct NcclLibrary){ NCCL_FUNCTIONS(LIBRARY_FIND) };
    LIST_INIT(&nccl->groups);
    pthread_mutex_init(&nccl->in_use, NULL);
    pthread_mutex_init(&nccl->mutex, NULL);
    condition_init(&nccl->changed);

    // High priority: the computation waits for its results.
    int least, greatest;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&nccl->stream, cudaStreamNonBlocking, greatest));
    CUDA_CHECK(cudaEventCreateWithFlags(&nccl->ready, cudaEventDisableTiming));
    for (int i = 0; i < NCCL_MAX_CALLS; i++)
        CUDA_CHECK(cudaEventCreateWithFlags(&nccl->call[i].done, cudaEventDisableTiming));
    CUDA_CHECK(cudaMalloc((void **)&nccl->scratch, SCRATCH_BYTES));
    nccl->scratch_bytes = SCRATCH_BYTES;
    return nccl;
}

static NcclGroup *group_new(Nccl *nccl, const ProcessGroup *pg, ncclComm_t comm)
{
    NcclGroup *group = mem_calloc(1, sizeof *group);
    *group = (NcclGroup){ .nccl = nccl, .pg = pg, .comm = comm };
    pthread_mutex_lock(&nccl->mutex);
    LIST_INSERT_HEAD(&nccl->groups, group, next);
    pthread_mutex_unlock(&nccl->mutex);
    return group;
}

static void *nccl_init(ProcessGroup *pg)
{
    CUDA_CHECK(cudaSetDevice(pg->place.index));
    Nccl *nccl = nccl_new(pg);
    set_up(nccl, "ncclCommInitRank");
    nccl_watch_start(nccl);

    ncclUniqueId id = { 0 };
    char key[STORE_KEY_BYTES];
    process_group_key(pg, "NCCL's unique id", 0, key);
    if (pg->rank == 0) {
        NCCL_CHECK(nccl, "ncclGetUniqueId", nccl->lib.get_unique_id(&id));
        store_set(pg->store, key, &id, sizeof id);
    } else {
        store_get(pg->store, key, &id, sizeof id);
    }
    ncclComm_t comm;
    NCCL_CHECK(nccl, "ncclCommInitRank",
               nccl->lib.comm_init_rank(&comm, pg->world_size, id, pg->rank));
    set_up(nccl, NULL);
    return group_new(nccl, pg, comm);
}

static void nccl_free(Nccl *nccl)
{
    CUDA_CHECK(cudaStreamSynchronize(nccl->stream));
    for (int i = 0; i < NCCL_MAX_CALLS; i++)
        CUDA_CHECK(cudaEventDestroy(nccl->call[i].done));
    CUDA_CHECK(cudaEventDestroy(nccl->ready));
    CUDA_CHECK(cudaStreamDestroy(nccl->stream));
    CUDA_CHECK(cudaFree(nccl->scratch));
    pthread_cond_destroy(&nccl->changed);
    pthread_mutex_destroy(&nccl->mutex);
    pthread_mutex_destroy(&nccl->in_use);
    free(nccl);
}

static void nccl_destroy(void *state, ProcessGroup *pg)
{
    NcclGroup *group = state;
    Nccl *nccl = group->nccl;
    Watchdog watchdog;
    if (pg->parent == NULL) { // the store ends with rank 0, so all watchdogs must have stopped
        nccl_watch_stop(nccl);
        watchdog_start(&watchdog, pg->timeout, "ncclCommDestroy",
                       "a rank has died since the last call; NCCL_DEBUG=INFO may tell more");
        barrier(pg);
    }
    pthread_mutex_lock(&nccl->mutex);
    LIST_REMOVE(group, next);
    pthread_mutex_unlock(&nccl->mutex);
    // One with calls in a graph is left to the end of the process: NCCL would wait until the graph
    // is destroyed, which the device does only after the group.
    if (!nccl->recorded)
        NCCL_CHECK(nccl, "ncclCommDestroy", nccl->lib.comm_destroy(group->comm));
    free(group);
    if (pg->parent == NULL) {
        nccl_free(nccl);
        watchdog_stop(&watchdog);
    }
}

static void *nccl_stream(void *state)
{
    return ((const NcclGroup *)state)->nccl->stream;
}

const Backend backend_nccl = { .name = "nccl",
                               .available = true,
                               .reads_gpu = true,
                               .adapt = nccl_or_tcp,
                               .init = nccl_init,
                               .start = nccl_start,
                               .wait = nccl_wait,
                               .keep_alive = nccl_keep_alive,
                               .destroy = nccl_destroy,
                               .stream = nccl_stream };
