/*
 * GPU data for backends that can only access host memory.
 *
 *     GPU      backward ------+        +-- backward ----------------+        +-- optimizer -->
 *                        copy |        |                       copy |        |
 *     host                    +- start +                            + wait --+
 *     backend                          +-- collective --+
 *
 * Starting a call waits until the GPU has computed the input, copies it to the host and queues the
 * collective; waiting for it copies the result back. So a bucket is on the network while the GPU
 * computes the next one. Copies use pinned memory, which the GPU reads and writes by itself.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cuda.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/library_calls.h"

#define NUM_SLOTS 32 // the buckets of a step, and spare ones
#define ALIGNMENT 64

const bool has_staging = true;

/* A pending call. */
typedef struct {
    const ProcessGroup *pg;
    long ticket; // the backend's ticket
    char *device_out; // where the result is copied to
    const void *host_out;
    size_t out_bytes; // 0 if nothing is copied
    char *pinned; // reused by later calls
    size_t pinned_bytes;
} Slot;

/* Ticket t is in slot t % NUM_SLOTS until it is finished. */
typedef struct Staging {
    cudaStream_t compute;
    cudaEvent_t copied;
    Slot slot[NUM_SLOTS];
    long started, finished; // tickets handed out, tickets whose result is on the GPU
} Staging;

/* Copies between host and GPU. Returns when that and everything queued before it is done. */
static void copy(const Staging *staging, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, staging->compute));
    CUDA_CHECK(cudaEventRecord(staging->copied, staging->compute));
    CUDA_CHECK(cudaEventSynchronize(staging->copied));
}

/* Finishes calls until `finished` of them are done. */
static void finish(Staging *staging, long finished)
{
    for (; staging->finished < finished; staging->finished++) {
        const Slot *slot = &staging->slot[staging->finished % NUM_SLOTS];
        slot->pg->backend->wait(slot->pg->state, slot->ticket);
        if (slot->out_bytes > 0)
            copy(staging, slot->device_out, slot->host_out, slot->out_bytes);
    }
}

/* Finishes earlier calls, not waited for yet, whose result is this input, as in the stages of an
 * all-reduce: it must be on the GPU before it is copied to the host again. */
static void finish_input(Staging *staging, const char *in, size_t in_bytes)
{
    for (long ticket = staging->started - 1; ticket >= staging->finished; ticket--) {
        const Slot *slot = &staging->slot[ticket % NUM_SLOTS];
        if (in < slot->device_out + slot->out_bytes && slot->device_out < in + in_bytes)
            finish(staging, ticket + 1);
    }
}

/* Reserves at least `bytes` of pinned memory. It grows in the first steps only. */
static void reserve(Slot *slot, size_t bytes)
{
    if (bytes <= slot->pinned_bytes)
        return;
    CUDA_CHECK(cudaFreeHost(slot->pinned));
    CUDA_CHECK(cudaHostAlloc((void **)&slot->pinned, bytes, cudaHostAllocDefault));
    slot->pinned_bytes = bytes;
}

/* Replaces the call's GPU arrays by host memory: a copy of the input, and room for the result. */
static Collective move_to_host(Staging *staging, Slot *slot, const Collective *c)
{
    size_t in_bytes, out_bytes;
    collective_extents(c, &in_bytes, &out_bytes);
    if (in_bytes > 0 && !cuda_is_on_gpu(c->in))
        in_bytes = 0;
    if (out_bytes > 0 && !cuda_is_on_gpu(c->out))
        out_bytes = 0;

    // Input, then result; or both at one place for a call in place.
    Collective host = *c;
    const bool in_place = c->in == c->out;
    const size_t out_at = in_place ? 0 : (in_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t end = out_at + out_bytes;
    reserve(slot, end > in_bytes ? end : in_bytes);
    if (in_bytes > 0 || (in_place && out_bytes > 0))
        host.in = slot->pinned;
    if (out_bytes > 0 || (in_place && in_bytes > 0))
        host.out = slot->pinned + out_at;
    finish_input(staging, c->in, in_bytes);
    copy(staging, (void *)host.in, c->in, in_bytes);
    slot->device_out = c->out;
    slot->host_out = host.out;
    slot->out_bytes = out_bytes;
    return host;
}

long staging_start(Staging *staging, const Collective *collective)
{
    const ProcessGroup *pg = collective->pg;
    if (cuda_is_captured(staging->compute))
        usage_error("--cuda-graph on needs --backend nccl: with %s data passes through the "
                    "host, which a graph cannot record",
                    pg->backend->name);

    finish(staging, staging->started - NUM_SLOTS + 1);
    Slot *slot = &staging->slot[staging->started % NUM_SLOTS];
    const Collective host = move_to_host(staging, slot, collective);
    slot->pg = pg;
    slot->ticket = pg->backend->start(pg->state, &host);
    return staging->started++;
}

void staging_wait(Staging *staging, long ticket)
{
    finish(staging, ticket + 1);
}

Staging *staging_init(const ProcessGroup *pg)
{
    Staging *staging = mem_calloc(1, sizeof *staging);
    staging->compute = pg->place.stream;
    // Blocking, because a spinning host thread would take the core of the backend's thread.
    CUDA_CHECK(
        cudaEventCreateWithFlags(&staging->copied, cudaEventDisableTiming | cudaEventBlockingSync));
    return staging;
}

void staging_free(Staging *staging)
{
    for (int i = 0; i < NUM_SLOTS; i++)
        CUDA_CHECK(cudaFreeHost(staging->slot[i].pinned));
    CUDA_CHECK(cudaEventDestroy(staging->copied));
    free(staging);
}
