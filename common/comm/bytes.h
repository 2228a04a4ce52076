/* bytes.h - a byte queue: appended at its end, consumed at its front. */
#ifndef COMMON_COMM_BYTES_H
#define COMMON_COMM_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* All zero is an empty one. It holds memory only while it holds bytes. */
typedef struct {
    uint8_t *data;
    size_t start, end; // the bytes are data[start] .. data[end - 1]
    size_t capacity;
} Bytes;

/* Borrowed bytes. */
typedef struct {
    const uint8_t *data;
    size_t count;
} Blob;

void bytes_put(Bytes *bytes, const void *data, size_t count);
void bytes_put_u8(Bytes *bytes, uint8_t value);
void bytes_put_u32(Bytes *bytes, uint32_t value);
void bytes_put_u64(Bytes *bytes, uint64_t value); // also for signed ones
void bytes_put_blob(Bytes *bytes, Blob blob); // a u64 count, then its bytes

size_t bytes_count(const Bytes *bytes);
const uint8_t *bytes_front(const Bytes *bytes);
void bytes_drop(Bytes *bytes, size_t count); // the first `count`
void bytes_free(Bytes *bytes);

/* A read position. The bytes must be known to be there. */
typedef const uint8_t *Cursor;

uint32_t take_u32(Cursor *at);
uint64_t take_u64(Cursor *at);
Blob take_blob(Cursor *at);

#endif
