/* store_service.h - a store without its sockets: a table, and what clients ask of it. */
#ifndef COMMON_COMM_STORE_STORE_SERVICE_H
#define COMMON_COMM_STORE_STORE_SERVICE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "common/comm/store/handshake.h"
#include "common/comm/store/store_protocol.h"

/* ---- what is stored: values, queues and waiting clients, by key (store_table.c) ---- */

/* Bytes. A runaway client must not exhaust its host, nor the room that the ranks need: the reserve
 * is for clients that have stored no more than a share. */
#define STORE_MAX_TABLE ((size_t)1 << 30)
#define STORE_RESERVE ((size_t)64 << 20) // of these
#define STORE_SHARE ((size_t)1 << 20)

/* Freed when no entry and no reply has it any more. */
typedef struct {
    size_t count;
    int readers; // replies that are not sent yet
    bool is_stored; // it is an entry's
    char bytes[]; // and a zero byte
} Value;

typedef struct Item {
    STAILQ_ENTRY(Item) next;
    Blob blob; // its bytes follow this struct
} Item;

/* One client waiting for one key; a client waiting for several has several of these. */
typedef struct Wait {
    struct Entry *entry;
    struct Client *client;
    TAILQ_ENTRY(Wait) of_entry;
    LIST_ENTRY(Wait) of_client;
} Wait;

typedef LIST_HEAD(WaitList, Wait) WaitList;

/* A key with at least one of: a value, a queue, waiting clients. */
typedef struct Entry {
    LIST_ENTRY(Entry) next;
    Blob key; // its bytes follow this struct
    Value *value; // NULL: none
    STAILQ_HEAD(, Item) queue;
    int64_t queue_length;
    TAILQ_HEAD(, Wait) waits; // oldest first
} Entry;

/* All zero is an empty one. */
typedef struct {
    void *tree; // of entries, by key
    LIST_HEAD(, Entry) entries; // the same, in no order
    int64_t num_values;
    size_t bytes; // of memory in use, with what malloc and the tree add
    size_t kept_bytes; // of values that were replaced or removed, but replies still have them
    size_t *stored; // by the client whose request is executed; NULL: nobody's
} Table;

/* NULL: no such entry, which the next two functions accept. */
Entry *table_find(const Table *table, Blob key);

bool entry_is_present(const Entry *entry); // has a value or a queue that is not empty
Blob entry_value(const Entry *entry); // empty where there is none

/* Finds or makes the entry. NULL: the table is full. */
Entry *table_enter(Table *table, Blob key);

/* Removes an entry that has become empty. */
void table_prune(Table *table, Entry *entry);

/* Writes blob at an offset, ending the value there: offset 0 sets it, its length appends. False:
 * the table is full, or the value longer than the protocol allows. A value that is part of a reply
 * is not changed: a new one takes its place. */
bool entry_write(Table *table, Entry *entry, size_t offset, Blob blob);
void entry_erase(Table *table, Entry *entry);
void value_stop_reading(Table *table, Value *value); // it is no part of a reply any more

/* False: the table is full. */
bool entry_push(Table *table, Entry *entry, Blob blob);
void entry_pop(Table *table, Entry *entry); // there must be one

/* False: the table is full. */
bool entry_wait(Table *table, Entry *entry, struct Client *client, WaitList *waits);
void entry_stop_waiting(Table *table, Wait *wait);

void table_free(Table *table); // nobody may be waiting

/* ---- who stores it, and what is done (store_service.c) ---- */

/* One connection to a store, on the server's side. All zero at first. */
typedef struct Client {
    Bytes in; // received, not yet executed
    Bytes out; // replies not yet sent, up to STORE_MAX_BUFFER, but for large values:
    STAILQ_HEAD(, Borrowed) borrowed; // these
    size_t borrowed_bytes; // of them that are not sent yet
    size_t out_sent; // bytes of `out`, from the beginning
    size_t stored; // bytes that it has added to the table
    RequestMeasure measure; // of the request at the front of `in`
    bool is_authenticated; // knows the job's secret: has the service's other table
    bool validated; // has sent the protocol's magic number
    bool has_asked; // for more than VALIDATE and PING, as a rank does
    bool overrun; // has more unread replies than we buffer
    WaitList waits; // for the keys that its WAIT or BARRIER still lacks
    bool woken; // is in the service's list `woken`
    LIST_ENTRY(Client) next_woken;
    Bytes watched_key; // the watched key that it has set, if any

    int fd; // from here on: the server's
    double since; // when it came, on the clock of seconds_now()
    HandshakeAnswer *handshake; // in progress; NULL: none is
    bool wants_room; // waiting for EPOLLOUT to send `out`
    size_t buffered; // bytes of memory that both queues have, as the server has counted them
    LIST_ENTRY(Client) next;
} Client;

/* All zero is an empty one. If the job has a secret, the ranks and launchers that know it have a
 * table apart from everybody else's, such as PyTorch's clients: a client sees only its own, and
 * neither takes room from the other. */
typedef struct {
    Table table; // open to all
    Table authenticated;
    bool has_secret; // else nobody is authenticated
    LIST_HEAD(, Client) woken; // clients with a reply caused by another client
    const char *watched; // prefix of watched keys (store_server_start); or NULL
} Service;

/* The table that this client sees. */
Table *service_table(Service *service, const Client *client);

/* Takes bytes from a client and executes all complete requests. False: disconnect it, it sends
 * nonsense or asks for too much. */
bool service_feed(Service *service, Client *client, const void *data, size_t count);

/* The next client in `woken`, whose reply must be sent; NULL: no more. */
Client *service_next_woken(Service *service);

/* Removes a disconnected client and frees what it held. If it had set a watched key, sets
 * KEY/gone. */
void service_forget(Service *service, Client *client);

/* ---- replies (store_reply.c) ---- */

/* These append to what the client will be sent, or set `overrun`: it has too much unread. */
void reply_bytes(Client *client, const void *data, size_t count);
void reply_u8(Client *client, uint8_t value);
void reply_i64(Client *client, int64_t value);
void reply_blob(Client *client, Blob blob);
/* The value of an entry, or an empty one for NULL. A large one is not copied. */
void reply_value(Client *client, const Entry *entry);

Blob reply_front(const Client *client); // to be sent next; empty: nothing
void reply_drop(Table *table, Client *client, size_t count); // of these bytes
size_t reply_kept_bytes(const Client *client); // of values that are only in replies
void reply_free(Table *table, Client *client);

#endif
