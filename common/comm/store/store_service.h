/*
 * store_service.h - a store without its sockets: a table, and the requests of its clients.
 *
 *   client -> service   VALIDATE and its number, then any operations and their arguments
 *   service -> client   the replies in the same order, without headers (store_protocol.h)
 *
 * - A Service and its Clients begin as zeros, except for client->service.
 * - Pass what a client sends to service_feed, in pieces of any size.
 * - Send what service_reply returns, then tell service_sent how much was sent. A request may also
 *   end the wait of other clients: do the same for each that service_next_woken returns.
 * - When a client disconnects, call service_forget; after the last one, service_free.
 */
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

/* Shared by an entry or its queue, and by replies; freed when the last of them releases it. */
typedef struct Value {
    STAILQ_ENTRY(Value) next; // in a queue
    int users;
    uint64_t count; // this and the bytes form a blob of the protocol
    char bytes[]; // followed by a zero byte
} Value;

/* One client waiting for one key; a client waiting for several has several of these. */
typedef struct Wait {
    struct Entry *entry;
    struct Client *client;
    TAILQ_ENTRY(Wait) of_entry;
    LIST_ENTRY(Wait) of_client;
} Wait;

/* A key with at least one of: a value, a queue, waiting clients. */
typedef struct Entry {
    LIST_ENTRY(Entry) next;
    Blob key; // its bytes follow this struct
    Value *value; // NULL: none
    STAILQ_HEAD(, Value) queue;
    int64_t queue_length;
    TAILQ_HEAD(, Wait) waits; // oldest first
} Entry;

typedef struct {
    void *tree; // of entries, by key
    LIST_HEAD(, Entry) entries; // the same, in no order
    int64_t num_values;
    size_t bytes; // of memory in use
    LIST_HEAD(, Client) woken; // clients whose wait was ended by another client
    const char *watched; // prefix of watched keys (store_server_start); or NULL
    bool tells_of_secret; // CHECK tells its clients that the job has a secret
} Service;

/* One connection to a store, on the server's side. */
typedef struct Client {
    Service *service;
    Bytes in; // received, not yet executed
    size_t in_bytes; // of memory that `in` has, as counted by the service
    STAILQ_HEAD(, Reply) replies; // not yet sent
    size_t unread; // bytes of them
    size_t stored; // bytes of memory that its requests have added to the table
    RequestMeasure measure; // of the request at the front of `in`
    bool validated; // has sent the protocol's magic number
    bool proven; // knows the secret; in a job without one, has asked for more than PING
    LIST_HEAD(, Wait) waits; // for the keys that its WAIT or BARRIER still lacks
    bool woken; // is in the service's list `woken`
    LIST_ENTRY(Client) next_woken;
    Bytes watched_key; // the watched key that it has set, if any

    int fd; // this and the fields below are the server's
    double since; // when it connected, on the clock of seconds_now()
    bool in_handshake; // may begin one, or is in the middle of it
    HandshakeAnswer handshake;
    bool wants_room; // waits for EPOLLOUT to send replies
    LIST_ENTRY(Client) next;
} Client;

/* Executes the requests that these bytes complete. False: disconnect the client, which has sent
 * nonsense or asked for too much. */
bool service_feed(Client *client, const void *data, size_t count);

/* Copies at most `most` bytes of the replies; returns how many. 0: there are none. */
size_t service_reply(const Client *client, uint8_t *data, size_t most);
void service_sent(Client *client, size_t count);
Client *service_next_woken(Service *service); // NULL: no more

/* Frees all but the struct itself. If the client had set a watched key, sets KEY/gone. */
void service_forget(Client *client);
void service_free(Service *service);

/* ---- the table (store_table.c) ---- */

/* Is there room for `growth` more bytes of memory on behalf of this client? */
bool table_has_room(const Client *client, size_t growth);

/* NULL: no such entry, which the next two functions accept. */
Entry *table_find(const Service *service, Blob key);
bool entry_is_present(const Entry *entry); // has a value or a queue that is not empty
Blob entry_value(const Entry *entry); // empty where there is none

/* These store something on behalf of a client. NULL or false: there is no room, or the value would
 * be longer than the protocol allows. */
Entry *table_enter(Client *client, Blob key); // finds or makes the entry
bool entry_write(Client *client, Entry *entry, Blob blob, bool append);
bool entry_push(Client *client, Entry *entry, Blob blob);
bool entry_wait(Client *client, Entry *entry);

void entry_erase(Service *service, Entry *entry); // its value; does nothing if there is none
Value *entry_pop(Entry *entry); // there must be one; the caller releases it
void entry_stop_waiting(Service *service, Wait *wait);
void table_prune(Service *service, Entry *entry); // removes an entry that has become empty

Value *value_new(Service *service, Blob blob); // with one user, whatever room there is
void value_release(Service *service, Value *value); // has one user less

#endif
