/*
 * Replies have no framing: after any failure the connection is useless, and so is a rank without
 * its store. So a call that fails ends the process.
 */
#include "common/comm/store/store_call.h"

#include <stdio.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

#define NONSENSE "the answer makes no sense: is that a store?"

void call_die(const Call *call, const char *reason)
{
    die("store at %s:%d: %s%s%.200s: %s", call->store->host, call->store->port,
        store_operation_name(call->operation), call->key == NULL ? "" : " ",
        call->key == NULL ? "" : call->key, reason);
}

static noreturn void die_of_errno(const Call *call)
{
    char reason[128];
    if (errno == ETIMEDOUT)
        snprintf(reason, sizeof reason, "no answer within %g s", call->store->timeout);
    else
        snprintf(reason, sizeof reason, "%s: has the process that serves it ended?",
                 strerror(errno));
    call_die(call, reason);
}

Call call_begin(const Store *store, StoreOperation operation, const char *key)
{
    Call call = { .store = store,
                  .operation = operation,
                  .deadline = seconds_now() + store->timeout };
    bytes_put_u8(&call.request, operation);
    if (key != NULL)
        call_put_key(&call, key);
    return call;
}

Call call_begin_list(const Store *store, StoreOperation operation, int count,
                     const char *const keys[])
{
    Call call = call_begin(store, operation, NULL);
    bytes_put_u64(&call.request, (uint64_t)count);
    for (int i = 0; i < count; i++)
        call_put_key(&call, keys[i]);
    return call;
}

void call_put_key(Call *call, const char *key)
{
    const char *prefix = call->store->prefix;
    call->key = key;
    if (strlen(key) > STORE_MAX_KEY - sizeof call->store->prefix)
        call_die(call, "this key is too long");
    bytes_put_u64(&call->request, 1 + strlen(prefix) + strlen(key));
    bytes_put_u8(&call->request, '/'); // as PyTorch's clients do with every key of a user
    bytes_put(&call->request, prefix, strlen(prefix));
    bytes_put(&call->request, key, strlen(key));
}

void call_put_value(Call *call, const void *value, size_t count)
{
    if (count > STORE_MAX_VALUE)
        call_die(call, "a value may have 8 MiB at most");
    bytes_put_blob(&call->request, (Blob){ value, count });
}

void call_send(Call *call)
{
    const Bytes *request = &call->request;
    if (net_send(call->store->fd, bytes_front(request), bytes_count(request), call->deadline) < 0)
        die_of_errno(call);
    bytes_free(&call->request);
}

void call_receive(const Call *call, void *data, size_t count)
{
    errno = ETIMEDOUT; // even if bytes keep coming: an endless reply is an error
    if (seconds_now() > call->deadline ||
        net_recv(call->store->fd, data, count, call->deadline) < 0)
        die_of_errno(call);
}

int64_t call_receive_i64(const Call *call)
{
    int64_t value = 0;
    call_receive(call, &value, sizeof value);
    return value;
}

size_t call_receive_blob(const Call *call, void *data, size_t capacity)
{
    const uint64_t count = (uint64_t)call_receive_i64(call);
    if (count > STORE_MAX_BUFFER)
        call_die(call, NONSENSE);
    // Read all of it, wanted or not: the next reply follows.
    const size_t copied = count < capacity ? count : capacity;
    call_receive(call, data, copied);
    char rest[4096];
    for (size_t left = count - copied, size; left > 0; left -= size) {
        size = left < sizeof rest ? left : sizeof rest;
        call_receive(call, rest, size);
    }
    return count;
}

bool call_try_wait(Call *call, double seconds)
{
    call_send(call);
    uint8_t reply = STORE_STOP_WAITING;
    if (net_recv(call->store->fd, &reply, 1, seconds_now() + seconds) == 0) {
        if (reply != STORE_STOP_WAITING)
            call_die(call, NONSENSE);
        return true;
    }
    if (errno != ETIMEDOUT)
        die_of_errno(call);

    Call cancel = call_begin(call->store, STORE_CANCEL_WAIT, NULL);
    call_send(&cancel);
    call_receive(&cancel, &reply, 1);
    const bool crossed = reply == STORE_STOP_WAITING; // the replies crossed: one more follows
    if (crossed)
        call_receive(&cancel, &reply, 1);
    if (reply != STORE_WAIT_CANCELED)
        call_die(&cancel, NONSENSE);
    return crossed;
}

void call_wait(Call *call)
{
    char reason[128];
    if (call_try_wait(call, call->store->timeout))
        return;
    snprintf(reason, sizeof reason, "in vain for %g s: has every rank got that far?",
             call->store->timeout);
    call_die(call, reason);
}
