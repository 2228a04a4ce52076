/* store_ops.h - the operations of PyTorch's store that only tests use. */
#ifndef TESTS_COMMON_COMM_STORE_STORE_OPS_H
#define TESTS_COMMON_COMM_STORE_STORE_OPS_H

#include "launcher/store_queue.h"

void store_append(Store *store, const char *key, const void *value, size_t bytes);

/* Set or get several keys at once, up to 64 MiB of values in all; multi_get waits for all keys. */
void store_multi_set(Store *store, int count, const char *const keys[], const StoreValue values[]);
void store_multi_get(Store *store, int count, const char *const keys[], StoreValue values[]);

int64_t store_num_keys(Store *store); // keys on the whole server, under any prefix
char *store_list_keys(Store *store); // keys under the prefix, one a line; free it
int64_t store_queue_len(Store *store, const char *key);

/* Waits until world_size callers have reached this key. Works once per key, since the count is
 * never reset. */
void store_barrier(Store *store, const char *key, int64_t world_size);

#endif
