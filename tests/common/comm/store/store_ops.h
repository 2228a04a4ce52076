/* store_ops.h - the operations of PyTorch's store that only tests use. */
#ifndef TESTS_COMMON_COMM_STORE_STORE_OPS_H
#define TESTS_COMMON_COMM_STORE_STORE_OPS_H

#include "launcher/store_queue.h"

void store_append(Store *store, const char *key, const void *value, size_t bytes);

/* Several keys at once, with values of 64 MiB together. multi_get waits for all of them. */
void store_multi_set(Store *store, int count, const char *const keys[], const StoreValue values[]);
void store_multi_get(Store *store, int count, const char *const keys[], StoreValue values[]);

int64_t store_num_keys(Store *store); // on the whole server, whatever the prefix
char *store_list_keys(Store *store); // under the prefix, a line each; free it
int64_t store_queue_len(Store *store, const char *key);

/* Waits until world_size callers have come to this key. Works once per key, since it keeps
 * counting. */
void store_barrier(Store *store, const char *key, int64_t world_size);

#endif
