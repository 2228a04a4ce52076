/*
 * A balanced tree (the C library's, <search.h>) rather than a hash table: keys come from outside,
 * and no choice of keys makes a tree slow. All memory is allocated in one place and counted with
 * its overhead: with many small keys, malloc and the tree take nearly half of it.
 */
#include "common/comm/store/store_service.h"

#include <malloc.h>
#include <search.h>
#include <stdlib.h>

#include "common/base/log.h"

enum { MALLOC_BYTES = 8, NODE_BYTES = 32 }; // what malloc adds to a block, the tree to an entry

static size_t cost(void *memory)
{
    return memory == NULL ? 0 : malloc_usable_size(memory) + MALLOC_BYTES;
}

static void *resize(Service *service, void *memory, size_t bytes)
{
    service->bytes -= cost(memory);
    memory = realloc(memory, bytes);
    CHECK(memory != NULL, "out of memory: %zu bytes wanted", bytes);
    service->bytes += cost(memory);
    return memory;
}

static void release(Service *service, void *memory)
{
    service->bytes -= cost(memory);
    free(memory);
}

bool table_has_room(const Client *client, size_t growth)
{
    const bool is_small = client->stored + client->unread + client->in_bytes <= STORE_SHARE;
    return client->service->bytes + growth + (is_small ? 0 : STORE_RESERVE) <= STORE_MAX_MEMORY;
}

/* May the client store this many more bytes? */
static bool may_store(Client *client, size_t growth)
{
    client->stored += growth;
    return growth == 0 || table_has_room(client, growth + STORE_RESERVE);
}

/* ---- entries ---- */

static int compare(const void *left, const void *right)
{
    const Blob *a = &((const Entry *)left)->key, *b = &((const Entry *)right)->key;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return a->count == 0 ? 0 : memcmp(a->data, b->data, a->count);
}

Entry *table_find(const Service *service, Blob key)
{
    const Entry wanted = { .key = key };
    Entry **found = tfind(&wanted, &service->tree, compare);
    return found == NULL ? NULL : *found;
}

bool entry_is_present(const Entry *entry)
{
    return entry != NULL && (entry->value != NULL || entry->queue_length > 0);
}

Blob entry_value(const Entry *entry)
{
    if (entry == NULL || entry->value == NULL)
        return (Blob){ (const uint8_t *)"", 0 };
    return (Blob){ (const uint8_t *)entry->value->bytes, entry->value->count };
}

Entry *table_enter(Client *client, Blob key)
{
    Service *service = client->service;
    Entry *entry = table_find(service, key);
    const size_t bytes = sizeof *entry + key.count;
    if (entry != NULL || !may_store(client, bytes + NODE_BYTES + sizeof(Value)))
        return entry;
    entry = resize(service, NULL, bytes);
    *entry = (Entry){ .key = { (uint8_t *)(entry + 1), key.count } };
    memcpy(entry + 1, key.data, key.count);
    STAILQ_INIT(&entry->queue);
    TAILQ_INIT(&entry->waits);
    CHECK(tsearch(entry, &service->tree, compare) != NULL, "out of memory: a key wanted");
    service->bytes += NODE_BYTES;
    LIST_INSERT_HEAD(&service->entries, entry, next);
    return entry;
}

void table_prune(Service *service, Entry *entry)
{
    if (entry_is_present(entry) || !TAILQ_EMPTY(&entry->waits))
        return;
    tdelete(entry, &service->tree, compare);
    LIST_REMOVE(entry, next);
    service->bytes -= NODE_BYTES;
    release(service, entry);
}

/* ---- values, queues and waits ---- */

/* In the memory of old, whose first `kept` bytes stay, if old is not NULL. */
static Value *value_extend(Service *service, Value *old, size_t kept, Blob blob)
{
    Value *value = resize(service, old, sizeof *value + kept + blob.count + 1);
    memcpy(value->bytes + kept, blob.data, blob.count);
    value->count = kept + blob.count;
    value->bytes[value->count] = '\0'; // for strtoll
    value->users = 1;
    return value;
}

Value *value_new(Service *service, Blob blob)
{
    return value_extend(service, NULL, 0, blob);
}

void value_release(Service *service, Value *value)
{
    if (--value->users == 0)
        release(service, value);
}

bool entry_write(Client *client, Entry *entry, Blob blob, bool append)
{
    Value *old = entry->value;
    const bool is_shared = old != NULL && old->users > 1; // a reply has it: it stays as it is
    const size_t had = is_shared ? 0 : entry_value(entry).count;
    const size_t kept = append ? entry_value(entry).count : 0, count = kept + blob.count;
    if (count > STORE_MAX_VALUE || !may_store(client, count > had ? count - had : 0))
        return false;
    if (is_shared) {
        entry->value = value_new(client->service, (Blob){ (const uint8_t *)old->bytes, kept });
        value_release(client->service, old);
    }
    entry->value = value_extend(client->service, entry->value, kept, blob);
    client->service->num_values += old == NULL;
    return true;
}

void entry_erase(Service *service, Entry *entry)
{
    if (entry->value == NULL)
        return;
    value_release(service, entry->value);
    entry->value = NULL;
    service->num_values--;
}

bool entry_push(Client *client, Entry *entry, Blob blob)
{
    if (!may_store(client, sizeof(Value) + blob.count))
        return false;
    Value *value = value_new(client->service, blob);
    STAILQ_INSERT_TAIL(&entry->queue, value, next);
    entry->queue_length++;
    return true;
}

Value *entry_pop(Entry *entry)
{
    Value *value = STAILQ_FIRST(&entry->queue);
    STAILQ_REMOVE_HEAD(&entry->queue, next);
    entry->queue_length--;
    return value;
}

bool entry_wait(Client *client, Entry *entry)
{
    if (!may_store(client, sizeof(Wait)))
        return false;
    Wait *wait = resize(client->service, NULL, sizeof *wait);
    *wait = (Wait){ .entry = entry, .client = client };
    TAILQ_INSERT_TAIL(&entry->waits, wait, of_entry);
    LIST_INSERT_HEAD(&client->waits, wait, of_client);
    return true;
}

void entry_stop_waiting(Service *service, Wait *wait)
{
    TAILQ_REMOVE(&wait->entry->waits, wait, of_entry);
    LIST_REMOVE(wait, of_client);
    release(service, wait);
}

void service_free(Service *service)
{
    for (Entry *entry; (entry = LIST_FIRST(&service->entries)) != NULL;) {
        while (entry->queue_length > 0)
            value_release(service, entry_pop(entry));
        entry_erase(service, entry);
        table_prune(service, entry);
    }
}
