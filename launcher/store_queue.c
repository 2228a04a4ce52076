/* Queues are part of the protocol of PyTorch's TCPStore; our store serves them, too. */
#include "launcher/store_queue.h"

void store_queue_push(Store *store, const char *key, const void *value, size_t bytes)
{
    StoreRequest request = store_request_begin(store, STORE_QUEUE_PUSH, key);
    store_request_put_value(&request, value, bytes);
    store_request_send(&request);
}

bool store_queue_pop(Store *store, const char *key, bool block, StoreValue *value)
{
    if (block)
        store_wait(store, key);
    StoreRequest request = store_request_begin(store, STORE_QUEUE_POP, key);
    if (store_reply_i64(&request) <= 0)
        return false;
    value->bytes = store_reply_blob(&request, value->data, value->bytes);
    return true;
}
