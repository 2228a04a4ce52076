/*
 * The table and the operations on it. Their arguments are complete and checked, and they run in one
 * thread, one request at a time, which makes ADD and COMPARE_SET atomic. Where PyTorch's two
 * servers differ, this follows the newer one (libuv). The table is the C library's balanced tree
 * (<search.h>): keys come from outside, and no choice of keys makes a tree slow.
 */
#include "common/comm/store/store_service.h"

#include <errno.h>
#include <malloc.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

enum { MALLOC_BYTES = 8, NODE_BYTES = 32 }; // what malloc adds to a block, the tree to an entry

/* As realloc; 0 bytes: free. Overhead is counted, since it is nearly half of many small keys. */
static void *resize(Service *service, void *memory, size_t bytes)
{
    if (memory != NULL)
        service->bytes -= malloc_usable_size(memory) + MALLOC_BYTES;
    if (bytes == 0) {
        free(memory);
        return NULL;
    }
    memory = realloc(memory, bytes);
    CHECK(memory != NULL, "out of memory: %zu bytes wanted", bytes);
    service->bytes += malloc_usable_size(memory) + MALLOC_BYTES;
    return memory;
}

/* May the client store this many more bytes? 0: may it go on? */
static bool has_room(Client *client, size_t growth)
{
    client->stored += growth;
    const bool is_small = client->stored + client->unread + client->in.capacity <= STORE_SHARE;
    const size_t kept = (growth > 0 ? STORE_RESERVE : 0) + (is_small ? 0 : STORE_RESERVE);
    return client->service->bytes + growth + kept <= STORE_MAX_MEMORY;
}

static Entry *find(const Service *service, Blob key)
{
    Entry **found = tfind(&key, &service->tree, blob_compare); // an Entry begins with its key
    return found == NULL ? NULL : *found;
}

/* Finds or makes the entry. NULL: there is no room for one. */
static Entry *enter(Client *client, Blob key)
{
    Service *service = client->service;
    Entry *entry = find(service, key);
    const size_t bytes = sizeof *entry + key.count;
    if (entry != NULL || !has_room(client, bytes + NODE_BYTES))
        return entry;
    entry = resize(service, NULL, bytes);
    *entry = (Entry){ .key = { (uint8_t *)(entry + 1), key.count } };
    memcpy(entry + 1, key.data, key.count);
    TAILQ_INIT(&entry->waits);
    CHECK(tsearch(entry, &service->tree, blob_compare) != NULL, "out of memory: a key wanted");
    service->bytes += NODE_BYTES;
    LIST_INSERT_HEAD(&service->entries, entry, next);
    return entry;
}

static bool is_present(const Entry *entry)
{
    return entry != NULL && (entry->value != NULL || entry->queue_length > 0);
}

/* Removes the entry if it has become empty. */
static void prune(Service *service, Entry *entry)
{
    if (is_present(entry) || !TAILQ_EMPTY(&entry->waits))
        return;
    tdelete(entry, &service->tree, blob_compare);
    LIST_REMOVE(entry, next);
    service->bytes -= NODE_BYTES;
    resize(service, entry, 0);
}

/* Empty where there is none. */
static Blob value_of(const Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return blob_of("");
    Cursor at = entry->value->bytes;
    return take_blob(&at);
}

static void release_value(Service *service, Value *value)
{
    if (--value->users == 0)
        resize(service, value, 0);
}

/* Replaces old, of which the first `kept` bytes stay, unless it is NULL. If a reply has it, too,
 * the new value has memory of its own. */
static Value *value_of_blob(Service *service, Value *old, size_t kept, Blob blob)
{
    const uint64_t count = kept + blob.count;
    const size_t bytes = sizeof(Value) + sizeof count + count + 1;
    const bool is_shared = old != NULL && old->users > 1;
    Value *value = resize(service, is_shared ? NULL : old, bytes);
    if (is_shared) {
        memcpy(value->bytes + sizeof count, old->bytes + sizeof count, kept);
        release_value(service, old);
    }
    *value = (Value){ .users = 1, .size = sizeof count + count };
    memcpy(value->bytes, &count, sizeof count);
    memcpy(value->bytes + sizeof count + kept, blob.data, blob.count);
    value->bytes[value->size] = '\0'; // for strtoll
    return value;
}

/* False: there is no room, or the value would be longer than the protocol allows. */
static bool write_value(Client *client, Entry *entry, Blob blob, bool append)
{
    Value *old = entry->value;
    const size_t had = value_of(entry).count, reused = old != NULL && old->users == 1 ? had : 0;
    const size_t kept = append ? had : 0, count = kept + blob.count;
    if (count > STORE_MAX_VALUE || !has_room(client, count > reused ? count - reused : 0))
        return false;
    entry->value = value_of_blob(client->service, old, kept, blob);
    client->service->num_values += old == NULL;
    return true;
}

static bool erase_value(Service *service, Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return false;
    release_value(service, entry->value);
    entry->value = NULL;
    service->num_values--;
    prune(service, entry);
    return true;
}

/* Takes over one use of the value. */
static void put_item(Service *service, Items *items, Value *value)
{
    Item *item = resize(service, NULL, sizeof *item);
    item->value = value;
    if (STAILQ_EMPTY(items))
        STAILQ_INIT(items); // it began as zeros
    STAILQ_INSERT_TAIL(items, item, next);
}

/* The caller releases the value. There must be one. */
static Value *take_item(Service *service, Items *items)
{
    Item *first = STAILQ_FIRST(items);
    Value *value = first->value;
    STAILQ_REMOVE_HEAD(items, next);
    resize(service, first, 0);
    return value;
}

/* ---- replies; false: the client has too much unread ---- */

/* Takes over one use of the value. A reply shares a stored value with its entry, so many large
 * replies cost neither time nor memory when they are asked for. If the entry gets another value
 * before this one is sent, the reply still has the old one. */
static bool reply_value(Client *client, Value *value)
{
    put_item(client->service, &client->replies, value);
    client->unread += sizeof(Item) + sizeof *value + value->size;
    return client->unread <= STORE_MAX_BUFFER;
}

static bool reply_bytes(Client *client, const void *data, size_t count)
{
    Value *value = resize(client->service, NULL, sizeof *value + count);
    *value = (Value){ .users = 1, .size = count };
    memcpy(value->bytes, data, count);
    return reply_value(client, value);
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
    return reply_value(client, value_of_blob(client->service, NULL, 0, blob));
}

/* An empty value for an absent key. */
static bool reply_entry(Client *client, const Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return reply_i64(client, 0);
    entry->value->users++;
    return reply_value(client, entry->value);
}

Blob service_reply(const Client *client)
{
    const Value *value = STAILQ_FIRST(&client->replies)->value;
    return (Blob){ value->bytes + client->sent, value->size - client->sent };
}

void service_sent(Client *client, size_t count)
{
    client->sent += count;
    if (client->sent < STAILQ_FIRST(&client->replies)->value->size)
        return;
    Value *value = take_item(client->service, &client->replies);
    client->sent = 0;
    client->unread -= sizeof(Item) + sizeof *value + value->size;
    release_value(client->service, value);
}

/* ---- waiting ---- */

static bool wait_begin(Client *client, Entry *entry)
{
    if (!has_room(client, sizeof(Wait)))
        return false;
    Wait *wait = resize(client->service, NULL, sizeof *wait);
    *wait = (Wait){ .entry = entry, .client = client };
    TAILQ_INSERT_TAIL(&entry->waits, wait, of_entry);
    LIST_INSERT_HEAD(&client->waits, wait, of_client);
    return true;
}

static void wait_remove(Service *service, Wait *wait)
{
    Entry *entry = wait->entry;
    TAILQ_REMOVE(&entry->waits, wait, of_entry);
    LIST_REMOVE(wait, of_client);
    resize(service, wait, 0);
    prune(service, entry);
}

/* WAIT is what makes a table a rendezvous: a rank asks for a key that another rank will set. A
 * waiting client has a Wait at every absent key, and gets its reply when the last one is removed. A
 * key that was set counts as seen, even if it is deleted before the others are set. */
static void wait_cancel(Client *client)
{
    while (!LIST_EMPTY(&client->waits))
        wait_remove(client->service, LIST_FIRST(&client->waits));
}

/* Replies now if all keys are present, else when the last absent one is set; until then the client
 * may send other requests. */
static bool wait_for_keys(Client *client, Cursor at)
{
    bool waits = false;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        if (is_present(find(client->service, key)))
            continue;
        if (!waits)
            wait_cancel(client); // a connection has one WAIT: this replaces it
        waits = true;
        Entry *entry = enter(client, key);
        if (entry == NULL || !wait_begin(client, entry))
            return false;
    }
    return waits || reply_u8(client, STORE_STOP_WAITING);
}

/* The key was set: replies to the clients that lacked only this key. An element of a queue
 * (only_one) wakes only the client that has waited longest. Always true. */
static bool wait_end(Service *service, Entry *entry, bool only_one)
{
    for (Wait *wait; (wait = TAILQ_FIRST(&entry->waits)) != NULL;) {
        Client *client = wait->client;
        wait_remove(service, wait);
        if (!LIST_EMPTY(&client->waits))
            continue;
        reply_u8(client, STORE_STOP_WAITING);
        if (only_one)
            break;
    }
    return true;
}

/* ---- the operations; false: disconnect the client ---- */

/* Also remembers the first watched key that a client sets. */
static bool put(Client *client, Blob key, Blob value, bool append)
{
    const char *watched = client->service->watched;
    if (watched != NULL && client->gone_key[0] == '\0' && key.count >= strlen(watched) &&
        memcmp(key.data, watched, strlen(watched)) == 0 &&
        key.count + sizeof STORE_GONE <= sizeof client->gone_key)
        sprintf(client->gone_key, "%.*s" STORE_GONE, (int)key.count, (const char *)key.data);
    Entry *entry = enter(client, key);
    return entry != NULL && write_value(client, entry, value, append) &&
           wait_end(client->service, entry, false);
}

static bool compare_set(Client *client, Cursor at)
{
    const Blob key = take_blob(&at), expected = take_blob(&at), desired = take_blob(&at);
    const Entry *entry = find(client->service, key);
    const Blob value = value_of(entry);
    if (blob_compare(&value, &expected) == 0)
        return put(client, key, desired, false) && reply_blob(client, desired);
    // A reply of "expected" does not tell whether the key exists: so the protocol has it.
    return entry == NULL || entry->value == NULL ? reply_blob(client, expected)
                                                 : reply_entry(client, entry);
}

/* ADD, and BARRIER, which adds 1 and waits until the sum is the world size. The sum is stored as
 * decimal text. */
static bool add(Client *client, Cursor at, bool is_barrier)
{
    const Blob key = take_blob(&at);
    const int64_t number = (int64_t)take_u64(&at);
    Entry *entry = enter(client, key);
    if (entry == NULL)
        return false;
    const char *digits = entry->value == NULL ? "0" : (const char *)value_of(entry).data;
    char *end = NULL, text[24];
    errno = 0;
    const long long old = strtoll(digits, &end, 10);
    if (errno != 0 || end == digits)
        return false;
    // Unsigned: it may wrap around.
    const int64_t sum = (int64_t)((uint64_t)old + (is_barrier ? 1 : (uint64_t)number));
    snprintf(text, sizeof text, "%lld", (long long)sum);
    if (!write_value(client, entry, blob_of(text), false))
        return false;
    if (is_barrier && sum < number) {
        wait_cancel(client); // it waits even if the key is there, and wakes no client
        return wait_begin(client, entry);
    }
    return (is_barrier ? reply_u8(client, STORE_STOP_WAITING) : reply_i64(client, sum)) &&
           wait_end(client->service, entry, false);
}

static bool check(Client *client, Cursor at)
{
    const Blob has_secret = blob_of(STORE_HAS_SECRET);
    bool all = true;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        all &= is_present(find(client->service, key)) ||
               (client->service->tells_of_secret && blob_compare(&key, &has_secret) == 0);
    }
    return reply_u8(client, all ? STORE_READY : STORE_NOT_READY);
}

static bool list_keys(Client *client)
{
    const Entry *entry = LIST_FIRST(&client->service->entries);
    bool fits = reply_i64(client, client->service->num_values);
    for (; fits && entry != NULL; entry = LIST_NEXT(entry, next))
        fits = entry->value == NULL || reply_blob(client, entry->key);
    return fits;
}

/* An element is for one client, so it wakes only one; a value may be read by all. */
static bool queue_push(Client *client, Cursor at)
{
    Entry *entry = enter(client, take_blob(&at));
    const Blob blob = take_blob(&at);
    if (entry == NULL || !has_room(client, sizeof(Item) + sizeof(Value) + blob.count))
        return false;
    put_item(client->service, &entry->queue, value_of_blob(client->service, NULL, 0, blob));
    entry->queue_length++;
    return wait_end(client->service, entry, true);
}

/* Replies with the length, then, for POP, with the first element if there is one. */
static bool queue_read(Client *client, Entry *entry, bool pop)
{
    const int64_t length = entry == NULL ? 0 : entry->queue_length;
    if (!reply_i64(client, length))
        return false;
    if (!pop || length == 0)
        return true;
    Value *value = take_item(client->service, &entry->queue);
    entry->queue_length--;
    prune(client->service, entry);
    return reply_value(client, value);
}

/* Also executes one of the several GETs or SETs of which MULTI_GET and MULTI_SET consist. */
static bool handle_request(Client *client, StoreOperation operation, Cursor *at)
{
    Service *service = client->service;
    switch (operation) {
    case STORE_VALIDATE:
        client->validated = memcmp(*at, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t)) == 0;
        return client->validated;
    case STORE_PING:
        return reply_bytes(client, *at, sizeof(uint32_t));
    case STORE_GET:
        return reply_entry(client, find(service, take_blob(at)));
    case STORE_SET:
    case STORE_APPEND: {
        const Blob key = take_blob(at);
        return put(client, key, take_blob(at), operation == STORE_APPEND);
    }
    case STORE_MULTI_GET:
    case STORE_MULTI_SET:
        for (uint64_t left = take_u64(at); left > 0; left--)
            if (!handle_request(client, operation == STORE_MULTI_GET ? STORE_GET : STORE_SET, at))
                return false;
        return true;
    case STORE_COMPARE_SET:
        return compare_set(client, *at);
    case STORE_ADD:
    case STORE_BARRIER:
        return add(client, *at, operation == STORE_BARRIER);
    case STORE_CHECK:
        return check(client, *at);
    case STORE_WAIT:
        return wait_for_keys(client, *at);
    case STORE_CANCEL_WAIT:
        wait_cancel(client);
        return reply_u8(client, STORE_WAIT_CANCELED);
    case STORE_DELETE_KEY:
        return reply_i64(client, erase_value(service, find(service, take_blob(at))));
    case STORE_GETNUMKEYS:
        return reply_i64(client, service->num_values);
    case STORE_LIST_KEYS:
        return list_keys(client);
    case STORE_QUEUE_PUSH:
        return queue_push(client, *at);
    case STORE_QUEUE_POP:
    case STORE_QUEUE_LEN:
        return queue_read(client, find(service, take_blob(at)), operation == STORE_QUEUE_POP);
    default:
        return false;
    }
}

/* Executes the first request of `in`, which is not empty, if it is whole. */
static RequestState take_request(Client *client)
{
    const uint8_t *request = client->in.data;
    if ((request[0] == STORE_VALIDATE) == client->validated)
        return REQUEST_NONSENSE; // VALIDATE comes first, and only once
    const RequestState state = request_measure(&client->measure, request, client->in.count);
    if (state != REQUEST_WHOLE)
        return state;
    Cursor at = request + 1;
    if (!handle_request(client, request[0], &at))
        return REQUEST_NONSENSE;
    client->proven |= request[0] != STORE_VALIDATE && request[0] != STORE_PING &&
                      !client->service->tells_of_secret; // then only the secret proves
    bytes_drop(&client->in, client->measure.bytes);
    client->measure = (RequestMeasure){ 0 };
    return REQUEST_WHOLE;
}

bool service_feed(Client *client, const void *data, size_t count)
{
    RequestState state = REQUEST_WHOLE;
    const size_t before = client->in.capacity;
    bytes_put(&client->in, data, count);
    while (state == REQUEST_WHOLE && client->in.count > 0)
        state = take_request(client);
    client->service->bytes += client->in.capacity - before;
    return state != REQUEST_NONSENSE && has_room(client, 0);
}

void service_forget(Client *client)
{
    wait_cancel(client);
    if (client->gone_key[0] != '\0')
        put(client, blob_of(client->gone_key), blob_of("1"), false);
    while (client->unread > 0)
        service_sent(client, service_reply(client).count);
    client->service->bytes -= client->in.capacity;
    bytes_free(&client->in);
}

void service_free(Service *service)
{
    for (Entry *entry; (entry = LIST_FIRST(&service->entries)) != NULL;) {
        for (; entry->queue_length > 0; entry->queue_length--)
            release_value(service, take_item(service, &entry->queue));
        if (!erase_value(service, entry))
            prune(service, entry);
    }
}
