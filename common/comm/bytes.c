/*
 * Dropping bytes only moves an index. At the end of the memory the rest moves to the front, and the
 * memory grows if it is still more than half full: each byte is moved only a few times, however
 * small the pieces.
 */
#include "common/comm/bytes.h"

#include <stdlib.h>

#include "common/base/log.h"

void bytes_put(Bytes *bytes, const void *data, size_t count)
{
    if (count == 0)
        return;
    if (count > bytes->capacity - bytes->end) {
        const size_t held = bytes_count(bytes);
        if (held > 0)
            memmove(bytes->data, bytes->data + bytes->start, held);
        bytes->start = 0;
        bytes->end = held;
        if (held + count > bytes->capacity / 2) {
            bytes->capacity = 64 + 2 * (held + count);
            bytes->data = realloc(bytes->data, bytes->capacity);
            CHECK(bytes->data != NULL, "out of memory: %zu bytes wanted", bytes->capacity);
        }
    }
    memcpy(bytes->data + bytes->end, data, count);
    bytes->end += count;
}

void bytes_put_u8(Bytes *bytes, uint8_t value)
{
    bytes_put(bytes, &value, sizeof value);
}

void bytes_put_u32(Bytes *bytes, uint32_t value)
{
    bytes_put(bytes, &value, sizeof value);
}

void bytes_put_u64(Bytes *bytes, uint64_t value)
{
    bytes_put(bytes, &value, sizeof value);
}

void bytes_put_blob(Bytes *bytes, Blob blob)
{
    bytes_put_u64(bytes, blob.count);
    bytes_put(bytes, blob.data, blob.count);
}

size_t bytes_count(const Bytes *bytes)
{
    return bytes->end - bytes->start;
}

const uint8_t *bytes_front(const Bytes *bytes)
{
    return bytes->data + bytes->start;
}

void bytes_drop(Bytes *bytes, size_t count)
{
    bytes->start += count;
    if (bytes->start == bytes->end)
        bytes_free(bytes);
}

void bytes_free(Bytes *bytes)
{
    free(bytes->data);
    *bytes = (Bytes){ 0 };
}

uint32_t take_u32(Cursor *at)
{
    uint32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

uint64_t take_u64(Cursor *at)
{
    uint64_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

Blob take_blob(Cursor *at)
{
    Blob blob = { .count = take_u64(at) };
    blob.data = *at;
    *at += blob.count;
    return blob;
}
