/* One thread serves all clients: it sleeps until a socket is ready (epoll), reads what is
 * available, executes the requests it completes, and sends what the sockets accept. It never waits
 * for one client, so half a request or a sleeping reader delays no other client, and silent ones
 * cost nothing. Limits protect the memory and descriptors of its process, which is often a rank. */
#include "common/comm/store/store.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store_service.h"

enum {
    READ_BYTES = 8 << 10, // most bytes to read from a client in its turn
    SEND_BYTES = 64 << 10, // most bytes to send to a client in its turn
    SEND_REPLIES = 64, // most replies to send to a client in its turn
    MOST_PER_TURN = 64, // most clients to serve, and to accept
    FULL_PAUSE_MS = 10, // pause before the next try to accept, which epoll reports at once
};

enum { UNPROVEN, SEALED, PROVEN, NUM_STANDINGS }; // what a client has shown (store_server_start)

struct StoreServer {
    int listen_fd, stop_fd, epoll_fd;
    long max_fd; // highest descriptor for a client
    Service open, job; // job: for clients that know its secret, if it has one
    const Key256 *key; // handshake key; NULL if the job has no secret
    TAILQ_HEAD(Clients, Client) clients[NUM_STANDINGS]; // oldest first
    size_t num_clients[NUM_STANDINGS];
    pthread_t thread;
};

static atomic_uint num_servers; // servers in this process

static int watch(const StoreServer *server, int operation, int fd, uint32_t events, void *who)
{
    struct epoll_event event = { .events = events, .data.ptr = who };
    return epoll_ctl(server->epoll_fd, operation, fd, &event);
}

/* Sends a part of a large reply; epoll reports at once that there is room for the next, so the
 * clients take turns. Errors are left to epoll, which reports a broken socket. */
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
    if (client->is_blocked == (client->unread > 0))
        return;
    client->is_blocked = !client->is_blocked;
    watch(server, EPOLL_CTL_MOD, client->fd, EPOLLIN | (client->is_blocked ? EPOLLOUT : 0), client);
}

/* Sends the replies to this turn's requests; those to blocked clients come later in the list. */
static void send_new_replies(const StoreServer *server, const Service *service)
{
    Client *client = LIST_FIRST(&service->unread), *after;
    for (; client != NULL && !client->is_blocked; client = after) {
        after = LIST_NEXT(client, of_unread);
        send_replies(server, client);
    }
}

static void set_standing(StoreServer *server, Client *client, int standing)
{
    TAILQ_REMOVE(&server->clients[client->standing], client, next);
    TAILQ_INSERT_TAIL(&server->clients[standing], client, next);
    server->num_clients[client->standing]--;
    server->num_clients[standing]++;
    client->standing = standing;
}

static void drop_client(StoreServer *server, Client *client)
{
    service_remove(client);
    TAILQ_REMOVE(&server->clients[client->standing], client, next);
    server->num_clients[client->standing]--;
    // Closing alone does neither of these if a forked process has a copy.
    watch(server, EPOLL_CTL_DEL, client->fd, 0, NULL);
    shutdown(client->fd, SHUT_RDWR);
    close(client->fd);
    free(client->handshake);
    free(client);
}

/* Drops the oldest unproven clients beyond their share, or at least one if descriptors run out. */
static void make_room(StoreServer *server, bool is_full)
{
    const size_t share = (size_t)server->max_fd / 8 / num_servers;
    for (int standing = UNPROVEN; standing < PROVEN; standing++)
        while (server->num_clients[standing] > (is_full ? 0 : share)) {
            drop_client(server, TAILQ_FIRST(&server->clients[standing]));
            is_full = false;
        }
}

/* Returns false if no client is waiting, or no descriptor is free. */
static bool accept_client(StoreServer *server)
{
    const int fd = net_accept(server->listen_fd, 0);
    if (fd < 0) {
        if (errno != ETIMEDOUT) // the client stays in the kernel's queue
            poll(NULL, 0, FULL_PAUSE_MS);
        return false;
    }
    make_room(server, fd > server->max_fd / 8 * 7);
    if (fd > server->max_fd)
        return close(fd) == 0;
    Client *client = mem_calloc(1, sizeof *client);
    *client = (Client){ .service = &server->open, .fd = fd, .in_handshake = server->key != NULL };
    SYS_CHECK(watch(server, EPOLL_CTL_ADD, fd, EPOLLIN, client));
    TAILQ_INSERT_TAIL(&server->clients[UNPROVEN], client, next);
    server->num_clients[UNPROVEN]++;
    return true;
}

/* Returns false if the client must be disconnected. */
static bool receive(StoreServer *server, Client *client)
{
    uint8_t data[READ_BYTES];
    if (client->in_handshake && client->handshake == NULL &&
        recv(client->fd, data, 1, MSG_PEEK) == 1 && data[0] != HANDSHAKE_OPENING)
        client->in_handshake = false; // a handshake comes first or not at all
    if (client->in_handshake) {
        HandshakePurpose purpose = { .service = HANDSHAKE_STORE };
        const HandshakeState state =
            handshake_read(client->fd, &client->handshake, server->key, &purpose);
        client->proven = state == HANDSHAKE_DONE;
        client->in_handshake = !client->proven;
        client->service = client->proven ? &server->job : &server->open;
        if (state == HANDSHAKE_SEALED)
            set_standing(server, client, SEALED);
        return state != HANDSHAKE_REFUSED;
    }
    const ssize_t count = recv(client->fd, data, sizeof data, 0);
    if (count <= 0)
        return count < 0 && (errno == EAGAIN || errno == EINTR);
    return service_feed(client, data, (size_t)count);
}

static void serve_client(StoreServer *server, Client *client)
{
    const bool keep = receive(server, client);
    if (client->proven)
        set_standing(server, client, PROVEN);
    if (!keep)
        drop_client(server, client);
    else if (client->is_blocked)
        send_replies(server, client);
}

/* Sleeps until something can be done, then does it. Returns false if the server must stop. */
static bool serve_turn(StoreServer *server)
{
    struct epoll_event event[MOST_PER_TURN];
    const int count = epoll_wait(server->epoll_fd, event, MOST_PER_TURN, -1);
    bool stops = false, has_new_client = false;
    for (int i = 0; i < count; i++)
        if (event[i].data.ptr == &server->stop_fd)
            stops = true;
        else if (event[i].data.ptr == &server->listen_fd)
            has_new_client = true;
        else
            serve_client(server, event[i].data.ptr);
    send_new_replies(server, &server->open);
    send_new_replies(server, &server->job);
    for (int i = 0; has_new_client && i < MOST_PER_TURN; i++)
        has_new_client = accept_client(server);
    make_room(server, false); // last, since it may drop those whose turn it was
    return !stops;
}

static void *serve(void *server)
{
    while (serve_turn(server))
        continue;
    return NULL;
}

static void server_free(StoreServer *server)
{
    for (int standing = UNPROVEN; standing < NUM_STANDINGS; standing++)
        while (server->num_clients[standing] > 0)
            drop_client(server, TAILQ_FIRST(&server->clients[standing]));
    service_free(&server->open);
    service_free(&server->job);
    close(server->epoll_fd);
    close(server->stop_fd);
    close(server->listen_fd);
    free(server);
    num_servers--;
}

StoreServer *store_server_start(const char *host, int *port, const char *watched)
{
    StoreServer *server = mem_calloc(1, sizeof *server);
    server->open.watched = server->job.watched = watched;
    server->key = secret_find(HANDSHAKE_STORE);
    server->open.reports_secret = server->key != NULL;
    const long most = net_raise_descriptors(); // the system assigns the lowest free one
    server->max_fd = most > 2 * NET_SPARE_DESCRIPTORS ? most - NET_SPARE_DESCRIPTORS : most / 2;
    for (int standing = UNPROVEN; standing < NUM_STANDINGS; standing++)
        TAILQ_INIT(&server->clients[standing]);
    num_servers++;
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->listen_fd = net_listen(host, port);
    if (server->listen_fd < 0 ||
        watch(server, EPOLL_CTL_ADD, server->stop_fd, EPOLLIN, &server->stop_fd) < 0 ||
        watch(server, EPOLL_CTL_ADD, server->listen_fd, EPOLLIN, &server->listen_fd) < 0 ||
        (errno = thread_start(&server->thread, serve, server)) != 0) {
        const int reason = errno;
        server_free(server);
        errno = reason;
        return NULL;
    }
    return server;
}

void store_server_stop(StoreServer *server)
{
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    server_free(server);
}
