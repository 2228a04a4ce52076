/*
 * The operations; each is a few lines on the table. Their arguments are complete and checked, and
 * they run in one thread, one request at a time, which makes ADD and COMPARE_SET atomic. Where
 * PyTorch's two servers differ, this follows the newer one (libuv).
 */
#include "common/comm/store/store_service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

#define MAX_WATCHED_KEY 256 // bytes of a key

/* ---- replies; false: the client has too much unread ---- */

/* A reply shares a stored value with its entry, so many replies with the same values cost neither
 * time nor memory when they are asked for. If the entry gets another value before this one is sent,
 * the reply still has the old one. */
struct Reply {
    STAILQ_ENTRY(Reply) next;
    Value *value;
    size_t left; // bytes not sent yet: the last ones of the value's blob
};

enum { REPLY_BYTES = 96 }; // of memory, without the value

/* Takes over one use of the value, which is sent with or without its length. */
static bool reply_value(Client *client, Value *value, bool with_length)
{
    struct Reply *reply = mem_calloc(1, sizeof *reply);
    reply->value = value;
    reply->left = value->count + (with_length ? sizeof value->count : 0);
    if (STAILQ_EMPTY(&client->replies))
        STAILQ_INIT(&client->replies); // a client begins as zeros
    STAILQ_INSERT_TAIL(&client->replies, reply, next);
    client->unread += REPLY_BYTES + value->count;
    client->service->bytes += REPLY_BYTES;
    return client->unread <= STORE_MAX_BUFFER;
}

static bool reply_bytes(Client *client, const void *data, size_t count)
{
    return reply_value(client, value_new(client->service, (Blob){ data, count }), false);
}

static bool reply_u8(Client *client, uint8_t value)
{
    return reply_bytes(client, &value, sizeof value);
}

static bool reply_i64(Client *client, int64_t value)
{
    return reply_bytes(client, &value, sizeof value);
}

static bool reply_blob(Client *client, Blob blob)
{
    return reply_value(client, value_new(client->service, blob), true);
}

/* An empty value for an absent key. */
static bool reply_entry(Client *client, const Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return reply_i64(client, 0);
    entry->value->users++;
    return reply_value(client, entry->value, true);
}

size_t service_reply(const Client *client, uint8_t *data, size_t most)
{
    size_t count = 0;
    const struct Reply *reply;
    STAILQ_FOREACH(reply, &client->replies, next)
    {
        const size_t part = reply->left < most - count ? reply->left : most - count;
        const Value *value = reply->value;
        memcpy(data + count,
               (const uint8_t *)value + offsetof(Value, bytes) + value->count - reply->left, part);
        count += part;
        if (count == most)
            break;
    }
    return count;
}

/* Drops the first reply: it has been sent, or its client is gone. */
static void drop_reply(Client *client)
{
    struct Reply *first = STAILQ_FIRST(&client->replies);
    STAILQ_REMOVE_HEAD(&client->replies, next);
    client->unread -= REPLY_BYTES + first->value->count;
    client->service->bytes -= REPLY_BYTES;
    value_release(client->service, first->value);
    free(first);
}

void service_sent(Client *client, size_t count)
{
    while (count > 0) {
        struct Reply *first = STAILQ_FIRST(&client->replies);
        const size_t part = first->left < count ? first->left : count;
        count -= part;
        first->left -= part;
        if (first->left == 0)
            drop_reply(client);
    }
}

/* ---- waiting ---- */

/* WAIT is what makes a table a rendezvous: a rank asks for a key that another rank will set. A
 * waiting client has a Wait at every absent key, and gets its reply when the last one is removed. A
 * key that was set counts as seen, even if it is deleted before the others are set. */
static void wait_cancel(Client *client)
{
    for (Wait *wait; (wait = LIST_FIRST(&client->waits)) != NULL;) {
        Entry *entry = wait->entry;
        entry_stop_waiting(client->service, wait);
        table_prune(client->service, entry);
    }
}

/* Replies now if all keys are present, else when the last absent one is set; until then the client
 * may send other requests. */
static bool wait_for_keys(Client *client, Cursor at)
{
    bool waits = false;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        if (entry_is_present(table_find(client->service, key)))
            continue;
        if (!waits)
            wait_cancel(client); // a connection has one WAIT: this replaces it
        waits = true;
        Entry *entry = table_enter(client, key);
        if (entry == NULL || !entry_wait(client, entry))
            return false;
    }
    return waits || reply_u8(client, STORE_STOP_WAITING);
}

/* The key was set: replies to the clients that lacked only this key, and adds them to `woken`. An
 * element of a queue (only_one) wakes only the client that has waited longest. Always true. */
static bool wait_end(Service *service, Entry *entry, bool only_one)
{
    for (Wait *wait; (wait = TAILQ_FIRST(&entry->waits)) != NULL;) {
        Client *client = wait->client;
        entry_stop_waiting(service, wait);
        if (!LIST_EMPTY(&client->waits))
            continue;
        reply_u8(client, STORE_STOP_WAITING);
        if (!client->woken)
            LIST_INSERT_HEAD(&service->woken, client, next_woken);
        client->woken = true;
        if (only_one)
            break;
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

/* ---- the operations; false: disconnect the client ---- */

static Blob blob_of(const char *text)
{
    return (Blob){ (const uint8_t *)text, strlen(text) };
}

static bool is_same(Blob a, Blob b)
{
    return a.count == b.count && memcmp(a.data, b.data, a.count) == 0;
}

static bool put(Client *client, Blob key, Blob value, bool append)
{
    Entry *entry = table_enter(client, key);
    return entry != NULL && entry_write(client, entry, value, append) &&
           wait_end(client->service, entry, false);
}

/* Remembers the first watched key that a client sets; ours are short. */
static void note_watched_key(Client *client, Blob key)
{
    const char *watched = client->service->watched;
    if (watched != NULL && key.count >= strlen(watched) && key.count <= MAX_WATCHED_KEY &&
        memcmp(key.data, watched, strlen(watched)) == 0 && bytes_count(&client->watched_key) == 0)
        bytes_put(&client->watched_key, key.data, key.count);
}

static bool compare_set(Client *client, Cursor at)
{
    const Blob key = take_blob(&at), expected = take_blob(&at), desired = take_blob(&at);
    const Entry *entry = table_find(client->service, key);
    if (is_same(entry_value(entry), expected))
        return reply_blob(client, desired) && put(client, key, desired, false);
    // A reply of "expected" does not tell whether the key exists: so the protocol has it.
    if (entry == NULL || entry->value == NULL)
        return reply_blob(client, expected);
    return reply_entry(client, entry);
}

/* Adds to a counter, stored as decimal text. NULL: not a number, or the table is full. */
static Entry *count_up(Client *client, Blob key, int64_t amount, int64_t *sum)
{
    Entry *entry = table_enter(client, key);
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
    snprintf(text, sizeof text, "%" PRId64, *sum);
    return entry_write(client, entry, blob_of(text), false) ? entry : NULL;
}

static bool add(Client *client, Cursor at)
{
    const Blob key = take_blob(&at);
    int64_t sum = 0;
    Entry *entry = count_up(client, key, (int64_t)take_u64(&at), &sum);
    return entry != NULL && reply_i64(client, sum) && wait_end(client->service, entry, false);
}

static bool barrier(Client *client, Cursor at)
{
    const Blob key = take_blob(&at);
    const int64_t world_size = (int64_t)take_u64(&at);
    int64_t arrived = 0;
    Entry *entry = count_up(client, key, 1, &arrived);
    if (entry == NULL)
        return false;
    if (arrived >= world_size)
        return reply_u8(client, STORE_STOP_WAITING) && wait_end(client->service, entry, false);
    wait_cancel(client); // it waits even if the key is there, and wakes no client
    return entry_wait(client, entry);
}

static bool check(Client *client, Cursor at)
{
    bool all = true;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        all &= entry_is_present(table_find(client->service, key)) ||
               (client->service->tells_of_secret && is_same(key, blob_of(STORE_HAS_SECRET)));
    }
    return reply_u8(client, all ? STORE_READY : STORE_NOT_READY);
}

static bool multi_get(Client *client, Cursor at)
{
    bool fits = true;
    for (uint64_t left = take_u64(&at); left > 0 && fits; left--)
        fits = reply_entry(client, table_find(client->service, take_blob(&at)));
    return fits;
}

static bool multi_set(Client *client, Cursor at)
{
    bool stored = true;
    for (uint64_t left = take_u64(&at); left > 0 && stored; left--) {
        const Blob key = take_blob(&at);
        stored = put(client, key, take_blob(&at), false);
    }
    return stored;
}

static bool delete_key(Client *client, Blob key)
{
    Entry *entry = table_find(client->service, key);
    const bool present = entry != NULL && entry->value != NULL;
    if (present) {
        entry_erase(client->service, entry);
        table_prune(client->service, entry);
    }
    return reply_i64(client, present);
}

static bool list_keys(Client *client)
{
    const Entry *entry;
    bool fits = reply_i64(client, client->service->num_values);
    LIST_FOREACH(entry, &client->service->entries, next)
    {
        fits = fits && (entry->value == NULL || reply_blob(client, entry->key));
    }
    return fits;
}

/* An element is for one client, so it wakes only one; a value may be read by all. */
static bool queue_push(Client *client, Cursor at)
{
    Entry *entry = table_enter(client, take_blob(&at));
    return entry != NULL && entry_push(client, entry, take_blob(&at)) &&
           wait_end(client->service, entry, true);
}

static bool queue_length(Client *client, const Entry *entry)
{
    return reply_i64(client, entry == NULL ? 0 : entry->queue_length);
}

static bool queue_pop(Client *client, Entry *entry)
{
    const bool fits = queue_length(client, entry); // before it is popped; 0: nothing follows
    if (entry == NULL || entry->queue_length == 0)
        return fits;
    Value *value = entry_pop(entry);
    table_prune(client->service, entry);
    return reply_value(client, value, true) && fits;
}

static bool handle_request(Client *client, StoreOperation operation, Cursor at)
{
    Service *service = client->service;
    switch (operation) {
    case STORE_VALIDATE:
        client->validated = memcmp(at, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t)) == 0;
        return client->validated;
    case STORE_SET:
    case STORE_APPEND: {
        const Blob key = take_blob(&at);
        note_watched_key(client, key);
        return put(client, key, take_blob(&at), operation == STORE_APPEND);
    }
    case STORE_COMPARE_SET:
        return compare_set(client, at);
    case STORE_GET:
        return reply_entry(client, table_find(service, take_blob(&at)));
    case STORE_ADD:
        return add(client, at);
    case STORE_CHECK:
        return check(client, at);
    case STORE_WAIT:
        return wait_for_keys(client, at);
    case STORE_GETNUMKEYS:
        return reply_i64(client, service->num_values);
    case STORE_DELETE_KEY:
        return delete_key(client, take_blob(&at));
    case STORE_MULTI_GET:
        return multi_get(client, at);
    case STORE_MULTI_SET:
        return multi_set(client, at);
    case STORE_CANCEL_WAIT:
        wait_cancel(client);
        return reply_u8(client, STORE_WAIT_CANCELED);
    case STORE_PING:
        return reply_bytes(client, at, sizeof(uint32_t));
    case STORE_QUEUE_PUSH:
        return queue_push(client, at);
    case STORE_QUEUE_POP:
        return queue_pop(client, table_find(service, take_blob(&at)));
    case STORE_QUEUE_LEN:
        return queue_length(client, table_find(service, take_blob(&at)));
    case STORE_LIST_KEYS:
        return list_keys(client);
    case STORE_BARRIER:
        return barrier(client, at);
    default:
        return false;
    }
}

static void count_input(Client *client)
{
    client->service->bytes += client->in.capacity - client->in_bytes;
    client->in_bytes = client->in.capacity;
}

bool service_feed(Client *client, const void *data, size_t count)
{
    bytes_put(&client->in, data, count);
    for (size_t left; (left = bytes_count(&client->in)) > 0;) {
        const uint8_t *request = bytes_front(&client->in);
        if ((request[0] == STORE_VALIDATE) == client->validated)
            return false; // VALIDATE comes first, and only once
        const RequestState state = request_measure(&client->measure, request, left);
        if (state == REQUEST_PARTIAL)
            break;
        if (state == REQUEST_NONSENSE || !handle_request(client, request[0], request + 1))
            return false;
        client->proven |= request[0] != STORE_VALIDATE && request[0] != STORE_PING &&
                          !client->service->tells_of_secret; // then only the secret proves
        bytes_drop(&client->in, client->measure.bytes);
        client->measure = (RequestMeasure){ 0 };
    }
    count_input(client);
    return table_has_room(client, 0);
}

void service_forget(Client *client)
{
    wait_cancel(client);
    if (client->woken)
        LIST_REMOVE(client, next_woken);
    if (bytes_count(&client->watched_key) > 0) {
        bytes_put(&client->watched_key, STORE_GONE, strlen(STORE_GONE));
        const Blob key = { bytes_front(&client->watched_key), bytes_count(&client->watched_key) };
        put(client, key, blob_of("1"), false);
    }
    while (!STAILQ_EMPTY(&client->replies))
        drop_reply(client);
    bytes_free(&client->in);
    count_input(client);
    bytes_free(&client->watched_key);
}
