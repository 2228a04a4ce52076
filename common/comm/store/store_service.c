/*
 * The operations, each a few lines on the table. Their arguments are complete and checked, and they
 * run in one thread, one request at a time, which makes ADD and COMPARE_SET atomic. Where PyTorch's
 * two servers differ, this follows the newer one (libuv).
 */
#include "common/comm/store/store_service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WATCHED_KEY 256 // bytes of a key

/* ---- waiting ---- */

/* WAIT is what makes a table a rendezvous: a rank asks for a key that another rank will set. A
 * waiting client has a Wait at every absent key, and gets its reply when the last one is removed. A
 * key that was set counts as seen, even if it is deleted before the others are set. */
static void wait_cancel(Table *table, Client *client)
{
    while (!LIST_EMPTY(&client->waits)) {
        Wait *wait = LIST_FIRST(&client->waits);
        Entry *entry = wait->entry;
        entry_stop_waiting(table, wait);
        table_prune(table, entry);
    }
}

/* Replies now if all keys are present, else when the last absent one is set; until then the client
 * may send other requests. False: the table is full. */
static bool wait_for_keys(Table *table, Client *client, Cursor at)
{
    bool waits = false;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        if (entry_is_present(table_find(table, key)))
            continue;
        if (!waits)
            wait_cancel(table, client); // a connection has one WAIT: this replaces it
        waits = true;
        Entry *entry = table_enter(table, key);
        if (entry == NULL || !entry_wait(table, entry, client, &client->waits))
            return false;
    }
    if (!waits)
        reply_u8(client, STORE_STOP_WAITING);
    return true;
}

/* The key was set: replies to the clients that lacked only this key, and adds them to `woken`. An
 * element of a queue (only_one) wakes only the client that has waited longest. */
static void wait_end(Service *service, Table *table, Entry *entry, bool only_one)
{
    Wait *wait;
    while ((wait = TAILQ_FIRST(&entry->waits)) != NULL) {
        Client *client = wait->client;
        entry_stop_waiting(table, wait);
        if (!LIST_EMPTY(&client->waits))
            continue;
        reply_u8(client, STORE_STOP_WAITING);
        if (!client->woken)
            LIST_INSERT_HEAD(&service->woken, client, next_woken);
        client->woken = true;
        if (only_one)
            return;
    }
}

/* ---- the operations: each sends its reply, if any; false: disconnect ---- */

static bool put(Service *service, Table *table, Blob key, Blob value, bool append)
{
    Entry *entry = table_enter(table, key);
    const size_t offset = append ? entry_value(entry).count : 0;
    if (entry == NULL || !entry_write(table, entry, offset, value))
        return false;
    wait_end(service, table, entry, false);
    return true;
}

/* Remembers the first watched key that a client sets; ours are short. */
static void note_watched_key(const Service *service, Client *client, Blob key)
{
    const size_t length = service->watched == NULL ? 0 : strlen(service->watched);
    if (length > 0 && key.count >= length && key.count <= MAX_WATCHED_KEY &&
        memcmp(key.data, service->watched, length) == 0 && bytes_count(&client->watched_key) == 0)
        bytes_put(&client->watched_key, key.data, key.count);
}

static bool compare_set(Service *service, Table *table, Client *client, Cursor at)
{
    const Blob key = take_blob(&at), expected = take_blob(&at), desired = take_blob(&at);
    const Entry *entry = table_find(table, key);
    const Blob value = entry_value(entry);
    if (value.count == expected.count && memcmp(value.data, expected.data, value.count) == 0) {
        reply_blob(client, desired);
        return put(service, table, key, desired, false);
    }
    // A reply of "expected" does not tell whether the key exists: so the protocol has it.
    if (entry == NULL || entry->value == NULL)
        reply_blob(client, expected);
    else
        reply_value(client, entry);
    return true;
}

/* Adds to a counter, stored as decimal text. NULL: not a number, or the table is full. */
static Entry *count_up(Table *table, Blob key, int64_t amount, int64_t *sum)
{
    Entry *entry = table_enter(table, key);
    if (entry == NULL)
        return NULL;
    int64_t old = 0;
    if (entry->value != NULL) {
        char *end = NULL;
        errno = 0;
        old = strtoll(entry->value->bytes, &end, 10);
        if (errno != 0 || end == entry->value->bytes)
            return NULL;
    }
    *sum = (int64_t)((uint64_t)old + (uint64_t)amount); // unsigned: it may wrap around
    char text[24];
    const int length = snprintf(text, sizeof text, "%" PRId64, *sum);
    const Blob value = { (const uint8_t *)text, (size_t)length };
    return entry_write(table, entry, 0, value) ? entry : NULL;
}

static bool add(Service *service, Table *table, Client *client, Cursor at)
{
    const Blob key = take_blob(&at);
    int64_t sum = 0;
    Entry *entry = count_up(table, key, (int64_t)take_u64(&at), &sum);
    if (entry == NULL)
        return false;
    reply_i64(client, sum);
    wait_end(service, table, entry, false);
    return true;
}

static bool barrier(Service *service, Table *table, Client *client, Cursor at)
{
    const Blob key = take_blob(&at);
    const int64_t world_size = (int64_t)take_u64(&at);
    int64_t arrived = 0;
    Entry *entry = count_up(table, key, 1, &arrived);
    if (entry == NULL)
        return false;
    if (arrived < world_size) { // waits although the key is there, and wakes nobody
        wait_cancel(table, client);
        return entry_wait(table, entry, client, &client->waits);
    }
    reply_u8(client, STORE_STOP_WAITING);
    wait_end(service, table, entry, false);
    return true;
}

/* By this key, which is in no table, a client without the secret learns that others have one. */
static bool is_secret_asked_for(const Service *service, const Client *client, Blob key)
{
    return service->has_secret && !client->is_authenticated &&
           key.count == strlen(STORE_HAS_SECRET) &&
           memcmp(key.data, STORE_HAS_SECRET, key.count) == 0;
}

static bool check(Service *service, Client *client, Cursor at)
{
    const Table *table = service_table(service, client);
    bool all = true;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        all &=
            entry_is_present(table_find(table, key)) || is_secret_asked_for(service, client, key);
    }
    reply_u8(client, all ? STORE_READY : STORE_NOT_READY);
    return true;
}

static bool multi_get(const Table *table, Client *client, Cursor at)
{
    for (uint64_t left = take_u64(&at); left > 0; left--)
        reply_value(client, table_find(table, take_blob(&at)));
    return true;
}

static bool multi_set(Service *service, Table *table, Cursor at)
{
    bool stored = true;
    for (uint64_t left = take_u64(&at); left > 0 && stored; left--) {
        const Blob key = take_blob(&at);
        stored = put(service, table, key, take_blob(&at), false);
    }
    return stored;
}

static bool delete_key(Table *table, Client *client, Blob key)
{
    Entry *entry = table_find(table, key);
    const bool present = entry != NULL && entry->value != NULL;
    if (present) {
        entry_erase(table, entry);
        table_prune(table, entry);
    }
    reply_i64(client, present);
    return true;
}

static bool list_keys(const Table *table, Client *client)
{
    reply_i64(client, table->num_values);
    const Entry *entry;
    LIST_FOREACH(entry, &table->entries, next)
    {
        if (entry->value != NULL)
            reply_blob(client, entry->key);
    }
    return true;
}

/* An element is for one client, so it wakes only one; a value may be read by all. */
static bool queue_push(Service *service, Table *table, Cursor at)
{
    Entry *entry = table_enter(table, take_blob(&at));
    if (entry == NULL || !entry_push(table, entry, take_blob(&at)))
        return false;
    wait_end(service, table, entry, true);
    return true;
}

static bool queue_pop(Table *table, Client *client, Blob key)
{
    Entry *entry = table_find(table, key);
    const int64_t length = entry == NULL ? 0 : entry->queue_length;
    reply_i64(client, length); // before it is popped; 0: nothing follows
    if (length > 0) {
        reply_blob(client, STAILQ_FIRST(&entry->queue)->blob);
        entry_pop(table, entry);
        table_prune(table, entry);
    }
    return true;
}

static bool queue_len(const Table *table, Client *client, Blob key)
{
    const Entry *entry = table_find(table, key);
    reply_i64(client, entry == NULL ? 0 : entry->queue_length);
    return true;
}

static bool handle_request(Service *service, Client *client, StoreOperation operation, Cursor at)
{
    Table *table = service_table(service, client);
    switch (operation) {
    case STORE_VALIDATE:
        client->validated = memcmp(at, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t)) == 0;
        return client->validated;
    case STORE_SET:
    case STORE_APPEND: {
        const Blob key = take_blob(&at);
        note_watched_key(service, client, key);
        return put(service, table, key, take_blob(&at), operation == STORE_APPEND);
    }
    case STORE_COMPARE_SET:
        return compare_set(service, table, client, at);
    case STORE_GET:
        reply_value(client, table_find(table, take_blob(&at)));
        return true;
    case STORE_ADD:
        return add(service, table, client, at);
    case STORE_CHECK:
        return check(service, client, at);
    case STORE_WAIT:
        return wait_for_keys(table, client, at);
    case STORE_GETNUMKEYS:
        reply_i64(client, table->num_values);
        return true;
    case STORE_DELETE_KEY:
        return delete_key(table, client, take_blob(&at));
    case STORE_MULTI_GET:
        return multi_get(table, client, at);
    case STORE_MULTI_SET:
        return multi_set(service, table, at);
    case STORE_CANCEL_WAIT:
        wait_cancel(table, client);
        reply_u8(client, STORE_WAIT_CANCELED);
        return true;
    case STORE_PING:
        reply_bytes(client, at, sizeof(uint32_t));
        return true;
    case STORE_QUEUE_PUSH:
        return queue_push(service, table, at);
    case STORE_QUEUE_POP:
        return queue_pop(table, client, take_blob(&at));
    case STORE_QUEUE_LEN:
        return queue_len(table, client, take_blob(&at));
    case STORE_LIST_KEYS:
        return list_keys(table, client);
    case STORE_BARRIER:
        return barrier(service, table, client, at);
    default:
        return false;
    }
}

Table *service_table(Service *service, const Client *client)
{
    return client->is_authenticated ? &service->authenticated : &service->table;
}

bool service_feed(Service *service, Client *client, const void *data, size_t count)
{
    bytes_put(&client->in, data, count);
    while (bytes_count(&client->in) > 0) {
        const uint8_t *request = bytes_front(&client->in);
        if ((request[0] == STORE_VALIDATE) == client->validated)
            return false; // VALIDATE comes first, and only once
        const RequestState state =
            request_measure(&client->measure, request, bytes_count(&client->in));
        if (state != REQUEST_WHOLE)
            return state == REQUEST_PARTIAL;
        Table *table = service_table(service, client);
        table->stored = &client->stored;
        const bool done = handle_request(service, client, request[0], request + 1);
        table->stored = NULL;
        if (!done || client->overrun)
            return false;
        client->has_asked |= request[0] != STORE_VALIDATE && request[0] != STORE_PING;
        bytes_drop(&client->in, client->measure.bytes);
        client->measure = (RequestMeasure){ 0 };
    }
    return true;
}

Client *service_next_woken(Service *service)
{
    Client *client = LIST_FIRST(&service->woken);
    if (client != NULL) {
        LIST_REMOVE(client, next_woken);
        client->woken = false;
    }
    return client;
}

void service_forget(Service *service, Client *client)
{
    Table *table = service_table(service, client);
    wait_cancel(table, client);
    if (client->woken)
        LIST_REMOVE(client, next_woken);
    if (bytes_count(&client->watched_key) > 0) {
        bytes_put(&client->watched_key, STORE_GONE, strlen(STORE_GONE));
        const Blob key = { bytes_front(&client->watched_key), bytes_count(&client->watched_key) };
        put(service, table, key, (Blob){ (const uint8_t *)"1", 1 }, false);
    }
    bytes_free(&client->in);
    reply_free(table, client);
    bytes_free(&client->watched_key);
}
