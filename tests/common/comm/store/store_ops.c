/* The operations of PyTorch's store that only tests use, so that its whole protocol is tested. */
#include "tests/common/comm/store/store_ops.h"

#include "common/base/log.h"

static StoreRequest begin_list(Store *store, StoreOperation operation, int count,
                               const char *const keys[])
{
    StoreRequest request = store_request_begin(store, operation, NULL);
    bytes_put_u64(&request.bytes, (uint64_t)count);
    for (int i = 0; i < count; i++)
        store_request_put_key(&request, keys[i]);
    return request;
}

/* Sends a WAIT or BARRIER request and waits for its end. */
static void send_and_wait(StoreRequest *request)
{
    uint8_t reply = STORE_WAIT_CANCELED;
    store_reply(request, &reply, 1);
    if (reply != STORE_STOP_WAITING)
        store_request_fail(request, STORE_NONSENSE);
}

void store_append(Store *store, const char *key, const void *value, size_t bytes)
{
    StoreRequest request = store_request_begin(store, STORE_APPEND, key);
    store_request_put_value(&request, value, bytes);
    store_request_send(&request);
}

void store_multi_set(Store *store, int count, const char *const keys[], const StoreValue values[])
{
    StoreRequest request = store_request_begin(store, STORE_MULTI_SET, NULL);
    bytes_put_u64(&request.bytes, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        store_request_put_key(&request, keys[i]);
        store_request_put_value(&request, values[i].data, values[i].bytes);
    }
    store_request_send(&request);
}

void store_multi_get(Store *store, int count, const char *const keys[], StoreValue values[])
{
    StoreRequest wait = begin_list(store, STORE_WAIT, count, keys);
    send_and_wait(&wait);
    StoreRequest request = begin_list(store, STORE_MULTI_GET, count, keys);
    store_request_send(&request);
    for (int i = 0; i < count; i++)
        values[i].bytes = store_reply_blob(&request, values[i].data, values[i].bytes);
}

int64_t store_num_keys(Store *store)
{
    StoreRequest request = store_request_begin(store, STORE_GETNUMKEYS, NULL);
    return store_reply_i64(&request);
}

char *store_list_keys(Store *store)
{
    StoreRequest request = store_request_begin(store, STORE_LIST_KEYS, NULL);
    store_request_send(&request);
    Bytes list = { 0 };
    const size_t prefix_length = 1 + strlen(store->prefix);
    for (int64_t left = store_reply_i64(&request); left > 0; left--) {
        char key[STORE_MAX_KEY];
        const size_t length = store_reply_blob(&request, key, sizeof key);
        if (length > sizeof key || length < prefix_length || key[0] != '/' ||
            memcmp(key + 1, store->prefix, prefix_length - 1) != 0)
            continue;
        bytes_put(&list, key + prefix_length, length - prefix_length);
        bytes_put_u8(&list, '\n');
        if (list.count > STORE_MAX_BUFFER)
            store_request_fail(&request, "too many keys");
    }
    bytes_put_u8(&list, '\0');
    return (char *)list.data;
}

int64_t store_queue_len(Store *store, const char *key)
{
    StoreRequest request = store_request_begin(store, STORE_QUEUE_LEN, key);
    return store_reply_i64(&request);
}

void store_barrier(Store *store, const char *key, int64_t world_size)
{
    StoreRequest request = store_request_begin(store, STORE_BARRIER, key);
    bytes_put_u64(&request.bytes, (uint64_t)world_size);
    send_and_wait(&request);
}
