/* store_call.h - one request to a store and its reply; store.h is implemented with it. */
#ifndef COMMON_COMM_STORE_STORE_CALL_H
#define COMMON_COMM_STORE_STORE_CALL_H

#include <stdnoreturn.h>

#include "common/comm/bytes.h"
#include "common/comm/store/store.h"
#include "common/comm/store/store_protocol.h"

typedef struct {
    const Store *store;
    StoreOperation operation;
    const char *key; // the last one put, for messages
    double deadline; // of the request and all of its reply
    Bytes request; // assembled here, to be sent in one piece
} Call;

/* All of these die when the connection breaks or the deadline, store->timeout from now, passes. */
Call call_begin(const Store *store, StoreOperation operation, const char *key); // NULL: none yet
Call call_begin_list(const Store *store, StoreOperation operation, int count,
                     const char *const keys[]);
void call_put_key(Call *call, const char *key); // with the store's prefix
void call_put_value(Call *call, const void *value, size_t count);
void call_send(Call *call); // and frees the request

void call_receive(const Call *call, void *data, size_t count);
int64_t call_receive_i64(const Call *call);
/* Returns the blob's length; copies at most `capacity` bytes of it. */
size_t call_receive_blob(const Call *call, void *data, size_t capacity);

/* For WAIT and BARRIER: sends the request and waits for its reply. If it does not come in time, the
 * first cancels the request and returns false; the second dies. */
bool call_try_wait(Call *call, double seconds);
void call_wait(Call *call);

noreturn void call_die(const Call *call, const char *reason);

#endif
