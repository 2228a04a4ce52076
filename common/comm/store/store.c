/*
 * The client, which behaves on the wire as PyTorch's does: it identifies itself with VALIDATE,
 * checks the round trip with PING, counts itself under "init/", and sends WAIT before GET, since
 * for an absent key a server returns nothing or disconnects.
 */
#include "common/comm/store/store.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/log_topics.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store_call.h"
#include "common/comm/store/store_server.h"

#define RETRY_MS 100
#define WORKER_POLL_MS 10

static int handshake(int fd, double deadline)
{
    const uint32_t nonce = (uint32_t)getpid();
    uint32_t echo = ~nonce;
    Bytes hello = { 0 };
    bytes_put_u8(&hello, STORE_VALIDATE);
    bytes_put_u32(&hello, STORE_MAGIC);
    bytes_put_u8(&hello, STORE_PING);
    bytes_put_u32(&hello, nonce);
    // In one piece: PyTorch's newer server disconnects on half a VALIDATE.
    const bool answered = net_send(fd, bytes_front(&hello), bytes_count(&hello), deadline) == 0 &&
                          net_recv(fd, &echo, sizeof echo, deadline) == 0;
    bytes_free(&hello);
    if (echo == nonce)
        return 0;
    if (answered || errno == ETIMEDOUT)
        errno = answered ? EPROTO : ENOMSG;
    return -1;
}

const char *store_connect_reason(int error)
{
    if (error == EPROTO)
        return "who answers there is no store";
    return error == ENOMSG ? "who listens there does not answer as a store does"
                           : net_reason(error);
}

bool store_connect(Store *store, const char *host, int port, double timeout)
{
    *store = (Store){ .fd = -1, .timeout = timeout, .port = port };
    CHECK(strlen(host) < sizeof store->host, "the name of the store's host is too long: %s", host);
    strcpy(store->host, host);
    const double deadline = seconds_now() + timeout;
    for (;;) {
        store->fd = net_connect(host, port, deadline);
        if (store->fd < 0)
            return false;
        if (handshake(store->fd, deadline) == 0)
            return true;
        const int reason = errno;
        close(store->fd);
        errno = reason;
        if (reason == EPROTO || seconds_now() > deadline)
            return false; // another program has this port, or does not answer
        poll(NULL, 0, RETRY_MS); // disconnected, perhaps by the server of an attempt that has ended
    }
}

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
int64_t store_count_worker(const Store *store, int64_t amount)
{
    Call call = call_begin(store, STORE_ADD, NULL);
    call_put_value(&call, "init/", strlen("init/"));
    bytes_put_u64(&call.request, (uint64_t)amount);
    call_send(&call);
    return call_receive_i64(&call);
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
        server = store_server_start(host, &port);
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

void store_set(Store *store, const char *key, const void *value, size_t bytes)
{
    Call call = call_begin(store, STORE_SET, key);
    call_put_value(&call, value, bytes);
    call_send(&call);
}

size_t store_get(Store *store, const char *key, void *value, size_t bytes)
{
    store_wait(store, key);
    Call call = call_begin(store, STORE_GET, key);
    call_send(&call);
    return call_receive_blob(&call, value, bytes);
}

int64_t store_add(Store *store, const char *key, int64_t amount)
{
    Call call = call_begin(store, STORE_ADD, key);
    bytes_put_u64(&call.request, (uint64_t)amount);
    call_send(&call);
    return call_receive_i64(&call);
}

void store_wait(Store *store, const char *key)
{
    log_detail(LOG_STORE, "waiting for key \"%s\"", key);
    Call call = call_begin_list(store, STORE_WAIT, 1, &key);
    call_wait(&call);
}

bool store_try_wait(Store *store, const char *key, double seconds)
{
    log_detail(LOG_STORE, "waiting for key \"%s\", %g s at most", key, seconds);
    Call call = call_begin_list(store, STORE_WAIT, 1, &key);
    return call_try_wait(&call, seconds);
}

bool store_check(Store *store, const char *key)
{
    Call call = call_begin_list(store, STORE_CHECK, 1, &key);
    call_send(&call);
    uint8_t reply = STORE_NOT_READY;
    call_receive(&call, &reply, 1);
    return reply == STORE_READY;
}

bool store_delete(Store *store, const char *key)
{
    Call call = call_begin(store, STORE_DELETE_KEY, key);
    call_send(&call);
    return call_receive_i64(&call) == 1;
}

size_t store_compare_set(Store *store, const char *key, const char *expected, const char *desired,
                         char *result, size_t bytes)
{
    Call call = call_begin(store, STORE_COMPARE_SET, key);
    call_put_value(&call, expected, strlen(expected));
    call_put_value(&call, desired, strlen(desired));
    call_send(&call);
    return call_receive_blob(&call, result, bytes);
}
