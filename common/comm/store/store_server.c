/*
 * One thread serves all clients: it sleeps until a socket is readable (epoll), reads what is
 * available, executes the requests it completes, and sends what the sockets accept. It never waits
 * for one client, so half a request or a sleeping reader delays nobody else; and limits protect the
 * memory and descriptors of its process, often a rank.
 */
#include "common/comm/store/store.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/thread.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store_service.h"

enum {
    READ_BYTES = 16 << 10, // from one client before the next has its turn
    SEND_BYTES = 64 << 10, // to one client before the next has its turn
    MAX_EVENTS = 64,
    FULL_PAUSE_MS = 10, // before the next try to accept: epoll would report it again at once
    MAX_SILENT = 64, // clients without VALIDATE, which comes first
};

#define MAX_BUFFERED ((size_t)256 << 20) // bytes, for all clients together

struct StoreServer {
    int epoll_fd, listen_fd, stop_fd;
    rlim_t max_fd; // of clients
    Service service;
    Key256 key; // of the handshake, if the job has a secret
    HandshakeHello hello; // that a caller must send
    size_t buffered; // bytes of memory, for all clients together
    LIST_HEAD(, Client) clients;
    pthread_t thread;
};

/* epoll reports events of fd with `about`: the client, or the server's field of that fd. */
static int watch(const StoreServer *server, int operation, int fd, uint32_t events, void *about)
{
    struct epoll_event event = { .events = events, .data.ptr = about };
    return epoll_ctl(server->epoll_fd, operation, fd, &event);
}

/* The room they have, not the bytes in it: a queue that is not empty keeps all its memory. */
static void count_buffered(StoreServer *server, Client *client)
{
    server->buffered -= client->buffered;
    client->buffered = client->in.capacity + client->out.capacity;
    server->buffered += client->buffered;
}

/* A part of a large reply, and epoll reports at once that there is room for the next: so it leaves
 * in turns with the others. Errors are left to epoll, which reports a broken socket. */
static void send_replies(StoreServer *server, Client *client)
{
    Blob part;
    for (size_t left = SEND_BYTES; left > 0 && (part = reply_front(client)).count > 0;) {
        const size_t most = part.count < left ? part.count : left;
        const ssize_t count = send(client->fd, part.data, most, MSG_NOSIGNAL);
        if (count < 0)
            break;
        reply_drop(service_table(&server->service, client), client, (size_t)count);
        left -= (size_t)count;
    }
    const bool wants_room = reply_front(client).count > 0;
    if (wants_room != client->wants_room)
        watch(server, EPOLL_CTL_MOD, client->fd, EPOLLIN | (wants_room ? EPOLLOUT : 0), client);
    client->wants_room = wants_room;
    count_buffered(server, client);
}

static void send_woken(StoreServer *server)
{
    Client *client;
    while ((client = service_next_woken(&server->service)) != NULL)
        send_replies(server, client);
}

static void drop_client(StoreServer *server, Client *client)
{
    service_forget(&server->service, client);
    count_buffered(server, client);
    LIST_REMOVE(client, next);
    // If a process forked meanwhile has a copy of the descriptor, closing ours neither removes it
    // from epoll nor tells the other side.
    watch(server, EPOLL_CTL_DEL, client->fd, 0, NULL);
    shutdown(client->fd, SHUT_RDWR);
    close(client->fd);
    free(client->handshake);
    free(client);
    send_woken(server); // clients may wait for its gone key
}

/* All descriptors of clients are in use: a new client gets that of the oldest one which has never
 * asked for anything. Returns the descriptor, or -1: there is none, and the new one is closed. */
static int replace_idle(StoreServer *server, int new_fd)
{
    Client *client, *idle = NULL;
    LIST_FOREACH(client, &server->clients, next) // the oldest is the last
    {
        if (!client->has_asked)
            idle = client;
    }
    if (idle != NULL)
        drop_client(server, idle);
    const int fd = fcntl(new_fd, F_DUPFD_CLOEXEC, 0);
    close(new_fd);
    if (fd < 0 || (rlim_t)fd <= server->max_fd)
        return fd;
    close(fd);
    return -1;
}

static void accept_client(StoreServer *server)
{
    int fd = net_accept(server->listen_fd, 0);
    if (fd < 0) {
        if (errno != ETIMEDOUT) // no descriptor is free: the client stays in the kernel's queue
            poll(NULL, 0, FULL_PAUSE_MS);
        return;
    }
    if ((rlim_t)fd > server->max_fd && (fd = replace_idle(server, fd)) < 0)
        return;
    Client *client = mem_calloc(1, sizeof *client);
    client->fd = fd;
    client->since = seconds_now();
    LIST_INSERT_HEAD(&server->clients, client, next);
    if (watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, client) < 0)
        drop_client(server, client);
}

/* Takes the bytes of a handshake from the front. False: the client does not know the secret. */
static bool feed_handshake(const StoreServer *server, Client *client, const uint8_t **data,
                           size_t *count)
{
    if (client->handshake == NULL)
        client->handshake = mem_calloc(1, sizeof *client->handshake);
    HandshakeState state = HANDSHAKE_MORE;
    while (*count > 0 && state == HANDSHAKE_MORE) {
        uint8_t reply[HANDSHAKE_REPLY_BYTES];
        size_t reply_count = 0, part = handshake_wants(client->handshake);
        part = part < *count ? part : *count;
        state = handshake_take(client->handshake, &server->key, &server->hello, *data, part, reply,
                               &reply_count);
        reply_bytes(client, reply, reply_count);
        *data += part;
        *count -= part;
    }
    client->is_authenticated = state == HANDSHAKE_DONE;
    if (state != HANDSHAKE_MORE) {
        free(client->handshake);
        client->handshake = NULL;
    }
    return state != HANDSHAKE_REFUSED;
}

/* A handshake comes first or not at all; without a secret there is none. */
static bool begins_handshake(const StoreServer *server, const Client *client, uint8_t first)
{
    return server->service.has_secret && !client->validated && !client->is_authenticated &&
           bytes_count(&client->in) == 0 && first == HANDSHAKE_OPENING;
}

/* False: disconnect the client. */
static bool receive(StoreServer *server, Client *client)
{
    uint8_t data[READ_BYTES];
    const ssize_t received = recv(client->fd, data, sizeof data, 0);
    if (received < 0)
        return errno == EAGAIN || errno == EINTR;
    if (received == 0)
        return false;
    const uint8_t *rest = data;
    size_t count = (size_t)received;
    if (client->handshake != NULL || begins_handshake(server, client, data[0]))
        if (!feed_handshake(server, client, &rest, &count))
            return false;
    return service_feed(&server->service, client, rest, count);
}

static void serve_client(StoreServer *server, Client *client)
{
    if (receive(server, client)) {
        send_replies(server, client);
        send_woken(server);
    } else {
        drop_client(server, client);
    }
}

/* Too much memory is in use that is not the table's. */
static bool is_overfull(const StoreServer *server)
{
    return server->buffered + server->service.table.kept_bytes +
               server->service.authenticated.kept_bytes >
           MAX_BUFFERED;
}

/* Which of two clients goes first where there is too much: one that does not know the job's secret
 * before one that does, then the larger one. */
static bool is_worse(const Client *client, const Client *than)
{
    const size_t bytes = client->buffered + reply_kept_bytes(client);
    if (than == NULL || client->is_authenticated != than->is_authenticated)
        return bytes > 0 && (than == NULL || than->is_authenticated);
    return bytes > than->buffered + reply_kept_bytes(than);
}

/* Clients cost descriptors and memory. If too many are silent, the oldest is dropped; if too much
 * is buffered, the one with the most. */
static void shed_clients(StoreServer *server)
{
    Client *client, *silent = NULL, *largest = NULL;
    int num_silent = 0;
    const bool overfull = is_overfull(server);
    LIST_FOREACH(client, &server->clients, next) // the oldest is the last
    {
        if (overfull && is_worse(client, largest))
            largest = client;
        if (!client->validated) {
            num_silent++;
            silent = client;
        }
    }
    if (num_silent > MAX_SILENT)
        drop_client(server, silent);
    else if (overfull)
        drop_client(server, largest);
}

/* Drops the clients whose handshake takes too long. Returns milliseconds until the next one's does;
 * -1: there is none. */
static int end_slow_handshakes(StoreServer *server)
{
    const double now = seconds_now();
    double next = INFINITY;
    for (Client *client = LIST_FIRST(&server->clients), *after; client != NULL; client = after) {
        after = LIST_NEXT(client, next);
        if (client->handshake != NULL && now >= client->since + HANDSHAKE_SECONDS)
            drop_client(server, client);
        else if (client->handshake != NULL)
            next = fmin(next, client->since + HANDSHAKE_SECONDS - now);
    }
    return isinf(next) ? -1 : (int)ceil(1e3 * next);
}

/* Serves whoever has sent something or has room for more. False: the server is to stop. */
static bool serve_turn(StoreServer *server)
{
    struct epoll_event events[MAX_EVENTS];
    const int count = epoll_wait(server->epoll_fd, events, MAX_EVENTS, end_slow_handshakes(server));
    bool somebody_calls = false;
    // epoll reports the rest again, after the largest has been dropped.
    for (int i = 0; i < count && !is_overfull(server); i++) {
        if (events[i].data.ptr == &server->stop_fd)
            return false;
        if (events[i].data.ptr == &server->listen_fd)
            somebody_calls = true;
        else
            serve_client(server, events[i].data.ptr);
    }
    if (somebody_calls)
        accept_client(server);
    if (somebody_calls || is_overfull(server))
        shed_clients(server); // last: events may refer to the dropped client
    return true;
}

static void *serve(void *argument)
{
    while (serve_turn(argument))
        continue;
    return NULL;
}

static void server_free(StoreServer *server)
{
    while (!LIST_EMPTY(&server->clients))
        drop_client(server, LIST_FIRST(&server->clients));
    table_free(&server->service.table);
    table_free(&server->service.authenticated);
    close(server->stop_fd);
    close(server->listen_fd);
    close(server->epoll_fd);
    free(server);
}

/* The highest descriptor a client may have: the system assigns the lowest free one. */
static rlim_t highest_descriptor(void)
{
    struct rlimit limit;
    SYS_CHECK(getrlimit(RLIMIT_NOFILE, &limit));
    const rlim_t most = limit.rlim_cur;
    return most > 2 * NET_SPARE_DESCRIPTORS ? most - NET_SPARE_DESCRIPTORS : most / 2;
}

static StoreServer *start(HandshakeService service, const char *host, int *port,
                          const char *watched)
{
    StoreServer *server = mem_calloc(1, sizeof *server);
    server->service.watched = watched;
    server->hello = handshake_hello(service);
    Key256 secret;
    server->service.has_secret = secret_find(&secret);
    if (server->service.has_secret)
        server->key = handshake_key(&secret, service);
    server->max_fd = highest_descriptor();
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    server->listen_fd = net_listen(host, port);
    if (server->listen_fd < 0 ||
        watch(server, EPOLL_CTL_ADD, server->listen_fd, EPOLLIN, &server->listen_fd) < 0 ||
        watch(server, EPOLL_CTL_ADD, server->stop_fd, EPOLLIN, &server->stop_fd) < 0 ||
        (errno = thread_start(&server->thread, serve, server)) != 0) {
        const int reason = errno;
        server_free(server);
        errno = reason;
        return NULL;
    }
    return server;
}

StoreServer *store_server_start(const char *host, int *port, const char *watched)
{
    return start(HANDSHAKE_STORE, host, port, watched);
}

StoreServer *endpoint_server_start(const char *host, int *port, const char *watched)
{
    return start(HANDSHAKE_ENDPOINT, host, port, watched);
}

void store_server_stop(StoreServer *server)
{
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    server_free(server);
}
