/*
 * Copies, fills and host functions as work of a stream. As in CUDA, a copy from host memory that is
 * not pinned reads it at once, and one to such memory waits until it is done.
 */
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

typedef struct {
    void *to;
    const void *from;
    void *staged; // copy to be freed, or NULL
    size_t bytes;
} Copy;

static void run_copy(void *arguments)
{
    const Copy *copy = arguments;
    memcpy(copy->to, copy->from, copy->bytes);
    free(copy->staged);
}

static bool is_on(const void *address, bool device)
{
    return (stand_in_memory(address).kind == MEMORY_DEVICE) == device;
}

static void check_copy(const Copy *copy, enum cudaMemcpyKind kind, int device)
{
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyHostToHost)
        stand_in_fail("a copy from host to host is memcpy's");
    if (kind != cudaMemcpyDefault &&
        (!is_on(copy->to, to_device) || !is_on(copy->from, from_device)))
        stand_in_fail("a copy of %zu bytes %s %s is called one %s %s", copy->bytes,
                      is_on(copy->from, true) ? "from device" : "from host",
                      is_on(copy->to, true) ? "to device" : "to host",
                      from_device ? "from device" : "from host",
                      to_device ? "to device" : "to host");
    if (is_on(copy->to, true))
        stand_in_check_range("a copy", device, copy->to, copy->bytes);
    if (is_on(copy->from, true))
        stand_in_check_range("a copy", device, copy->from, copy->bytes);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    Copy copy = { .to = to, .from = from, .bytes = bytes };
    if (bytes == 0)
        return cudaSuccess;
    check_copy(&copy, kind, stand_in_stream_device(stream));
    const bool from_pageable = stand_in_memory(from).kind == MEMORY_PAGEABLE;
    const bool to_pageable = stand_in_memory(to).kind == MEMORY_PAGEABLE;
    if ((from_pageable || to_pageable) && stand_in_stream_captures(stream))
        stand_in_fail("a copy that is captured needs pinned memory");
    if (from_pageable) {
        copy.staged = malloc(bytes);
        copy.from = memcpy(copy.staged, from, bytes);
    }
    stand_in_push(
        stream,
        &(Work){ .name = "a copy", .run = run_copy, .arguments = &copy, .bytes = sizeof copy });
    if (to_pageable)
        stand_in_finish_stream(stream);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    LOCKED;
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    if (error == cudaSuccess && kind != cudaMemcpyDeviceToDevice)
        stand_in_finish_stream(NULL);
    return error;
}

typedef struct {
    void *memory;
    int value;
    size_t bytes;
} Fill;

static void run_fill(void *arguments)
{
    const Fill *fill = arguments;
    stand_in_count.launches++;
    memset(fill->memory, fill->value, fill->bytes);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    stand_in_check_range("memset", stand_in_stream_device(stream), memory, bytes);
    stand_in_push(stream, &(Work){ .name = "memset",
                                   .run = run_fill,
                                   .arguments = &(Fill){ memory, value, bytes },
                                   .bytes = sizeof(Fill) });
    return cudaSuccess;
}

/* Neither waits nor makes non-blocking streams wait. */
cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    LOCKED;
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    return cudaMemsetAsync(memory, value, bytes, NULL);
}

typedef struct {
    cudaHostFn_t function;
    void *data;
} HostCall;

static void run_host_call(void *arguments)
{
    const HostCall *call = arguments;
    call->function(call->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    stand_in_push(stream, &(Work){ .name = "a host function",
                                   .run = run_host_call,
                                   .arguments = &(HostCall){ function, data },
                                   .bytes = sizeof(HostCall) });
    return cudaSuccess;
}
