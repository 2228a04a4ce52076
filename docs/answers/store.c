/*
 * The answer to lab-store: keys and values for all ranks of a job, in PyTorch's protocol.
 * common/comm/store/store_server.c is the library's own. It also knows secrets, and limits.
 *
 * One thread serves all clients and waits for none of them: what a client has sent so far is kept
 * in `in` until a request is whole, and what it does not take yet is kept in `out`.
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

/* ---- the table ---- */

static Entry *find(const StoreServer *server, Blob key)
{
    Entry *entry;
    LIST_FOREACH(entry, &server->entries, next)
        if (entry->key.count == key.count &&
            (key.count == 0 || memcmp(entry->key.data, key.data, key.count) == 0))
            return entry;
    return NULL;
}

static Entry *enter(StoreServer *server, Blob key)
{
    Entry *entry = find(server, key);
    if (entry != NULL)
        return entry;
    entry = mem_calloc(1, sizeof *entry);
    bytes_put(&entry->key, key.data, key.count);
    LIST_INSERT_HEAD(&server->entries, entry, next);
    server->num_entries++;
    return entry;
}

static void put(StoreServer *server, Blob key, Blob value)
{
    Entry *entry = enter(server, key);
    bytes_free(&entry->value);
    bytes_put(&entry->value, value.data, value.count);
}

static bool erase(StoreServer *server, Blob key)
{
    Entry *entry = find(server, key);
    if (entry == NULL)
        return false;
    LIST_REMOVE(entry, next);
    server->num_entries--;
    bytes_free(&entry->key);
    bytes_free(&entry->value);
    free(entry);
    return true;
}

/* Returns the key's value, empty if there is none. */
static Blob value_of(const StoreServer *server, Blob key)
{
    const Entry *entry = find(server, key);
    return entry != NULL ? (Blob){ entry->value.data, entry->value.count } : blob_of("");
}

/* ---- requests ---- */

/* Returns whether each key is there. `at` has a count, then the keys. */
static bool has_keys(const StoreServer *server, Cursor at)
{
    for (uint64_t left = take_u64(&at); left > 0; left--)
        if (find(server, take_blob(&at)) == NULL)
            return false;
    return true;
}

/* Sends without waiting. Returns false if the connection is broken. */
static bool send_replies(Client *client)
{
    while (client->out.count > 0) {
        const ssize_t count =
            send(client->fd, client->out.data, client->out.count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR;
        bytes_drop(&client->out, (size_t)count);
    }
    return true;
}

/* Replies to the clients that wait for keys which are all there now. */
static void wake(StoreServer *server)
{
    Client *client;
    LIST_FOREACH(client, &server->clients, next)
        if (client->wanted.count > 0 && has_keys(server, client->wanted.data)) {
            bytes_free(&client->wanted);
            bytes_put_u8(&client->out, STORE_STOP_WAITING);
            send_replies(client); // a broken connection is noticed by poll
        }
}

/* Stores the sum as decimal text. Returns false if the value is no number. */
static bool add(StoreServer *server, Client *client, Cursor at)
{
    const Blob key = take_blob(&at), old = value_of(server, key);
    char text[32] = "0", *end;
    if (old.count >= sizeof text)
        return false;
    if (old.count > 0) {
        memcpy(text, old.data, old.count);
        text[old.count] = '\0';
    }
    const int64_t number = strtoll(text, &end, 10);
    if (end == text)
        return false;
    const uint64_t sum = (uint64_t)number + take_u64(&at);
    snprintf(text, sizeof text, "%lld", (long long)sum);
    put(server, key, blob_of(text));
    bytes_put_u64(&client->out, sum);
    return true;
}

static void compare_set(StoreServer *server, Client *client, Cursor at)
{
    const Blob key = take_blob(&at), expected = take_blob(&at), desired = take_blob(&at);
    const Blob value = value_of(server, key);
    if (blob_compare(&value, &expected) == 0)
        put(server, key, desired);
    bytes_put_blob(&client->out, find(server, key) != NULL ? value_of(server, key) : expected);
}

/* Returns false if the value would be too long. */
static bool append(StoreServer *server, Cursor at)
{
    Entry *entry = enter(server, take_blob(&at));
    const Blob more = take_blob(&at);
    if (more.count > STORE_MAX_VALUE - entry->value.count)
        return false;
    bytes_put(&entry->value, more.data, more.count);
    return true;
}

static void wait_for(StoreServer *server, Client *client, Cursor at, size_t bytes)
{
    bytes_free(&client->wanted);
    if (has_keys(server, at))
        bytes_put_u8(&client->out, STORE_STOP_WAITING);
    else
        bytes_put(&client->wanted, at, bytes);
}

/* Executes a whole request of `bytes` bytes. Returns false to hang up. */
static bool execute(StoreServer *server, Client *client, StoreOperation operation, Cursor at,
                    size_t bytes)
{
    Bytes *out = &client->out;
    Blob key;
    switch (operation) {
    case STORE_VALIDATE:
        client->validated = memcmp(at, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t)) == 0;
        return client->validated;
    case STORE_PING: // replies its own four bytes
        bytes_put(&client->out, at, sizeof(uint32_t));
        return true;
    case STORE_SET:
        key = take_blob(&at);
        put(server, key, take_blob(&at));
        return true;
    case STORE_GET:
        bytes_put_blob(out, value_of(server, take_blob(&at)));
        return true;
    case STORE_CHECK:
        bytes_put_u8(out, has_keys(server, at) ? STORE_READY : STORE_NOT_READY);
        return true;
    case STORE_DELETE_KEY:
        bytes_put_u64(out, erase(server, take_blob(&at)));
        return true;
    case STORE_GETNUMKEYS:
        bytes_put_u64(out, (uint64_t)server->num_entries);
        return true;
    case STORE_ADD:
        return add(server, client, at);
    case STORE_COMPARE_SET:
        compare_set(server, client, at);
        return true;
    case STORE_WAIT:
        wait_for(server, client, at, bytes);
        return true;
    case STORE_CANCEL_WAIT:
        bytes_free(&client->wanted);
        bytes_put_u8(out, STORE_WAIT_CANCELED);
        return true;
    case STORE_APPEND:
        return append(server, at);
    case STORE_MULTI_GET:
        for (uint64_t left = take_u64(&at); left > 0 && out->count <= STORE_MAX_BUFFER; left--)
            bytes_put_blob(out, value_of(server, take_blob(&at)));
        return true;
    case STORE_MULTI_SET:
        for (uint64_t left = take_u64(&at); left > 0; left--) {
            key = take_blob(&at);
            put(server, key, take_blob(&at));
        }
        return true;
    default:
        return false;
    }
}

/* Executes the requests that these bytes complete. Returns false to hang up. */
static bool feed(StoreServer *server, Client *client, const void *data, size_t count)
{
    bytes_put(&client->in, data, count);
    while (client->in.count > 0) {
        const uint8_t *request = client->in.data;
        if ((request[0] == STORE_VALIDATE) == client->validated)
            return false; // VALIDATE comes first, and only once
        const RequestState state = request_measure(&client->measure, request, client->in.count);
        if (state == REQUEST_PARTIAL)
            break;
        const size_t bytes = client->measure.bytes;
        if (state == REQUEST_NONSENSE ||
            !execute(server, client, request[0], request + 1, bytes - 1) ||
            client->out.count > STORE_MAX_BUFFER)
            return false;
        bytes_drop(&client->in, bytes);
        client->measure = (RequestMeasure){ 0 };
    }
    wake(server);
    return send_replies(client);
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
