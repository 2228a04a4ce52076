/*
 * The operations of PyTorch's TCPStore that only PyTorch's clients send. Like those of the store
 * itself they run in one thread, one at a time; they return false to disconnect the client.
 */
#include "common/comm/store/store_service.h"

#include <errno.h>
#include <malloc.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

static Entry *find(const Client *client, Blob key)
{
    Entry **found = tfind(&key, &client->service->tree, blob_compare);
    return found == NULL ? NULL : *found;
}

/* Returns an empty Blob if there is none. */
static Blob value_of(const Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return blob_of("");
    Cursor at = entry->value->bytes;
    return take_blob(&at);
}

/* Sets the key to both parts, as SET does. */
static bool set_joined(Client *client, Blob key, Blob front, Blob back)
{
    Bytes pair = { 0 };
    bytes_put_blob(&pair, key);
    bytes_put_u64(&pair, front.count + back.count);
    bytes_put(&pair, front.data, front.count);
    bytes_put(&pair, back.data, back.count);
    Cursor at = pair.data;
    const bool keep = service_execute(client, STORE_SET, &at);
    bytes_free(&pair);
    return keep;
}

/* Appends. A value that no reply shares grows in place: appending little to much costs little. */
static bool append(Client *client, Cursor at)
{
    const Blob key = take_blob(&at), back = take_blob(&at);
    Entry *entry = find(client, key);
    const Blob front = value_of(entry);
    const uint64_t count = front.count + back.count;
    if (count > STORE_MAX_VALUE)
        return false;
    if (entry == NULL || entry->value == NULL || entry->value->users > 1 ||
        !TAILQ_EMPTY(&entry->waits))
        return set_joined(client, key, front, back);
    if (!service_has_room(client, back.count))
        return false;
    client->service->bytes -= malloc_usable_size(entry->value);
    Value *value = realloc(entry->value, sizeof *value + sizeof count + count + 1);
    CHECK(value != NULL, "out of memory: %zu bytes wanted", (size_t)count);
    client->service->bytes += malloc_usable_size(value);
    *value = (Value){ .users = 1, .size = sizeof count + count };
    memcpy(value->bytes, &count, sizeof count);
    memcpy(value->bytes + sizeof count + front.count, back.data, back.count);
    value->bytes[value->size] = '\0'; // for strtoll
    entry->value = value;
    return true;
}

/* Executes that many GETs or SETs. */
static bool repeat(Client *client, StoreOperation operation, Cursor *at)
{
    bool keep = true;
    for (uint64_t left = take_u64(at); keep && left > 0; left--)
        keep = service_execute(client, operation, at);
    return keep;
}

typedef struct {
    Client *client;
    bool keep;
} Listing;

/* Lists a key once, although twalk_r visits a node with children three times. */
static void list_key(const void *node, VISIT visit, void *argument)
{
    const Entry *entry = *(const Entry *const *)node;
    Listing *listing = argument;
    if (visit == preorder || visit == endorder || entry->value == NULL || !listing->keep)
        return;
    uint8_t blob[sizeof(uint64_t) + STORE_MAX_KEY];
    const uint64_t count = entry->key.count;
    memcpy(blob, &count, sizeof count);
    memcpy(blob + sizeof count, entry->key.data, count);
    listing->keep = service_reply_bytes(listing->client, blob, sizeof count + count);
}

static bool list_keys(Client *client)
{
    Listing listing = { client, REPLY(client, int64_t, client->service->num_values) };
    twalk_r(client->service->tree, list_key, &listing);
    return listing.keep;
}

/* Adds 1, as ADD does, and waits until the sum is the world size. */
static bool barrier(Client *client, Cursor at)
{
    const Blob key = take_blob(&at);
    const int64_t world_size = (int64_t)take_u64(&at);
    Entry *entry = service_enter(client, key);
    if (entry == NULL)
        return false;
    const char *digits = entry->value == NULL ? "0" : (const char *)value_of(entry).data;
    char *end = NULL, text[24];
    errno = 0;
    const long long old = strtoll(digits, &end, 10);
    if (errno != 0 || end == digits)
        return false;
    const int64_t sum = (int64_t)((uint64_t)old + 1); // unsigned: it may wrap around
    snprintf(text, sizeof text, "%lld", (long long)sum);
    if (sum >= world_size)
        return set_joined(client, key, blob_of(""), blob_of(text)) &&
               REPLY(client, uint8_t, STORE_STOP_WAITING);
    if (!service_write(client, entry, blob_of(text)))
        return false;
    service_wait_cancel(client); // the client waits even if the key is there, and wakes no other
    return service_wait_begin(client, entry);
}

bool torch_operation(Client *client, StoreOperation operation, Cursor *at)
{
    const Entry *entry;
    switch (operation) {
    case STORE_APPEND:
        return append(client, *at);
    case STORE_MULTI_GET:
        return repeat(client, STORE_GET, at);
    case STORE_MULTI_SET:
        return repeat(client, STORE_SET, at);
    case STORE_GETNUMKEYS:
        return REPLY(client, int64_t, client->service->num_values);
    case STORE_LIST_KEYS:
        return list_keys(client);
    case STORE_QUEUE_LEN:
        entry = find(client, take_blob(at));
        return REPLY(client, int64_t, entry == NULL ? 0 : entry->queue_length);
    case STORE_BARRIER:
        return barrier(client, *at);
    default:
        return false;
    }
}
