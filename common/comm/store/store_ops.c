/* The other operations of PyTorch's store, so that the client has its whole protocol. */
#include "common/base/log.h"
#include "common/comm/store/store.h"
#include "common/comm/store/store_call.h"

void store_ping(Store *store)
{
    uint32_t nonce = (uint32_t)store->port, echo = ~nonce;
    Call call = call_begin(store, STORE_PING, NULL);
    bytes_put_u32(&call.request, nonce);
    call_send(&call);
    call_receive(&call, &echo, sizeof echo);
    if (echo != nonce)
        call_die(&call, "the echo is not what was sent");
}

void store_append(Store *store, const char *key, const void *value, size_t bytes)
{
    Call call = call_begin(store, STORE_APPEND, key);
    call_put_value(&call, value, bytes);
    call_send(&call);
}

void store_multi_set(Store *store, int count, const char *const keys[], const StoreValue values[])
{
    Call call = call_begin(store, STORE_MULTI_SET, NULL);
    bytes_put_u64(&call.request, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        call_put_key(&call, keys[i]);
        call_put_value(&call, values[i].data, values[i].bytes);
    }
    call_send(&call);
}

void store_multi_get(Store *store, int count, const char *const keys[], StoreValue values[])
{
    Call wait = call_begin_list(store, STORE_WAIT, count, keys);
    call_wait(&wait);
    Call call = call_begin_list(store, STORE_MULTI_GET, count, keys);
    call_send(&call);
    for (int i = 0; i < count; i++)
        values[i].bytes = call_receive_blob(&call, values[i].data, values[i].bytes);
}

int64_t store_num_keys(Store *store)
{
    Call call = call_begin(store, STORE_GETNUMKEYS, NULL);
    call_send(&call);
    return call_receive_i64(&call);
}

char *store_list_keys(Store *store)
{
    Call call = call_begin(store, STORE_LIST_KEYS, NULL);
    call_send(&call);
    Bytes list = { 0 };
    const size_t prefix_length = 1 + strlen(store->prefix);
    for (int64_t left = call_receive_i64(&call); left > 0; left--) {
        char key[STORE_MAX_KEY];
        const size_t length = call_receive_blob(&call, key, sizeof key);
        if (length > sizeof key || length < prefix_length || key[0] != '/' ||
            memcmp(key + 1, store->prefix, prefix_length - 1) != 0)
            continue;
        bytes_put(&list, key + prefix_length, length - prefix_length);
        bytes_put_u8(&list, '\n');
        if (bytes_count(&list) > STORE_MAX_BUFFER)
            call_die(&call, "too many keys");
    }
    bytes_put_u8(&list, '\0');
    return (char *)list.data;
}

void store_queue_push(Store *store, const char *key, const void *value, size_t bytes)
{
    Call call = call_begin(store, STORE_QUEUE_PUSH, key);
    call_put_value(&call, value, bytes);
    call_send(&call);
}

bool store_queue_pop(Store *store, const char *key, bool block, StoreValue *value)
{
    if (block)
        store_wait(store, key);
    Call call = call_begin(store, STORE_QUEUE_POP, key);
    call_send(&call);
    if (call_receive_i64(&call) <= 0)
        return false;
    value->bytes = call_receive_blob(&call, value->data, value->bytes);
    return true;
}

int64_t store_queue_len(Store *store, const char *key)
{
    Call call = call_begin(store, STORE_QUEUE_LEN, key);
    call_send(&call);
    return call_receive_i64(&call);
}

void store_barrier(Store *store, const char *key, int64_t world_size)
{
    Call call = call_begin(store, STORE_BARRIER, key);
    bytes_put_u64(&call.request, (uint64_t)world_size);
    call_wait(&call);
}
