/*
 * The size of each block of memory is stored in front of it, in 64 bytes, so that the block keeps
 * its alignment.
 */
#include "beyond/usage.h"

#include <string.h>

#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/tcp/tcp_mesh.h"

enum { HEADER_BYTES = 64 };

static const DeviceOps *inner; // the table of all devices of this process
static DeviceOps counting;
static const Device *counted; // the first device
static size_t held_bytes, most_bytes;
static uint64_t sent_before;

static void *counting_malloc(Device *device, size_t bytes)
{
    char *block = inner->malloc(device, HEADER_BYTES + bytes);
    memcpy(block, &bytes, sizeof bytes);
    if (device == counted) {
        held_bytes += bytes;
        most_bytes = held_bytes > most_bytes ? held_bytes : most_bytes;
    }
    return block + HEADER_BYTES;
}

static void counting_release(Device *device, void *memory)
{
    if (memory == NULL)
        return;
    char *block = (char *)memory - HEADER_BYTES;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    held_bytes -= device == counted ? bytes : 0;
    inner->release(device, block);
}

void usage_init(Device *device)
{
    CHECK(!device->place.on_gpu, "this aside counts host memory: --device cpu");
    if (inner == NULL) {
        inner = device->ops;
        counting = *inner;
        counting.malloc = counting_malloc;
        counting.release = counting_release;
        counted = device;
    }
    device->ops = &counting;
}

void tcp_payload_bytes(const ProcessGroup *pg, uint64_t *sent, uint64_t *received)
{
    const Mesh *mesh = pg->backend == &backend_tcp ? process_group_root(pg)->state : NULL;
    *sent = mesh == NULL ? 0 : mesh->moved.sent_bytes;
    *received = mesh == NULL ? 0 : mesh->moved.received_bytes;
}

static uint64_t sent_bytes(const ProcessGroup *pg)
{
    uint64_t sent = 0, received = 0;
    if (pg != NULL)
        tcp_payload_bytes(pg, &sent, &received);
    return sent;
}

void usage_begin(const ProcessGroup *pg)
{
    most_bytes = held_bytes;
    sent_before = sent_bytes(pg);
}

void usage_print(const ProcessGroup *pg, uint64_t steps)
{
    const uint64_t sent = sent_bytes(pg) - sent_before;
    log_print("rank %d held %zu bytes at most and sent %zu bytes a step", pg != NULL ? pg->rank : 0,
              most_bytes, (size_t)(steps > 0 ? sent / steps : 0));
}
