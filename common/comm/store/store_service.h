/* store_service.h - a store without its sockets: a table, and what clients ask of it. */
#ifndef COMMON_COMM_STORE_STORE_SERVICE_H
#define COMMON_COMM_STORE_STORE_SERVICE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "common/comm/store/store_protocol.h"

/* ---- what is stored: values, queues and waiting clients, by key (store_table.c) ---- */

#define STORE_MAX_TABLE ((size_t)1 << 30) // bytes: a runaway client must not exhaust its host

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
    char *value; // followed by a zero byte; NULL: none
    size_t value_bytes;
    STAILQ_HEAD(, Item) queue;
    int64_t queue_length;
    TAILQ_HEAD(, Wait) waits; // oldest first
} Entry;

/* All zero is an empty one. */
typedef struct {
    void *tree; // of entries, by key
    LIST_HEAD(, Entry) entries; // the same, in no order
    int64_t num_values;
    size_t bytes; // of memory in use
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
 * the table is full, or the value longer than the protocol allows. */
bool entry_write(Table *table, Entry *entry, size_t offset, Blob blob);
void entry_erase(Table *table, Entry *entry);

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
    Bytes out; // replies not yet sent, up to STORE_MAX_BUFFER
    RequestMeasure measure; // of the request at the front of `in`
    bool validated; // has sent the protocol's magic number
    bool has_asked; // for more than VALIDATE and PING, as a rank does
    bool overrun; // has more unread replies than we buffer
    WaitList waits; // for the keys that its WAIT or BARRIER still lacks
    bool woken; // is in the service's list `woken`
    LIST_ENTRY(Client) next_woken;
    Bytes watched_key; // the watched key that it has set, if any

    int fd; // from here on: the server's
    bool wants_room; // waiting for EPOLLOUT to send `out`
    size_t buffered; // bytes of memory that both queues have, as the server has counted them
    LIST_ENTRY(Client) next;
} Client;

/* All zero is an empty one. */
typedef struct {
    Table table;
    LIST_HEAD(, Client) woken; // clients with a reply caused by another client
    const char *watched; // prefix of watched keys (store_server_start); or NULL
} Service;

/* Takes bytes from a client and executes all complete requests. False: disconnect it, it sends
 * nonsense or asks for too much. */
bool service_feed(Service *service, Client *client, const void *data, size_t count);

/* The next client in `woken`, whose reply must be sent; NULL: no more. */
Client *service_next_woken(Service *service);

/* Removes a disconnected client and frees what it held. If it had set a watched key, sets
 * KEY/gone. */
void service_forget(Service *service, Client *client);

#endif
