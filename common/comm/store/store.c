/*
 * The client, which behaves on the wire as PyTorch's does: once connected (store_connect.c), it
 * counts itself under "init/", and sends WAIT before GET, since for an absent key a server returns
 * nothing or disconnects.
 */
#include "common/comm/store/store.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

#define WORKER_POLL_MS 10

/* ---- one request and its reply ---- */

/* The only place where a process ends because of a request. Replies have no framing: after any
 * failure the connection is useless, and so is a rank without its store. */
void store_request_fail(const StoreRequest *request, const char *reason)
{
    Store *store = request->store;
    char text[128];
    if (reason == NULL && errno == ETIMEDOUT)
        snprintf(text, sizeof text, "no answer within %g s", store->timeout);
    else if (reason == NULL)
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
                             .deadline = seconds_now() + store->timeout };
    bytes_put_u8(&request.bytes, operation);
    if (key != NULL && (operation == STORE_WAIT || operation == STORE_CHECK))
        bytes_put_u64(&request.bytes, 1); // they take a list of keys
    if (key != NULL)
        store_request_put_key(&request, key);
    return request;
}

void store_request_put_key(StoreRequest *request, const char *key)
{
    const char *prefix = request->store->prefix;
    request->key = key;
    if (strlen(key) > STORE_MAX_KEY - sizeof request->store->prefix)
        store_request_fail(request, "this key is too long");
    bytes_put_u64(&request->bytes, 1 + strlen(prefix) + strlen(key));
    bytes_put_u8(&request->bytes, '/'); // as PyTorch's clients do with every key of a user
    bytes_put(&request->bytes, prefix, strlen(prefix));
    bytes_put(&request->bytes, key, strlen(key));
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
        net_send(request->store->fd, bytes_front(bytes), bytes_count(bytes), request->deadline) < 0)
        store_request_fail(request, NULL);
    bytes_free(&request->bytes);
}

bool store_reply(const StoreRequest *request, void *data, size_t count)
{
    if (request->store->failed)
        return false;
    errno = ETIMEDOUT; // even if bytes keep coming: an endless reply is an error
    if (seconds_now() <= request->deadline &&
        net_recv(request->store->fd, data, count, request->deadline) == 0)
        return true;
    store_request_fail(request, NULL);
    return false;
}

int64_t store_reply_i64(const StoreRequest *request)
{
    int64_t value = 0;
    return store_reply(request, &value, sizeof value) ? value : 0;
}

size_t store_reply_blob(const StoreRequest *request, void *data, size_t capacity)
{
    const uint64_t count = (uint64_t)store_reply_i64(request);
    if (count > STORE_MAX_BUFFER)
        store_request_fail(request, STORE_NONSENSE);
    // Read all of it, wanted or not: the next reply follows.
    const size_t copied = count < capacity ? count : capacity;
    bool complete = store_reply(request, data, copied);
    char rest[4096];
    for (size_t left = count - copied, size; complete && left > 0; left -= size) {
        size = left < sizeof rest ? left : sizeof rest;
        complete = store_reply(request, rest, size);
    }
    return complete ? count : 0;
}

/* ---- joining ---- */

/* Does torchrun's agent serve the store at MASTER_PORT itself? */
static bool agent_serves(int port)
{
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"),
               *master_port = getenv("MASTER_PORT");
    return agent != NULL && master_port != NULL && atoi(master_port) == port &&
           (strcmp(agent, "True") == 0 || strcmp(agent, "true") == 0 || strcmp(agent, "1") == 0);
}

static const char *env_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' ? otherwise : value;
}

/* The key of this count has no prefix: PyTorch's workers use it too. */
int64_t store_count_worker(Store *store, int64_t amount)
{
    StoreRequest request = store_request_begin(store, STORE_ADD, NULL);
    store_request_put_value(&request, "init/", strlen("init/"));
    bytes_put_u64(&request.bytes, (uint64_t)amount);
    store_request_send(&request);
    return store_reply_i64(&request);
}

/* As store_connect, but says after a while that it is still waiting. */
static bool connect_patiently(Store *store, const char *host, int port, double timeout)
{
    if (store_connect(store, host, port, fmin(timeout, STORE_PATIENCE)))
        return true;
    if (timeout <= STORE_PATIENCE || errno == EPROTO)
        return false;
    if (errno != ENXIO) // said by net_connect
        log_info("waits for rank 0 at %s:%d (%s), %g s at most (--timeout)", host, port,
                 store_connect_reason(errno), timeout);
    return store_connect(store, host, port, timeout - STORE_PATIENCE);
}

void store_init(Store *store, const char *host, int port, bool is_server, int world_size,
                double timeout)
{
    const double deadline = seconds_now() + timeout;
    StoreServer *server = NULL;
    const bool is_agents = agent_serves(port);
    if (is_server && !is_agents) {
        server = store_server_start(host, &port, NULL);
        char reason[NET_REASON_BYTES];
        CHECK(server != NULL, "cannot serve the store at %s:%d: %s (MASTER_PORT may be changed)",
              host, port, net_listen_reason(errno, port, reason));
        log_detail(LOG_STORE, "serving at %s:%d", host, port);
    }
    CHECK(connect_patiently(store, host, port, timeout),
          "no store at %s:%d within %g s (%s): is rank 0 running, is MASTER_ADDR right?", host,
          port, timeout, store_connect_reason(errno));
    store->timeout = timeout; // whichever attempt it was that connected
    log_detail(LOG_STORE, "connected to %s:%d after %.3f s", host, port,
               timeout - (deadline - seconds_now()));
    store->server = server;
    store->is_agents = is_agents;
    if (is_server && getenv(SECRET_VARIABLE) == NULL && !net_is_loopback(host))
        secret_report_none(host, port); // else a launcher has, or there is one
    const int length =
        snprintf(store->prefix, sizeof store->prefix, "ddp.c/%s/%s/",
                 env_or("TORCHELASTIC_RUN_ID", "none"), env_or("TORCHELASTIC_RESTART_COUNT", "0"));
    CHECK(length < (int)sizeof store->prefix, "TORCHELASTIC_RUN_ID is too long: %s", store->prefix);

    int64_t arrived = store_count_worker(store, 1);
    while (server != NULL && arrived < world_size) {
        CHECK(seconds_now() < deadline,
              "only %d of %d ranks came to the store at %s:%d within %g s: have all been started, "
              "with this MASTER_ADDR and MASTER_PORT?",
              (int)arrived, world_size, host, port, timeout);
        poll(NULL, 0, WORKER_POLL_MS);
        arrived = store_count_worker(store, 0);
    }
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
    store_request_send(&request);
    return store_reply_blob(&request, value, bytes);
}

int64_t store_add(Store *store, const char *key, int64_t amount)
{
    StoreRequest request = store_request_begin(store, STORE_ADD, key);
    bytes_put_u64(&request.bytes, (uint64_t)amount);
    store_request_send(&request);
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
    if (store->failed)
        return false;
    log_detail(LOG_STORE, "waiting for key \"%s\", %g s at most", key, seconds);
    StoreRequest request = store_request_begin(store, STORE_WAIT, key);
    store_request_send(&request);
    uint8_t reply = STORE_WAIT_CANCELED;
    if (!store->failed && net_recv(store->fd, &reply, 1, seconds_now() + seconds) == 0) {
        if (reply != STORE_STOP_WAITING)
            store_request_fail(&request, STORE_NONSENSE);
        return !store->failed;
    }
    if (!store->failed && errno != ETIMEDOUT)
        store_request_fail(&request, NULL);

    StoreRequest cancel = store_request_begin(store, STORE_CANCEL_WAIT, NULL);
    store_request_send(&cancel);
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
    store_request_send(&request);
    uint8_t reply = STORE_NOT_READY;
    return store_reply(&request, &reply, 1) && reply == STORE_READY;
}

bool store_delete(Store *store, const char *key)
{
    StoreRequest request = store_request_begin(store, STORE_DELETE_KEY, key);
    store_request_send(&request);
    return store_reply_i64(&request) == 1;
}

size_t store_compare_set(Store *store, const char *key, const char *expected, const char *desired,
                         char *result, size_t bytes)
{
    StoreRequest request = store_request_begin(store, STORE_COMPARE_SET, key);
    store_request_put_value(&request, expected, strlen(expected));
    store_request_put_value(&request, desired, strlen(desired));
    store_request_send(&request);
    return store_reply_blob(&request, result, bytes);
}

void store_ping(Store *store)
{
    if (!store->failed && !store_try_ping(store, store->timeout))
        store_request_fail(&(StoreRequest){ .store = store, .operation = STORE_PING }, NULL);
}
