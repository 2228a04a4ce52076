/*
 * lab-store: keys and values for all ranks of a job, in PyTorch's protocol (store_protocol.h).
 *
 * One thread serves all clients and must wait for none of them. It is given, at the end: it sleeps
 * until a socket is ready, accepts clients, and calls
 *
 *     feed(server, client, data, count)   with what a client has sent: a piece of any size
 *     send_replies(client)                when a client whose `out` is not empty can take more
 *     free_buffers(client)                when a client has left
 *
 * The functions of store_protocol.h help: Bytes grows at its end and is consumed at its front,
 * take_u64 and take_blob read arguments, request_measure says where a request ends.
 */
#include "common/comm/store/store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/store/net.h"

typedef struct Entry {
    Bytes key, value; // bytes of any kind, zeros too
    LIST_ENTRY(Entry) next;
} Entry;

typedef struct Client {
    int fd;
    Bytes in; // received, not yet a whole request
    RequestMeasure measure; // of the request at the front of `in`
    Bytes out; // replies that are not sent yet
    bool validated;
    Bytes wanted; // the arguments of its WAIT, until all keys are there
    LIST_ENTRY(Client) next;
} Client;

struct StoreServer {
    int listen_fd, stop_fd;
    pthread_t thread;
    int num_clients;
    LIST_HEAD(, Client) clients;
    int64_t num_entries;
    LIST_HEAD(, Entry) entries;
};

/* ---- the table: rung 1 ---- */

static Entry *find(const StoreServer *server, Blob key)
{
    (void)server, (void)key;
    die("rung 1 is not written yet");
}

static void put(StoreServer *server, Blob key, Blob value)
{
    (void)server, (void)key, (void)value, (void)find;
    die("rung 1 is not written yet");
}

static bool erase(StoreServer *server, Blob key)
{
    (void)server, (void)key;
    die("rung 1 is not written yet");
}

/* ---- requests ---- */

/* Sends of `out` what the client takes at once. Returns false if the connection is broken. */
static bool send_replies(Client *client)
{
    (void)client;
    die("rung 1 is not written yet");
}

/* Rung 3. Replies to the clients that wait for keys which are all there now. */
static void wake(StoreServer *server)
{
    (void)server;
}

/* Executes a whole request with `bytes` bytes of arguments at `at`. Returns false to hang up. */
static bool execute(StoreServer *server, Client *client, StoreOperation operation, Cursor at,
                    size_t bytes)
{
    (void)server, (void)bytes, (void)put;
    switch (operation) {
    case STORE_VALIDATE:
        client->validated = memcmp(at, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t)) == 0;
        return client->validated;
    case STORE_PING: // replies its own four bytes
        bytes_put(&client->out, at, sizeof(uint32_t));
        return true;
    default:
        return false;
    }
}

/* Executes the requests that these bytes complete. Returns false to hang up. */
static bool feed(StoreServer *server, Client *client, const void *data, size_t count)
{
    (void)server, (void)client, (void)data, (void)count, (void)execute, (void)wake;
    die("rung 1 is not written yet");
}

/* Frees what a client that has left still has. */
static void free_buffers(Client *client)
{
    bytes_free(&client->in);
    bytes_free(&client->out);
    bytes_free(&client->wanted);
}

/* ---- given: the thread ---- */

static void drop_client(StoreServer *server, Client *client)
{
    free_buffers(client);
    LIST_REMOVE(client, next);
    server->num_clients--;
    close(client->fd);
    free(client);
}

static void accept_client(StoreServer *server)
{
    const int fd = net_accept(server->listen_fd, 0);
    if (fd < 0)
        return;
    Client *client = mem_calloc(1, sizeof *client);
    client->fd = fd;
    LIST_INSERT_HEAD(&server->clients, client, next);
    server->num_clients++;
}

/* Returns false if the client has left, or must. */
static bool receive(StoreServer *server, Client *client)
{
    uint8_t data[64 << 10];
    const ssize_t count = recv(client->fd, data, sizeof data, MSG_DONTWAIT);
    if (count <= 0)
        return count < 0 && (errno == EAGAIN || errno == EINTR);
    return feed(server, client, data, (size_t)count);
}

/* Sleeps until something can be done, then does it. Returns false to stop. */
static bool serve_turn(StoreServer *server)
{
    struct pollfd *ready = mem_calloc((size_t)server->num_clients + 2, sizeof *ready);
    ready[0] = (struct pollfd){ .fd = server->stop_fd, .events = POLLIN };
    ready[1] = (struct pollfd){ .fd = server->listen_fd, .events = POLLIN };
    nfds_t count = 2;
    Client *client, *after;
    LIST_FOREACH(client, &server->clients, next)
        ready[count++] =
            (struct pollfd){ .fd = client->fd,
                             .events = (short)(client->out.count > 0 ? POLLIN | POLLOUT : POLLIN) };
    poll(ready, count, -1);
    count = 2;
    for (client = LIST_FIRST(&server->clients); client != NULL; client = after) {
        const short events = ready[count++].revents;
        after = LIST_NEXT(client, next);
        if (((events & POLLOUT) != 0 && !send_replies(client)) ||
            ((events & ~POLLOUT) != 0 && !receive(server, client)))
            drop_client(server, client);
    }
    if (ready[1].revents != 0)
        accept_client(server);
    const bool stops = ready[0].revents != 0;
    free(ready);
    return !stops;
}

static void *serve(void *server)
{
    while (serve_turn(server))
        continue;
    return NULL;
}

StoreServer *store_server_start(const char *host, int *port, const char *watched)
{
    (void)watched; // for launchers
    StoreServer *server = mem_calloc(1, sizeof *server);
    LIST_INIT(&server->clients);
    LIST_INIT(&server->entries);
    server->listen_fd = net_listen(host, port);
    if (server->listen_fd < 0) {
        free(server);
        return NULL;
    }
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(server->stop_fd);
    CHECK(thread_start(&server->thread, serve, server) == 0, "the store's thread does not start");
    return server;
}

void store_server_stop(StoreServer *server)
{
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    while (!LIST_EMPTY(&server->clients))
        drop_client(server, LIST_FIRST(&server->clients));
    while (!LIST_EMPTY(&server->entries)) {
        const Bytes *key = &LIST_FIRST(&server->entries)->key;
        erase(server, (Blob){ key->data, key->count });
    }
    close(server->stop_fd);
    close(server->listen_fd);
    free(server);
}
