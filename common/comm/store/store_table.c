/*
 * A balanced tree (the C library's, <search.h>) rather than a hash table: keys come from outside,
 * and no choice of keys makes a tree slow. All memory is allocated and counted in one place, so
 * that a full table is an error of the client that fills it, not the end of this process. What
 * counts is what the memory costs: of many small keys, malloc and the tree take nearly half.
 */
#include "common/comm/store/store_service.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* What malloc takes for so many bytes (glibc's: 8 more, a multiple of 16, at least 32). */
static size_t cost(size_t bytes)
{
    const size_t taken = (bytes + 8 + 15) / 16 * 16;
    return bytes == 0 ? 0 : taken < 32 ? 32 : taken;
}

static size_t node_cost(void) // of the tree
{
    return cost(3 * sizeof(void *));
}

/* Is there room for `growth` more bytes, on behalf of the client whose request is executed? */
static bool has_room(const Table *table, size_t growth)
{
    const bool is_small = table->stored == NULL || *table->stored + growth <= STORE_SHARE;
    const size_t limit = STORE_MAX_TABLE - (is_small ? 0 : STORE_RESERVE);
    return growth == 0 || table->bytes + growth <= limit;
}

/* As realloc, and as free if new_bytes is 0. NULL, and nothing changes: the table is full. */
static void *table_realloc(Table *table, void *memory, size_t old_bytes, size_t new_bytes)
{
    const size_t old_cost = cost(old_bytes), new_cost = cost(new_bytes);
    const size_t growth = new_cost > old_cost ? new_cost - old_cost : 0;
    if (!has_room(table, growth))
        return NULL;
    void *moved = NULL;
    if (new_bytes == 0)
        free(memory);
    else if ((moved = realloc(memory, new_bytes)) == NULL)
        return NULL;
    table->bytes += new_cost - old_cost;
    if (table->stored != NULL)
        *table->stored += growth;
    return moved;
}

static int compare(const void *left, const void *right)
{
    const Blob *a = &((const Entry *)left)->key, *b = &((const Entry *)right)->key;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return a->count == 0 ? 0 : memcmp(a->data, b->data, a->count);
}

Entry *table_find(const Table *table, Blob key)
{
    const Entry wanted = { .key = key };
    Entry **found = tfind(&wanted, &table->tree, compare);
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

Entry *table_enter(Table *table, Blob key)
{
    Entry *entry = table_find(table, key);
    if (entry != NULL)
        return entry;
    entry = table_realloc(table, NULL, 0, sizeof *entry + key.count);
    if (entry == NULL)
        return NULL;
    *entry = (Entry){ .key = { (uint8_t *)(entry + 1), key.count } };
    memcpy(entry + 1, key.data, key.count);
    STAILQ_INIT(&entry->queue);
    TAILQ_INIT(&entry->waits);
    if (tsearch(entry, &table->tree, compare) == NULL) {
        table_realloc(table, entry, sizeof *entry + key.count, 0);
        return NULL;
    }
    table->bytes += node_cost();
    LIST_INSERT_HEAD(&table->entries, entry, next);
    return entry;
}

void table_prune(Table *table, Entry *entry)
{
    if (entry_is_present(entry) || !TAILQ_EMPTY(&entry->waits))
        return;
    tdelete(entry, &table->tree, compare);
    LIST_REMOVE(entry, next);
    table->bytes -= node_cost();
    table_realloc(table, entry, sizeof *entry + entry->key.count, 0);
}

static size_t value_bytes(size_t count)
{
    return sizeof(Value) + count + 1; // a zero byte behind it, so that strtoll stops there
}

/* It is no longer the entry's: frees it, unless a reply has it. */
static void value_remove(Table *table, Value *value)
{
    const size_t bytes = value_bytes(value->count);
    value->is_stored = false;
    if (value->readers == 0) {
        table_realloc(table, value, bytes, 0);
        return;
    }
    table->bytes -= cost(bytes);
    table->kept_bytes += cost(bytes);
}

void value_stop_reading(Table *table, Value *value)
{
    value->readers--;
    if (value->readers > 0 || value->is_stored)
        return;
    table->kept_bytes -= cost(value_bytes(value->count));
    free(value);
}

bool entry_write(Table *table, Entry *entry, size_t offset, Blob blob)
{
    Value *old = entry->value, *value = NULL;
    const size_t count = offset + blob.count;
    const bool is_new = old == NULL || old->readers > 0; // what is being read stays as it is
    if (count <= STORE_MAX_VALUE)
        value = table_realloc(table, is_new ? NULL : old, is_new ? 0 : value_bytes(old->count),
                              value_bytes(count));
    if (value == NULL)
        return false;
    if (is_new)
        *value = (Value){ .is_stored = true };
    if (is_new && old != NULL) {
        memcpy(value->bytes, old->bytes, offset);
        value_remove(table, old);
    }
    memcpy(value->bytes + offset, blob.data, blob.count);
    value->bytes[count] = '\0';
    value->count = count;
    table->num_values += entry->value == NULL;
    entry->value = value;
    return true;
}

void entry_erase(Table *table, Entry *entry)
{
    value_remove(table, entry->value);
    entry->value = NULL;
    table->num_values--;
}

bool entry_push(Table *table, Entry *entry, Blob blob)
{
    Item *item = table_realloc(table, NULL, 0, sizeof *item + blob.count);
    if (item == NULL)
        return false;
    *item = (Item){ .blob = { (uint8_t *)(item + 1), blob.count } };
    memcpy(item + 1, blob.data, blob.count);
    STAILQ_INSERT_TAIL(&entry->queue, item, next);
    entry->queue_length++;
    return true;
}

void entry_pop(Table *table, Entry *entry)
{
    Item *item = STAILQ_FIRST(&entry->queue);
    STAILQ_REMOVE_HEAD(&entry->queue, next);
    entry->queue_length--;
    table_realloc(table, item, sizeof *item + item->blob.count, 0);
}

bool entry_wait(Table *table, Entry *entry, struct Client *client, WaitList *waits)
{
    Wait *wait = table_realloc(table, NULL, 0, sizeof *wait);
    if (wait == NULL)
        return false;
    *wait = (Wait){ .entry = entry, .client = client };
    TAILQ_INSERT_TAIL(&entry->waits, wait, of_entry);
    LIST_INSERT_HEAD(waits, wait, of_client);
    return true;
}

void entry_stop_waiting(Table *table, Wait *wait)
{
    TAILQ_REMOVE(&wait->entry->waits, wait, of_entry);
    LIST_REMOVE(wait, of_client);
    table_realloc(table, wait, sizeof *wait, 0);
}

void table_free(Table *table)
{
    Entry *entry;
    while ((entry = LIST_FIRST(&table->entries)) != NULL) {
        while (entry->queue_length > 0)
            entry_pop(table, entry);
        if (entry->value != NULL)
            entry_erase(table, entry);
        table_prune(table, entry);
    }
}
