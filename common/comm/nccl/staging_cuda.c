/*
 * GPU data for backends that only reach host memory.
 *
 *     this thread      start: ready ->                              wait
 *     compute stream   --------+---------------- backward pass ------+-- optimizer -->
 *     stream down              +-- copy --+                          |
 *     staging thread                      +-- collective --+         |
 *     stream up                                            +-- copy -+
 *
 * A bucket is copied to the host as soon as the GPU has computed it, while the next is still being
 * computed and the previous one is on the network. Copies use pinned memory: others would block the
 * host.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cuda.h"
#include "common/base/memory.h"
#include "common/base/thread.h"
#include "common/comm/backend.h"
#include "common/comm/library_calls.h"

#define NUM_SLOTS 32 // the buckets of a step, and spare ones
#define ALIGNMENT 64

/* A pending call. */
typedef struct {
    Collective collective; // with the data in host memory
    void *device_out; // where the result is on the GPU; NULL: nowhere
    size_t out_bytes;
    char *pinned; // reused by later calls
    size_t pinned_bytes;
    cudaEvent_t down, up; // the input is in host memory, the result on the GPU
} Slot;

/* Ticket t is in slot t % NUM_SLOTS. The mutex guards the counts; a slot is the thread's from
 * `started` to `finished`. */
typedef struct Staging {
    MemoryLocation place;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    Slot slot[NUM_SLOTS];
    long started, finished; // tickets handed out, tickets done but for the copy up
    bool closing;
    cudaStream_t down, up;
    cudaEvent_t ready; // recorded on the compute stream before a call
} Staging;

static void execute(Staging *staging, Slot *slot)
{
    CUDA_CHECK(cudaEventSynchronize(slot->down));
    const ProcessGroup *pg = slot->collective.pg;
    pg->backend->wait(pg->state, pg->backend->start(pg->state, &slot->collective));
    if (slot->device_out != NULL)
        CUDA_CHECK(cudaMemcpyAsync(slot->device_out, slot->collective.out, slot->out_bytes,
                                   cudaMemcpyHostToDevice, staging->up));
    CUDA_CHECK(cudaEventRecord(slot->up, staging->up));
}

static void *run(void *argument)
{
    Staging *staging = argument;
    CUDA_CHECK(cudaSetDevice(staging->place.index)); // a new thread's default is GPU 0
    pthread_mutex_lock(&staging->mutex);
    for (;;) {
        while (staging->finished == staging->started && !staging->closing)
            pthread_cond_wait(&staging->changed, &staging->mutex);
        if (staging->finished == staging->started)
            break;
        Slot *slot = &staging->slot[staging->finished % NUM_SLOTS];
        pthread_mutex_unlock(&staging->mutex);
        execute(staging, slot);
        pthread_mutex_lock(&staging->mutex);
        staging->finished++;
        pthread_cond_broadcast(&staging->changed);
    }
    pthread_mutex_unlock(&staging->mutex);
    return NULL;
}

/* Blocks the host until that many calls are done. Needs no deadline: the backend ends the process
 * when a call takes too long. */
static void wait_for(Staging *staging, long finished)
{
    pthread_mutex_lock(&staging->mutex);
    while (staging->finished < finished)
        pthread_cond_wait(&staging->changed, &staging->mutex);
    pthread_mutex_unlock(&staging->mutex);
}

static Staging *staging_init(const ProcessGroup *pg)
{
    Staging *staging = mem_calloc(1, sizeof *staging);
    staging->place = pg->place;
    pthread_mutex_init(&staging->mutex, NULL);
    pthread_cond_init(&staging->changed, NULL);
    // Nonblocking: they do not synchronise with the default stream.
    CUDA_CHECK(cudaStreamCreateWithFlags(&staging->down, cudaStreamNonBlocking));
    CUDA_CHECK(cudaStreamCreateWithFlags(&staging->up, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&staging->ready, cudaEventDisableTiming));
    for (Slot *slot = staging->slot; slot < staging->slot + NUM_SLOTS; slot++) {
        CUDA_CHECK(cudaEventCreateWithFlags(&slot->down, cudaEventDisableTiming));
        CUDA_CHECK(cudaEventCreateWithFlags(&slot->up, cudaEventDisableTiming));
    }
    const int error = thread_start(&staging->thread, run, staging);
    CHECK(error == 0, "cannot start the thread that serves the GPU's memory: %s", strerror(error));
    return staging;
}

static void staging_free(Staging *staging)
{
    pthread_mutex_lock(&staging->mutex);
    staging->closing = true;
    pthread_cond_broadcast(&staging->changed);
    pthread_mutex_unlock(&staging->mutex);
    pthread_join(staging->thread, NULL);

    CUDA_CHECK(cudaStreamSynchronize(staging->down));
    CUDA_CHECK(cudaStreamSynchronize(staging->up));
    for (Slot *slot = staging->slot; slot < staging->slot + NUM_SLOTS; slot++) {
        CUDA_CHECK(cudaEventDestroy(slot->down));
        CUDA_CHECK(cudaEventDestroy(slot->up));
        CUDA_CHECK(cudaFreeHost(slot->pinned));
    }
    CUDA_CHECK(cudaEventDestroy(staging->ready));
    CUDA_CHECK(cudaStreamDestroy(staging->down));
    CUDA_CHECK(cudaStreamDestroy(staging->up));
    pthread_cond_destroy(&staging->changed);
    pthread_mutex_destroy(&staging->mutex);
    free(staging);
}

/* Pinned memory of at least so many bytes. It grows in the first steps only. */
static void reserve(Slot *slot, size_t bytes)
{
    if (bytes <= slot->pinned_bytes)
        return;
    CUDA_CHECK(cudaEventSynchronize(slot->up)); // a copy may still read the old one
    CUDA_CHECK(cudaFreeHost(slot->pinned));
    CUDA_CHECK(cudaHostAlloc((void **)&slot->pinned, bytes, cudaHostAllocDefault));
    slot->pinned_bytes = bytes;
}

/* Replaces the call's GPU arrays by host memory; *in_bytes must be copied down. */
static void move_to_host(Slot *slot, const Collective *collective, size_t *in_bytes)
{
    Collective *host = &slot->collective;
    *host = *collective;
    host->async = false; // this thread waits at once
    collective_extents(collective, in_bytes, &slot->out_bytes);
    const bool in_place = collective->in == collective->out;
    const bool moves_in = *in_bytes > 0 && cuda_is_on_gpu(collective->in);
    const bool moves_out = slot->out_bytes > 0 && cuda_is_on_gpu(collective->out);
    *in_bytes = moves_in ? *in_bytes : 0;
    slot->out_bytes = moves_out ? slot->out_bytes : 0;
    slot->device_out = moves_out ? collective->out : NULL;

    // One after the other, or the same for a call in place.
    const size_t out_at = in_place ? 0 : (*in_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t end = out_at + slot->out_bytes;
    reserve(slot, end > *in_bytes ? end : *in_bytes);
    if (moves_in || (in_place && moves_out))
        host->in = slot->pinned;
    if (moves_out || (in_place && moves_in))
        host->out = slot->pinned + out_at;
}

/* A call may use the result of an earlier one that nobody has waited for, as the stages of an
 * all-reduce do. That must be on the GPU before it is copied down again. */
static void wait_for_results(Staging *staging, const char *in, size_t in_bytes)
{
    for (long age = 1; age <= NUM_SLOTS && age <= staging->started; age++) {
        const long ticket = staging->started - age;
        const Slot *slot = &staging->slot[ticket % NUM_SLOTS];
        const char *out = slot->device_out;
        if (out == NULL || in >= out + slot->out_bytes || out >= in + in_bytes)
            continue;
        wait_for(staging, ticket + 1);
        CUDA_CHECK(cudaStreamWaitEvent(staging->down, slot->up, 0));
    }
}

static long staging_start(Staging *staging, const Collective *collective)
{
    const cudaStream_t compute = staging->place.stream;
    if (cuda_is_captured(compute))
        usage_error("--cuda-graph on needs --backend nccl: with %s data passes through the "
                    "host, which a graph cannot record",
                    collective->pg->backend->name);

    const long ticket = staging->started; // only this thread changes it
    wait_for(staging, ticket - NUM_SLOTS + 1);
    Slot *slot = &staging->slot[ticket % NUM_SLOTS];
    size_t in_bytes, out_bytes;
    collective_extents(collective, &in_bytes, &out_bytes);
    wait_for_results(staging, collective->in, in_bytes);
    move_to_host(slot, collective, &in_bytes);
    CUDA_CHECK(cudaEventRecord(staging->ready, compute));
    CUDA_CHECK(cudaStreamWaitEvent(staging->down, staging->ready, 0));
    CUDA_CHECK(cudaStreamWaitEvent(staging->down, slot->up, 0)); // of the slot's previous call
    if (in_bytes > 0)
        CUDA_CHECK(cudaMemcpyAsync((void *)slot->collective.in, collective->in, in_bytes,
                                   cudaMemcpyDeviceToHost, staging->down));
    CUDA_CHECK(cudaEventRecord(slot->down, staging->down));

    pthread_mutex_lock(&staging->mutex);
    staging->started++;
    pthread_cond_broadcast(&staging->changed);
    pthread_mutex_unlock(&staging->mutex);
    return ticket;
}

static void staging_wait(Staging *staging, long ticket)
{
    wait_for(staging, ticket + 1);
    // If a later call has the slot by now, its copy up follows ours.
    const Slot *slot = &staging->slot[ticket % NUM_SLOTS];
    CUDA_CHECK(cudaStreamWaitEvent((cudaStream_t)staging->place.stream, slot->up, 0));
}

/* Only now the backend may be called by this thread. */
static void staging_finish(Staging *staging)
{
    wait_for(staging, staging->started);
}

const StagingOps staging_ops = { .init = staging_init,
                                 .start = staging_start,
                                 .wait = staging_wait,
                                 .finish = staging_finish,
                                 .free = staging_free };

void place_copy(MemoryLocation place, void *to, const void *from, size_t bytes)
{
    if (!place.on_gpu) {
        memcpy(to, from, bytes);
        return;
    }
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, (cudaStream_t)place.stream));
    CUDA_CHECK(cudaStreamSynchronize((cudaStream_t)place.stream));
}
