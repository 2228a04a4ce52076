/* The operations and the shape of their arguments, as one table, and the function that uses it to
 * find where a request ends. Once a request is known to be whole and within the limits, executing
 * it needs no further length checks. */
#include "common/comm/store/store_protocol.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

static const struct {
    const char *name;
    const char *arguments; // u: u32, i: i64, k: key, v: value; n: how often the others follow
} operations[STORE_NUM_OPERATIONS] = {
    [STORE_VALIDATE] = { "VALIDATE", "u" },
    [STORE_SET] = { "SET", "kv" },
    [STORE_COMPARE_SET] = { "COMPARE_SET", "kvv" },
    [STORE_GET] = { "GET", "k" },
    [STORE_ADD] = { "ADD", "ki" },
    [STORE_CHECK] = { "CHECK", "nk" },
    [STORE_WAIT] = { "WAIT", "nk" },
    [STORE_GETNUMKEYS] = { "GETNUMKEYS", "" },
    [STORE_DELETE_KEY] = { "DELETE_KEY", "k" },
    [STORE_APPEND] = { "APPEND", "kv" },
    [STORE_MULTI_GET] = { "MULTI_GET", "nk" },
    [STORE_MULTI_SET] = { "MULTI_SET", "nkv" },
    [STORE_CANCEL_WAIT] = { "CANCEL_WAIT", "" },
    [STORE_PING] = { "PING", "u" },
    [STORE_QUEUE_PUSH] = { "QUEUE_PUSH", "kv" },
    [STORE_QUEUE_POP] = { "QUEUE_POP", "k" },
    [STORE_QUEUE_LEN] = { "QUEUE_LEN", "k" },
    [STORE_LIST_KEYS] = { "LIST_KEYS", "" },
    [STORE_BARRIER] = { "BARRIER", "ki" },
};

const char *store_operation_name(StoreOperation operation)
{
    return operations[operation].name;
}

RequestState request_measure(RequestMeasure *measure, const uint8_t *data, size_t count)
{
    if (data[0] >= STORE_NUM_OPERATIONS)
        return REQUEST_NONSENSE;
    const char *arguments = operations[data[0]].arguments;
    if (measure->bytes == 0)
        *measure = (RequestMeasure){ .bytes = 1, .argument = arguments };
    for (;;) {
        if (*measure->argument == '\0') {
            if (measure->repeats == 0)
                return REQUEST_WHOLE;
            measure->repeats--;
            measure->argument = arguments + 1; // the first one was the count
        }
        const char argument = *measure->argument;
        const size_t left = count - measure->bytes;
        size_t size = argument == 'u' ? sizeof(uint32_t) : sizeof(uint64_t);
        if (left < size)
            return REQUEST_PARTIAL;

        uint64_t number = 0;
        memcpy(&number, data + measure->bytes, size);
        if ((argument == 'k' && number > STORE_MAX_KEY) ||
            (argument == 'v' && number > STORE_MAX_VALUE) ||
            (argument == 'n' && number > STORE_MAX_KEYS))
            return REQUEST_NONSENSE;
        if (argument == 'k' || argument == 'v')
            size += number;
        if (measure->bytes + size > STORE_MAX_BUFFER)
            return REQUEST_NONSENSE;
        if (left < size)
            return REQUEST_PARTIAL;

        measure->bytes += size;
        measure->repeats = argument == 'n' ? number : measure->repeats;
        measure->argument = argument == 'n' ? "" : measure->argument + 1;
    }
}

/* ---- bytes ---- */

Blob blob_of(const char *text)
{
    return (Blob){ (const uint8_t *)text, strlen(text) };
}

int blob_compare(const void *left, const void *right)
{
    const Blob *a = left, *b = right;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return memcmp(a->data, b->data, a->count);
}

void bytes_put(Bytes *bytes, const void *data, size_t count)
{
    if (count == 0)
        return;
    if (count > bytes->capacity - bytes->count) {
        bytes->capacity = 64 + 2 * (bytes->count + count);
        bytes->data = realloc(bytes->data, bytes->capacity);
        CHECK(bytes->data != NULL, "out of memory: %zu bytes wanted", bytes->capacity);
    }
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

void bytes_put_u8(Bytes *bytes, uint8_t value)
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

void bytes_drop(Bytes *bytes, size_t count)
{
    bytes->count -= count;
    if (bytes->count == 0)
        bytes_free(bytes);
    else
        memmove(bytes->data, bytes->data + count, bytes->count);
}

void bytes_free(Bytes *bytes)
{
    free(bytes->data);
    *bytes = (Bytes){ 0 };
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
