/* The client, which behaves on the wire as PyTorch's does: after the handshake, if the job has a
 * secret, it sends VALIDATE and PING. It sends WAIT before GET, since for an absent key a server
 * returns nothing or disconnects. */
#include "common/comm/store/store.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

#define RETRY_MS 100
#define ANSWER_SECONDS 1.0 // for the first answer of a store to which we connect at the last moment

/* ---- connecting ---- */

/* Sends `bytes`, frees them, and returns when a PING that follows them is answered. Returns false
 * and sets errno if it is not (EPROTO if the answer is wrong). */
static bool ping(int fd, Bytes *bytes, double deadline)
{
    const uint32_t nonce = (uint32_t)getpid();
    uint32_t echo = ~nonce;
    bytes_put_u8(bytes, STORE_PING);
    bytes_put(bytes, &nonce, sizeof nonce);
    const bool answered = net_send(fd, bytes->data, bytes->count, deadline) == 0 &&
                          net_recv(fd, &echo, sizeof echo, deadline) == 0;
    bytes_free(bytes);
    if (answered && echo != nonce)
        errno = EPROTO;
    return echo == nonce;
}

/* Sends VALIDATE in one piece with PING, since PyTorch's newer server disconnects on half of it. */
static bool validate(int fd, double deadline)
{
    Bytes hello = { 0 };
    bytes_put_u8(&hello, STORE_VALIDATE);
    bytes_put(&hello, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t));
    const bool valid = ping(fd, &hello, deadline);
    if (!valid && errno == ETIMEDOUT)
        errno = ENOMSG;
    return valid;
}

const char *store_connect_reason(int error)
{
    if (error == EPROTO)
        return "what answers there is no store";
    return error == ENOMSG ? "what listens there does not answer as a store does"
                           : net_reason(error);
}

bool store_connect(Store *store, const char *host, int port, double timeout)
{
    *store = (Store){ .fd = -1, .timeout = timeout, .port = port };
    CHECK(strlen(host) < sizeof store->host, "the name of the store's host is too long: %s", host);
    strcpy(store->host, host);
    const Key256 *key = secret_find(HANDSHAKE_STORE);
    store->has_secret = key != NULL;
    const double deadline = seconds_awake() + timeout;
    for (double since = 0;;) {
        store->fd = net_connect(host, port, deadline);
        if (store->fd < 0)
            return false;
        since = since == 0 ? seconds_awake() : since; // time of the first answer
        const double reply_deadline = fmax(deadline, seconds_awake() + ANSWER_SECONDS);
        if ((key == NULL || store_prove(store, key, since, reply_deadline)) &&
            validate(store->fd, reply_deadline))
            return true;
        const int reason = errno;
        close(store->fd);
        store->fd = -1;
        errno = reason;
        if (reason == EPROTO || seconds_awake() > deadline)
            return false; // another program has this port, or does not answer
        poll(NULL, 0, RETRY_MS); // disconnected, perhaps by the server of an attempt that has ended
    }
}

/* ---- one request and its reply ---- */

/* Dies unless the store may fail; no other place ends a process because of a request. Replies have
 * no framing: after any failure the connection is useless, and so is a rank without its store. */
void store_request_fail(const StoreRequest *request, const char *reason)
{
    Store *store = request->store;
    char text[128];
    if (errno == ETIMEDOUT)
        snprintf(text, sizeof text, "no answer within %g s", store->timeout);
    else
        snprintf(text, sizeof text, "%s: has the process that serves it ended?", strerror(errno));
    store->failed = true;
    if (!store->may_fail)
        die("store at %s:%d: %s%s%.200s: %s", store->host, store->port,
            store_operation_name(request->operation), request->key == NULL ? "" : " ",
            request->key == NULL ? "" : request->key, reason != NULL ? reason : text);
}

StoreRequest store_request_begin(Store *store, StoreOperation operation, const char *key)
{
    StoreRequest request = { .store = store,
                             .operation = operation,
                             .deadline = seconds_awake() + store->timeout };
    bytes_put_u8(&request.bytes, (uint8_t)operation);
    if (key != NULL && (operation == STORE_WAIT || operation == STORE_CHECK))
        bytes_put_u64(&request.bytes, 1); // they take a list of keys
    if (key != NULL)
        store_request_put_key(&request, key);
    return request;
}

void store_request_put_key(StoreRequest *request, const char *key)
{
    char text[STORE_MAX_KEY + 1]; // PyTorch's clients, too, put a / before every key of a user
    request->key = key;
    if (snprintf(text, sizeof text, "/%s%s", request->store->prefix, key) > STORE_MAX_KEY)
        store_request_fail(request, "this key is too long");
    bytes_put_blob(&request->bytes, blob_of(text));
}

void store_request_put_value(StoreRequest *request, const void *value, size_t count)
{
    if (count > STORE_MAX_VALUE)
        store_request_fail(request, "a value may have 8 MiB at most");
    bytes_put_blob(&request->bytes, (Blob){ value, count });
}

void store_request_send(StoreRequest *request)
{
    const Bytes *bytes = &request->bytes;
    if (!request->store->failed &&
        net_send(request->store->fd, bytes->data, bytes->count, request->deadline) < 0)
        store_request_fail(request, NULL);
    bytes_free(&request->bytes);
}

bool store_reply(StoreRequest *request, void *data, size_t count)
{
    store_request_send(request); // sends nothing if that was done
    if (request->store->failed)
        return false;
    errno = ETIMEDOUT; // even if bytes keep coming: an endless reply is an error
    if (seconds_awake() <= request->deadline &&
        net_recv(request->store->fd, data, count, request->deadline) == 0)
        return true;
    store_request_fail(request, NULL);
    return false;
}

int64_t store_reply_i64(StoreRequest *request)
{
    int64_t value = 0;
    return store_reply(request, &value, sizeof value) ? value : 0;
}

size_t store_reply_blob(StoreRequest *request, void *data, size_t capacity)
{
    const uint64_t count = (uint64_t)store_reply_i64(request);
    if (count > STORE_MAX_BUFFER)
        store_request_fail(request, STORE_NONSENSE);
    // Read all of it, wanted or not, because the next reply follows.
    const size_t copied = count < capacity ? count : capacity;
    bool complete = store_reply(request, data, copied);
    char rest[4096];
    for (size_t left = count - copied, size; complete && left > 0; left -= size) {
        size = left < sizeof rest ? left : sizeof rest;
        complete = store_reply(request, rest, size);
    }
    return complete ? count : 0;
}

/* Counts at a key without the prefix, because PyTorch's workers use it too. */
int64_t store_count_worker(Store *store, int64_t amount)
{
    StoreRequest request = store_request_begin(store, STORE_ADD, NULL);
    store_request_put_value(&request, "init/", strlen("init/"));
    bytes_put_u64(&request.bytes, (uint64_t)amount);
    return store_reply_i64(&request);
}

void store_free(Store *store)
{
    close(store->fd);
    if (store->server != NULL)
        store_server_stop(store->server);
    *store = (Store){ .fd = -1 };
}

/* ---- operations ---- */

void store_set(Store *store, const char *key, const void *value, size_t bytes)
{
    StoreRequest request = store_request_begin(store, STORE_SET, key);
    store_request_put_value(&request, value, bytes);
    store_request_send(&request);
}

size_t store_get(Store *store, const char *key, void *value, size_t bytes)
{
    store_wait(store, key);
    StoreRequest request = store_request_begin(store, STORE_GET, key);
    return store_reply_blob(&request, value, bytes);
}

int64_t store_add(Store *store, const char *key, int64_t amount)
{
    StoreRequest request = store_request_begin(store, STORE_ADD, key);
    bytes_put_u64(&request.bytes, (uint64_t)amount);
    return store_reply_i64(&request);
}

void store_wait(Store *store, const char *key)
{
    char reason[128];
    if (store_try_wait(store, key, store->timeout) || store->failed)
        return;
    snprintf(reason, sizeof reason, "in vain for %g s: has every rank got that far?",
             store->timeout);
    store_request_fail(&(StoreRequest){ .store = store, .operation = STORE_WAIT, .key = key },
                       reason);
}

bool store_try_wait(Store *store, const char *key, double seconds)
{
    log_detail(LOG_STORE, "waiting for key \"%s\", %g s at most", key, seconds);
    StoreRequest request = store_request_begin(store, STORE_WAIT, key);
    store_request_send(&request);
    uint8_t reply = STORE_WAIT_CANCELED;
    if (!store->failed && net_recv(store->fd, &reply, 1, seconds_awake() + seconds) == 0) {
        if (reply != STORE_STOP_WAITING)
            store_request_fail(&request, STORE_NONSENSE);
        return !store->failed;
    }
    if (!store->failed && errno != ETIMEDOUT)
        store_request_fail(&request, NULL);

    StoreRequest cancel = store_request_begin(store, STORE_CANCEL_WAIT, NULL);
    store_reply(&cancel, &reply, 1);
    const bool crossed = reply == STORE_STOP_WAITING; // the key was set just then: one more follows
    if (crossed)
        store_reply(&cancel, &reply, 1);
    if (reply != STORE_WAIT_CANCELED)
        store_request_fail(&cancel, STORE_NONSENSE);
    return crossed && !store->failed;
}

bool store_check(Store *store, const char *key)
{
    StoreRequest request = store_request_begin(store, STORE_CHECK, key);
    uint8_t reply = STORE_NOT_READY;
    return store_reply(&request, &reply, 1) && reply == STORE_READY;
}

bool store_delete(Store *store, const char *key)
{
    StoreRequest request = store_request_begin(store, STORE_DELETE_KEY, key);
    return store_reply_i64(&request) == 1;
}

size_t store_compare_set(Store *store, const char *key, const char *expected, const char *desired,
                         char *result, size_t bytes)
{
    StoreRequest request = store_request_begin(store, STORE_COMPARE_SET, key);
    store_request_put_value(&request, expected, strlen(expected));
    store_request_put_value(&request, desired, strlen(desired));
    return store_reply_blob(&request, result, bytes);
}

void store_ping(Store *store)
{
    if (!store->failed && !store_try_ping(store, store->timeout))
        store_request_fail(&(StoreRequest){ .store = store, .operation = STORE_PING }, NULL);
}

bool store_try_ping(Store *store, double seconds)
{
    return ping(store->fd, &(Bytes){ 0 }, seconds_awake() + seconds);
}

void secret_report_none(const char *host, int port)
{
    log_info("this job has no secret: whoever reaches %s:%d may join it; give every node the same "
             "--secret-file or " SECRET_VARIABLE " (docs/security.md)",
             host, port);
}
