/*
 * How a client reaches a store: the connection, the handshake if the job has a secret, then, as
 * PyTorch's clients begin, VALIDATE and PING.
 */
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"

#define RETRY_MS 100
#define SILENT_SECONDS 60.0 // torchrun's store may leave a handshake unanswered
#define REFUSED_SECONDS 8.0 // a crowded server may hang up on a handshake, but not for so long

/* Sends `bytes`, frees them, and returns when a PING that follows them is answered. False and errno
 * if it is not; EPROTO: the answer is wrong. */
static bool ping(int fd, Bytes *bytes, double deadline)
{
    const uint32_t nonce = (uint32_t)getpid();
    uint32_t echo = ~nonce;
    bytes_put_u8(bytes, STORE_PING);
    bytes_put(bytes, &nonce, sizeof nonce);
    const bool answered = net_send(fd, bytes_front(bytes), bytes_count(bytes), deadline) == 0 &&
                          net_recv(fd, &echo, sizeof echo, deadline) == 0;
    bytes_free(bytes);
    if (answered && echo != nonce)
        errno = EPROTO;
    return echo == nonce;
}

/* In one piece with PING: PyTorch's newer server disconnects on half a VALIDATE. */
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

/* A wrong proof is final; a server that hangs up may do so because of a crowd, at first. */
static bool authenticate(const Store *store, HandshakeService service, double since,
                         double deadline)
{
    if (!store->has_secret)
        return true;
    const Key256 key = handshake_key(&store->secret, service);
    const double silent_until = seconds_now() + SILENT_SECONDS;
    if (handshake_call(store->fd, &key, handshake_hello(service), fmin(deadline, silent_until)) ==
        0)
        return true;
    if (errno == EPROTO)
        return false;
    const bool is_silent = errno == ETIMEDOUT;
    CHECK(errno != EACCES && seconds_now() < (is_silent ? silent_until : since + REFUSED_SECONDS),
          "the store at %s:%d does not know this job's secret, %s (" SECRET_VARIABLE
          "): give all nodes the same, with the same --rdzv-id, or none; torchrun's have none",
          store->host, store->port, getenv(SECRET_VARIABLE));
    errno = is_silent ? ENOMSG : ECONNRESET;
    return false;
}

static bool connect_as(HandshakeService service, Store *store, const char *host, int port,
                       double timeout)
{
    *store = (Store){ .fd = -1, .timeout = timeout, .port = port };
    CHECK(strlen(host) < sizeof store->host, "the name of the store's host is too long: %s", host);
    strcpy(store->host, host);
    store->has_secret = secret_find(&store->secret);
    const double deadline = seconds_now() + timeout;
    for (double since = 0;;) {
        store->fd = net_connect(host, port, deadline);
        if (store->fd < 0)
            return false;
        since = since == 0 ? seconds_now() : since; // of the first answer
        if (authenticate(store, service, since, deadline) && validate(store->fd, deadline))
            return true;
        const int reason = errno;
        close(store->fd);
        store->fd = -1;
        errno = reason;
        if (reason == EPROTO || seconds_now() > deadline)
            return false; // another program has this port, or does not answer
        poll(NULL, 0, RETRY_MS); // disconnected, perhaps by the server of an attempt that has ended
    }
}

bool store_connect(Store *store, const char *host, int port, double timeout)
{
    return connect_as(HANDSHAKE_STORE, store, host, port, timeout);
}

bool endpoint_connect(Store *store, const char *host, int port, double timeout)
{
    return connect_as(HANDSHAKE_ENDPOINT, store, host, port, timeout);
}

bool store_try_ping(Store *store, double seconds)
{
    return ping(store->fd, &(Bytes){ 0 }, seconds_now() + seconds);
}

void store_check_secret(Store *store)
{
    uint8_t reply = STORE_NOT_READY;
    StoreRequest request = store_request_begin(store, STORE_CHECK, NULL);
    bytes_put_u64(&request.bytes, 1);
    store_request_put_value(&request, STORE_HAS_SECRET, strlen(STORE_HAS_SECRET)); // no prefix
    store_request_send(&request);
    store_reply(&request, &reply, 1);
    CHECK(reply != STORE_READY,
          "the job at %s:%d has a secret and this process has none: give it the same --secret-file "
          "or " SECRET_VARIABLE,
          store->host, store->port);
}
