/* store_service.h - a store without its sockets: a table, and the requests of its clients.
 *
 *   client -> service   VALIDATE and its number, then any operations and their arguments
 *   service -> client   the replies in the same order, without headers (store_protocol.h)
 *
 * - A Service and its Clients begin as zeros, except for client->service.
 * - Pass what a client sends to service_feed, in pieces of any size.
 * - Send what service_reply returns, then pass to service_sent how much was sent. A request may
 *   also end the wait of other clients: service->unread has all that have something unread.
 * - When a client disconnects, call service_remove; after the last one, service_free. */
#ifndef COMMON_COMM_STORE_STORE_SERVICE_H
#define COMMON_COMM_STORE_STORE_SERVICE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "common/comm/store/handshake.h"
#include "common/comm/store/store_protocol.h"

/* Bytes of memory for everything: what is stored, being received or not sent yet. Stored values may
 * not use one reserve, so that a full table can still be read and emptied; clients that use more
 * than a share may not use another, so that the others, such as ranks, can go on. */
#define STORE_MAX_MEMORY ((size_t)1 << 30)
#define STORE_RESERVE ((size_t)64 << 20)
#define STORE_SHARE ((size_t)1 << 20)

/* Bytes shared by an entry and replies; freed when the last of them releases it. */
typedef struct {
    int users;
    size_t size;
    uint8_t bytes[]; // as they are sent: a stored value begins with its length
} Value;

typedef struct Item {
    STAILQ_ENTRY(Item) next;
    Value *value;
} Item;

typedef STAILQ_HEAD(Items, Item) Items; // oldest first

/* One client waiting for one key; a client waiting for several has several of these. */
typedef struct Wait {
    struct Entry *entry;
    struct Client *client;
    TAILQ_ENTRY(Wait) of_entry;
    LIST_ENTRY(Wait) of_client;
} Wait;

/* A key with at least one of: a value, a queue, waiting clients. */
typedef struct Entry {
    Blob key; // its bytes follow this struct
    Value *value; // NULL if none
    Items queue;
    int64_t queue_length;
    TAILQ_HEAD(, Wait) waits; // oldest first
} Entry;

typedef struct {
    void *tree; // search tree of entries, by key
    int64_t num_values;
    size_t bytes; // bytes of memory in use
    LIST_HEAD(, Client) unread; // clients with unsent replies, the latest of them first
    const char *watched; // prefix of watched keys (store_server_start); or NULL
    bool reports_secret; // CHECK reports to its clients that the job has a secret
} Service;

/* One connection to a store, on the server's side. */
typedef struct Client {
    Service *service;
    Bytes in; // requests received but not yet executed
    RequestMeasure measure; // progress in the request at the front of `in`
    Items replies; // replies not yet sent
    size_t unread; // bytes of memory that the replies take
    size_t sent; // bytes of the first reply that were sent
    size_t stored; // bytes that its requests have added to the table
    bool validated; // has sent the protocol's magic number
    bool proven; // knows the secret; in a job without one, has asked for more than PING
    LIST_HEAD(, Wait) waits; // one for each key that its WAIT or BARRIER still lacks
    LIST_ENTRY(Client) of_unread;
    char gone_key[264]; // KEY/gone, if KEY is the first watched key that it has set; else empty

    int fd; // this and the fields below are the server's
    int standing; // which of the server's lists it is in
    bool in_handshake; // may begin a handshake, or is in the middle of one
    bool is_blocked; // waits for room in its socket
    HandshakeAnswer *handshake; // NULL before its first byte
    TAILQ_ENTRY(Client) next;
} Client;

/* Executes the requests that these bytes complete. Returns false if the client must be
 * disconnected, because it has sent nonsense or asked for too much. */
bool service_feed(Client *client, const void *data, size_t count);

/* Returns the next bytes of the replies; client->unread must not be 0. */
Blob service_reply(const Client *client);
void service_sent(Client *client, size_t count); // drops `count` of these

/* Frees all but the struct itself. If the client had set a watched key, sets KEY/gone. */
void service_remove(Client *client);
void service_free(Service *service);

/* ---- for extras/torch_store, which has the operations that only PyTorch's clients send ---- */

/* Executes one of them. This and the functions below return false if the client must be
 * disconnected; without extras it always does. */
bool torch_operation(Client *client, StoreOperation operation, Cursor *at);
bool service_execute(Client *client, StoreOperation operation, Cursor *at); // executes one
bool service_has_room(Client *client, size_t growth); // for more bytes (0: whether it may go on)
Entry *service_enter(Client *client, Blob key); // finds or makes it; NULL if there is no room
bool service_write(Client *client, Entry *entry, Blob value); // wakes no client
bool service_wait_begin(Client *client, Entry *entry);
void service_wait_cancel(Client *client);
bool service_reply_bytes(Client *client, const void *data, size_t count);
#define REPLY(client, type, value) service_reply_bytes(client, &(type){ value }, sizeof(type))

#endif
