/* The table and the operations on it. Their arguments are complete and checked, and they run in one
 * thread, one request at a time, which makes ADD and COMPARE_SET atomic. Where PyTorch's two
 * servers differ, this follows the newer one (libuv). The table is the C library's balanced tree
 * (<search.h>): keys come from outside, and no choice of keys makes a tree slow. */
#include "common/comm/store/store_service.h"

#include <errno.h>
#include <malloc.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

enum { MALLOC_BYTES = 8, NODE_BYTES = 32 }; // what malloc adds to a block, the tree to an entry

/* Counts the overhead, too, since it is nearly half of many small keys. */
static void *allocate(Service *service, size_t bytes)
{
    void *memory = malloc(bytes);
    CHECK(memory != NULL, "out of memory: %zu bytes wanted", bytes);
    service->bytes += malloc_usable_size(memory) + MALLOC_BYTES;
    return memory;
}

static void release(Service *service, void *memory)
{
    service->bytes -= malloc_usable_size(memory) + MALLOC_BYTES;
    free(memory);
}

bool service_has_room(Client *client, size_t growth)
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

Entry *service_enter(Client *client, Blob key)
{
    Service *service = client->service;
    Entry *entry = find(service, key);
    const size_t bytes = sizeof *entry + key.count;
    if (entry != NULL || !service_has_room(client, bytes + NODE_BYTES))
        return entry;
    entry = allocate(service, bytes);
    *entry = (Entry){ .key = { (uint8_t *)(entry + 1), key.count } };
    memcpy(entry + 1, key.data, key.count);
    TAILQ_INIT(&entry->waits);
    CHECK(tsearch(entry, &service->tree, blob_compare) != NULL, "out of memory: a key wanted");
    service->bytes += NODE_BYTES;
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
    service->bytes -= NODE_BYTES;
    release(service, entry);
}

/* Returns an empty blob if there is no value. */
static Blob value_of(const Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return blob_of("");
    Cursor at = entry->value->bytes;
    return take_blob(&at);
}

static void release_value(Service *service, Value *value)
{
    if (value != NULL && --value->users == 0)
        release(service, value);
}

static Value *value_of_blob(Service *service, Blob blob)
{
    const uint64_t count = blob.count;
    Value *value = allocate(service, sizeof *value + sizeof count + count + 1);
    *value = (Value){ .users = 1, .size = sizeof count + count };
    memcpy(value->bytes, &count, sizeof count);
    memcpy(value->bytes + sizeof count, blob.data, count);
    value->bytes[value->size] = '\0'; // for strtoll
    return value;
}

bool service_write(Client *client, Entry *entry, Blob blob)
{
    Value *old = entry->value;
    const size_t reused = old != NULL && old->users == 1 ? value_of(entry).count : 0;
    if (!service_has_room(client, blob.count > reused ? blob.count - reused : 0))
        return false;
    release_value(client->service, old);
    entry->value = value_of_blob(client->service, blob);
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
    Item *item = allocate(service, sizeof *item);
    item->value = value;
    if (STAILQ_EMPTY(items))
        STAILQ_INIT(items); // it began as zeros
    STAILQ_INSERT_TAIL(items, item, next);
}

/* Takes the first item, which must exist; the caller releases the value. */
static Value *take_item(Service *service, Items *items)
{
    Item *first = STAILQ_FIRST(items);
    Value *value = first->value;
    STAILQ_REMOVE_HEAD(items, next);
    release(service, first);
    return value;
}

/* ---- replies, which return false if the client has too much unread ---- */

/* Takes over one use of the value. A reply shares a stored value with its entry, so many large
 * replies cost neither time nor memory when they are asked for. If the entry gets another value
 * before this one is sent, the reply still has the old one. */
static bool reply_value(Client *client, Value *value)
{
    put_item(client->service, &client->replies, value);
    if (client->unread == 0)
        LIST_INSERT_HEAD(&client->service->unread, client, of_unread);
    client->unread += sizeof(Item) + sizeof *value + value->size;
    return client->unread <= STORE_MAX_BUFFER;
}

bool service_reply_bytes(Client *client, const void *data, size_t count)
{
    Value *value = allocate(client->service, sizeof *value + count);
    *value = (Value){ .users = 1, .size = count };
    memcpy(value->bytes, data, count);
    return reply_value(client, value);
}

/* Replies with the key's value, or with `otherwise` if the key is absent. */
static bool reply_key(Client *client, Blob key, Blob otherwise)
{
    const Entry *entry = find(client->service, key);
    if (entry == NULL || entry->value == NULL)
        return reply_value(client, value_of_blob(client->service, otherwise));
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
    if (client->unread == 0)
        LIST_REMOVE(client, of_unread);
    release_value(client->service, value);
}

/* ---- waiting ---- */

bool service_wait_begin(Client *client, Entry *entry)
{
    if (!service_has_room(client, sizeof(Wait)))
        return false;
    Wait *wait = allocate(client->service, sizeof *wait);
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
    release(service, wait);
    prune(service, entry);
}

/* WAIT is what makes a table a rendezvous: a rank asks for a key that another rank will set. A
 * waiting client has a Wait at every absent key, and gets its reply when the last one is removed. A
 * key that was set counts as seen, even if it is deleted before the others are set. */
void service_wait_cancel(Client *client)
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
            service_wait_cancel(client); // a connection has one WAIT: this replaces it
        waits = true;
        Entry *entry = service_enter(client, key);
        if (entry == NULL || !service_wait_begin(client, entry))
            return false;
    }
    return waits || REPLY(client, uint8_t, STORE_STOP_WAITING);
}

/* Replies, once the key is set, to the clients that lacked only this key. An element of a queue
 * (only_one) wakes only the client that has waited longest. Returns true. */
static bool wait_end(Service *service, Entry *entry, bool only_one)
{
    for (Wait *wait; (wait = TAILQ_FIRST(&entry->waits)) != NULL;) {
        Client *client = wait->client;
        wait_remove(service, wait);
        if (!LIST_EMPTY(&client->waits))
            continue;
        REPLY(client, uint8_t, STORE_STOP_WAITING);
        if (only_one)
            break;
    }
    return true;
}

/* ---- the operations, which return false if the client must be disconnected ---- */

/* Sets a key. Also remembers the first watched key that a client sets. */
static bool put(Client *client, Blob key, Blob value)
{
    const char *watched = client->service->watched;
    if (watched != NULL && client->gone_key[0] == '\0' && key.count >= strlen(watched) &&
        memcmp(key.data, watched, strlen(watched)) == 0 &&
        key.count + sizeof STORE_GONE <= sizeof client->gone_key)
        sprintf(client->gone_key, "%.*s" STORE_GONE, (int)key.count, (const char *)key.data);
    Entry *entry = service_enter(client, key);
    return entry != NULL && service_write(client, entry, value) &&
           wait_end(client->service, entry, false);
}

static bool compare_set(Client *client, Cursor at)
{
    const Blob key = take_blob(&at), expected = take_blob(&at), desired = take_blob(&at);
    const Blob value = value_of(find(client->service, key));
    if (blob_compare(&value, &expected) == 0)
        return put(client, key, desired) && reply_key(client, key, desired);
    // A reply of "expected" does not show whether the key exists, as the protocol has it.
    return reply_key(client, key, expected);
}

/* Adds to a number, and stores the sum as decimal text. */
static bool add(Client *client, Cursor at)
{
    Entry *entry = service_enter(client, take_blob(&at));
    if (entry == NULL)
        return false;
    const char *digits = entry->value == NULL ? "0" : (const char *)value_of(entry).data;
    char *end = NULL, text[24];
    errno = 0;
    const long long old = strtoll(digits, &end, 10);
    if (errno != 0 || end == digits)
        return false;
    const int64_t sum = (int64_t)((uint64_t)old + take_u64(&at)); // unsigned: it may wrap around
    snprintf(text, sizeof text, "%lld", (long long)sum);
    return service_write(client, entry, blob_of(text)) && REPLY(client, int64_t, sum) &&
           wait_end(client->service, entry, false);
}

static bool check(Client *client, Cursor at)
{
    const Blob has_secret = blob_of(STORE_HAS_SECRET);
    bool all = true;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        all &= is_present(find(client->service, key)) ||
               (client->service->reports_secret && blob_compare(&key, &has_secret) == 0);
    }
    return REPLY(client, uint8_t, all ? STORE_READY : STORE_NOT_READY);
}

/* Adds an element, which is for one client, so it wakes only one; a value may be read by all. */
static bool queue_push(Client *client, Cursor at)
{
    Entry *entry = service_enter(client, take_blob(&at));
    const Blob blob = take_blob(&at);
    if (entry == NULL || !service_has_room(client, sizeof(Item) + sizeof(Value) + blob.count))
        return false;
    put_item(client->service, &entry->queue, value_of_blob(client->service, blob));
    entry->queue_length++;
    return wait_end(client->service, entry, true);
}

/* Replies with the length, then with the first element if there is one. */
static bool queue_pop(Client *client, Entry *entry)
{
    if (entry == NULL || entry->queue_length == 0)
        return REPLY(client, int64_t, 0);
    if (!REPLY(client, int64_t, entry->queue_length))
        return false;
    Value *value = take_item(client->service, &entry->queue);
    entry->queue_length--;
    prune(client->service, entry);
    return reply_value(client, value);
}

bool service_execute(Client *client, StoreOperation operation, Cursor *at)
{
    Service *service = client->service;
    switch (operation) {
    case STORE_VALIDATE:
        client->validated = memcmp(*at, &(uint32_t){ STORE_MAGIC }, sizeof(uint32_t)) == 0;
        return client->validated;
    case STORE_PING:
        return service_reply_bytes(client, *at, sizeof(uint32_t));
    case STORE_GET:
        return reply_key(client, take_blob(at), blob_of(""));
    case STORE_SET: {
        const Blob key = take_blob(at);
        return put(client, key, take_blob(at));
    }
    case STORE_COMPARE_SET:
        return compare_set(client, *at);
    case STORE_ADD:
        return add(client, *at);
    case STORE_CHECK:
        return check(client, *at);
    case STORE_WAIT:
        return wait_for_keys(client, *at);
    case STORE_CANCEL_WAIT:
        service_wait_cancel(client);
        return REPLY(client, uint8_t, STORE_WAIT_CANCELED);
    case STORE_DELETE_KEY:
        return REPLY(client, int64_t, erase_value(service, find(service, take_blob(at))));
    case STORE_QUEUE_PUSH:
        return queue_push(client, *at);
    case STORE_QUEUE_POP:
        return queue_pop(client, find(service, take_blob(at)));
    default:
        return torch_operation(client, operation, at);
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
    if (!service_execute(client, request[0], &at))
        return REQUEST_NONSENSE;
    client->proven |= request[0] != STORE_VALIDATE && request[0] != STORE_PING &&
                      !client->service->reports_secret; // if it does, only the secret proves
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
    return state != REQUEST_NONSENSE && service_has_room(client, 0);
}

void service_remove(Client *client)
{
    service_wait_cancel(client);
    if (client->gone_key[0] != '\0')
        put(client, blob_of(client->gone_key), blob_of("1"));
    while (client->unread > 0)
        service_sent(client, service_reply(client).count);
    client->service->bytes -= client->in.capacity;
    bytes_free(&client->in);
}

void service_free(Service *service)
{
    while (service->tree != NULL) {
        Entry *entry = *(Entry **)service->tree; // a node begins with its entry
        for (; entry->queue_length > 0; entry->queue_length--)
            release_value(service, take_item(service, &entry->queue));
        if (!erase_value(service, entry))
            prune(service, entry);
    }
}
