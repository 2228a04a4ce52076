/*
 * One thread serves all clients: it sleeps until a socket is readable (poll), reads what is
 * available, executes the requests it completes, and sends what the sockets accept. It never waits
 * for one client, so half a request or a sleeping reader delays no other client. Limits protect the
 * memory and descriptors of its process, which is often a rank.
 */
#include "common/comm/store/store.h"

#include <poll.h>
#include <stdlib.h>
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
    READ_BYTES = 8 << 10, // from one client before the next has its turn
    SEND_BYTES = 64 << 10, // to one client before the next has its turn ...
    SEND_REPLIES = 64, // ... and so many replies
    FULL_PAUSE_MS = 10, // before the next try to accept: poll would report it again at once
    TICK_MS = 1000, // between two checks for handshakes that take too long
};

struct StoreServer {
    int listen_fd, stop_fd;
    rlim_t max_fd; // of clients
    Service open, job; // job: for clients that know its secret, if it has one
    HandshakeService service;
    Key256 key; // of the handshake, if the job has a secret
    LIST_HEAD(, Client) clients; // newest first
    size_t num_clients;
    pthread_t thread;
};

/* A part of a large reply, and poll reports at once that there is room for the next: so it leaves
 * in turns with the others. Errors are left to poll, which reports a broken socket. */
static void send_replies(Client *client)
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
}

static void drop_client(StoreServer *server, Client *client)
{
    service_forget(client);
    LIST_REMOVE(client, next);
    server->num_clients--;
    shutdown(client->fd, SHUT_RDWR); // closing is not enough if a forked process has a copy
    close(client->fd);
    free(client->handshake);
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
    server->num_clients++;
}

/* False: the client does not know the secret. */
static bool read_handshake(StoreServer *server, Client *client)
{
    HandshakePurpose purpose = { .service = server->service };
    const HandshakeState state =
        handshake_read(client->fd, &client->handshake, &server->key, &purpose);
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
    if (client->in_handshake && client->handshake == NULL &&
        recv(client->fd, data, 1, MSG_PEEK) == 1 && data[0] != HANDSHAKE_OPENING)
        client->in_handshake = false; // a handshake comes first or not at all
    if (client->in_handshake)
        return read_handshake(server, client);
    const ssize_t count = recv(client->fd, data, sizeof data, 0);
    if (count <= 0)
        return count < 0 && (errno == EAGAIN || errno == EINTR);
    return service_feed(client, data, (size_t)count);
}

/* Sleeps until something can be done, then does it; ticks while a handshake is under way. False:
 * stop the server. */
static bool serve_turn(StoreServer *server)
{
    struct pollfd *polled = mem_calloc(2 + server->num_clients, sizeof *polled);
    polled[0] = (struct pollfd){ server->stop_fd, POLLIN, 0 };
    polled[1] = (struct pollfd){ server->listen_fd, POLLIN, 0 };
    nfds_t count = 2;
    bool in_handshake = false;
    Client *client, *after;
    for (client = LIST_FIRST(&server->clients); client != NULL; client = LIST_NEXT(client, next)) {
        const short room = client->unread > 0 ? POLLOUT : 0;
        polled[count++] = (struct pollfd){ client->fd, POLLIN | room, 0 };
        in_handshake |= client->in_handshake;
    }
    poll(polled, count, in_handshake ? TICK_MS : -1);
    const bool stops = polled[0].revents != 0, somebody_calls = polled[1].revents != 0;
    const double too_early = seconds_now() - HANDSHAKE_SECONDS;
    count = 2;
    for (client = LIST_FIRST(&server->clients); client != NULL; client = after) {
        after = LIST_NEXT(client, next);
        const bool is_ready = polled[count++].revents != 0;
        if ((is_ready && !receive(server, client)) ||
            (client->in_handshake && client->since <= too_early))
            drop_client(server, client);
        else if (is_ready)
            send_replies(client);
    }
    free(polled);
    if (somebody_calls)
        accept_client(server); // last: it may drop one
    return !stops;
}

static void *serve(void *argument)
{
    StoreServer *server = argument;
    while (serve_turn(server))
        continue;
    Client *client; // the last turn may have ended the wait of one that had had its turn
    for (client = LIST_FIRST(&server->clients); client != NULL; client = LIST_NEXT(client, next))
        send_replies(client);
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
    server->service = service;
    server->open.tells_of_secret = secret_find(service, &server->key);
    server->max_fd = highest_descriptor();
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    server->listen_fd = net_listen(host, port);
    if (server->listen_fd < 0 || server->stop_fd < 0 ||
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
