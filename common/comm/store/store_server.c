/*
 * One thread serves all clients: it sleeps until a socket is readable (epoll), reads what is
 * available, executes the requests it completes, and sends what the sockets accept. It never waits
 * for one client, so half a request or a sleeping reader delays no other client. Limits protect the
 * memory and descriptors of its process, which is often a rank.
 */
#include "common/comm/store/store.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store_service.h"

enum {
    READ_BYTES = 16 << 10, // from one client before the next has its turn
    SEND_BYTES = 64 << 10, // to one client before the next has its turn ...
    SEND_REPLIES = 64, // ... and so many replies
    MAX_EVENTS = 64,
    FULL_PAUSE_MS = 10, // before the next try to accept: epoll would report it again at once
    TICK_MS = 1000, // between two checks for handshakes that take too long
};

struct StoreServer {
    int epoll_fd, listen_fd, stop_fd;
    rlim_t max_fd; // of clients
    Service open, job; // job: for clients that know its secret, if it has one
    Key256 key; // of the handshake, if the job has a secret
    HandshakeHello hello; // that a caller must send
    LIST_HEAD(, Client) clients; // newest first
    pthread_t thread;
};

/* epoll reports events of fd with `about`: the client, or the server's field of that fd. */
static int watch(const StoreServer *server, int operation, int fd, uint32_t events, void *about)
{
    struct epoll_event event = { .events = events, .data.ptr = about };
    return epoll_ctl(server->epoll_fd, operation, fd, &event);
}

/* A part of a large reply, and epoll reports at once that there is room for the next: so it leaves
 * in turns with the others. Errors are left to epoll, which reports a broken socket. */
static void send_replies(const StoreServer *server, Client *client)
{
    size_t left = SEND_BYTES;
    for (int i = 0; i < SEND_REPLIES && client->unread > 0 && left > 0; i++) {
        const Blob reply = service_reply(client);
        const size_t most = reply.count < left ? reply.count : left;
        const ssize_t count = send(client->fd, reply.data, most, MSG_NOSIGNAL);
        if (count <= 0)
            break;
        service_sent(client, (size_t)count);
        left -= (size_t)count;
    }
    const bool wants_room = client->unread > 0;
    if (wants_room != client->wants_room)
        watch(server, EPOLL_CTL_MOD, client->fd, EPOLLIN | (wants_room ? EPOLLOUT : 0), client);
    client->wants_room = wants_room;
}

/* To clients whose wait was ended by another one. */
static void send_woken(const StoreServer *server)
{
    Client *client;
    LIST_FOREACH(client, &server->clients, next)
    {
        if (client->unread > 0 && !client->wants_room)
            send_replies(server, client);
    }
}

static void drop_client(StoreServer *server, Client *client)
{
    service_forget(client);
    LIST_REMOVE(client, next);
    // If a process forked meanwhile has a copy of the descriptor, closing ours neither removes it
    // from epoll nor tells the other side.
    watch(server, EPOLL_CTL_DEL, client->fd, 0, NULL);
    shutdown(client->fd, SHUT_RDWR);
    close(client->fd);
    free(client);
}

/* Disconnects the oldest unproven client, to make room. */
static void drop_oldest_unproven(StoreServer *server)
{
    Client *client, *oldest = NULL;
    LIST_FOREACH(client, &server->clients, next)
    {
        oldest = client->proven ? oldest : client;
    }
    if (oldest != NULL)
        drop_client(server, oldest);
}

/* Unproven clients do not get the last eighth of the places. */
static void accept_client(StoreServer *server)
{
    const int fd = net_accept(server->listen_fd, 0);
    if (fd < 0) {
        if (errno != ETIMEDOUT) // no descriptor is free: the client stays in the kernel's queue
            poll(NULL, 0, FULL_PAUSE_MS);
        return;
    }
    if ((rlim_t)fd > server->max_fd / 8 * 7)
        drop_oldest_unproven(server);
    if ((rlim_t)fd > server->max_fd) {
        close(fd);
        return;
    }
    Client *client = mem_calloc(1, sizeof *client);
    *client = (Client){ .service = &server->open,
                        .fd = fd,
                        .since = seconds_now(),
                        .in_handshake = server->open.tells_of_secret };
    LIST_INSERT_HEAD(&server->clients, client, next);
    if (watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, client) < 0)
        drop_client(server, client);
}

/* False: the client does not know the secret. */
static bool take_handshake(StoreServer *server, Client *client, const uint8_t *data, size_t count)
{
    uint8_t reply[HANDSHAKE_REPLY_BYTES];
    size_t reply_count = 0;
    const HandshakeState state = handshake_take(&client->handshake, &server->key, &server->hello,
                                                data, count, reply, &reply_count);
    // A few bytes fit, since nothing was sent to this client before.
    if (send(client->fd, reply, reply_count, MSG_NOSIGNAL) != (ssize_t)reply_count)
        return false;
    if (state == HANDSHAKE_DONE) {
        client->in_handshake = false;
        client->proven = true;
        client->service = &server->job;
    }
    return state != HANDSHAKE_REFUSED;
}

/* False: disconnect the client. */
static bool receive(StoreServer *server, Client *client)
{
    uint8_t data[READ_BYTES];
    const size_t most = client->in_handshake ? handshake_wants(&client->handshake) : sizeof data;
    const ssize_t count = recv(client->fd, data, most, 0);
    if (count <= 0)
        return count < 0 && (errno == EAGAIN || errno == EINTR);
    if (client->handshake.bytes == 0 && data[0] != HANDSHAKE_OPENING)
        client->in_handshake = false; // a handshake comes first or not at all
    return client->in_handshake ? take_handshake(server, client, data, (size_t)count)
                                : service_feed(client, data, (size_t)count);
}

static void serve_client(StoreServer *server, Client *client)
{
    if (receive(server, client)) {
        send_replies(server, client);
    } else {
        drop_client(server, client);
    }
}

/* Drops the clients whose handshake takes too long. Returns whether others are still in one. */
static bool end_slow_handshakes(StoreServer *server)
{
    const double now = seconds_now();
    bool others = false;
    for (Client *client = LIST_FIRST(&server->clients), *after; client != NULL; client = after) {
        after = LIST_NEXT(client, next);
        const bool is_slow = now >= client->since + HANDSHAKE_SECONDS;
        others |= client->in_handshake && !is_slow;
        if (client->in_handshake && is_slow)
            drop_client(server, client);
    }
    return others;
}

/* Serves the clients that have sent something or have room for more. False: stop the server. */
static bool serve_turn(StoreServer *server)
{
    struct epoll_event events[MAX_EVENTS];
    const int timeout_ms = end_slow_handshakes(server) ? TICK_MS : -1;
    send_woken(server); // by the turn before
    const int count = epoll_wait(server->epoll_fd, events, MAX_EVENTS, timeout_ms);
    bool somebody_calls = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &server->stop_fd)
            return false;
        if (events[i].data.ptr == &server->listen_fd)
            somebody_calls = true;
        else
            serve_client(server, events[i].data.ptr);
    }
    if (somebody_calls)
        accept_client(server); // last: events may refer to the client that makes room
    return true;
}

static void *serve(void *server)
{
    while (serve_turn(server))
        continue;
    return NULL;
}

static void server_free(StoreServer *server)
{
    while (!LIST_EMPTY(&server->clients))
        drop_client(server, LIST_FIRST(&server->clients));
    service_free(&server->open);
    service_free(&server->job);
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
    server->open.watched = server->job.watched = watched;
    server->hello = handshake_hello(service);
    Key256 secret;
    if (secret_find(&secret)) {
        server->open.tells_of_secret = true;
        server->key = handshake_key(&secret, service);
    }
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
