/* store_queue.h - queues in the store, in which waiting agents line up for node 0. */
#ifndef LAUNCHER_STORE_QUEUE_H
#define LAUNCHER_STORE_QUEUE_H

#include "common/comm/store/store.h"

typedef struct {
    void *data;
    size_t bytes;
} StoreValue;

/* Push and pop, first in, first out; a queue and a value may have the same key. A value has its
 * capacity in `bytes`, and on return its length. Return false if the queue is empty (with block: if
 * another rank was faster). On PyTorch's server use a separate connection for queues: a push may
 * wake a client that waited for one earlier. */
void store_queue_push(Store *store, const char *key, const void *value, size_t bytes);
bool store_queue_pop(Store *store, const char *key, bool block, StoreValue *value);

#endif
