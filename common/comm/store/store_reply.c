/*
 * Replies, until the client's socket accepts them. A large value is not copied: the reply borrows
 * it from the table, so that many replies with the same values cost neither time nor memory when
 * they are asked for. If the value is replaced meanwhile, the reply still has the old one.
 */
#include "common/comm/store/store_service.h"

#include <stdlib.h>

#include "common/base/memory.h"

#define BORROWED_BYTES 16384 // of a value: a smaller one is copied

/* A value in the middle of the replies. */
struct Borrowed {
    STAILQ_ENTRY(Borrowed) next;
    Value *value;
    size_t sent; // bytes of it
    size_t position; // it follows so many bytes of `out`, counted from the first one ever
};

/* Is there room for so many bytes more? */
static bool fits(Client *client, size_t count)
{
    const size_t left = bytes_count(&client->out) + client->borrowed_bytes;
    client->overrun |= left + count > STORE_MAX_BUFFER;
    return !client->overrun;
}

void reply_bytes(Client *client, const void *data, size_t count)
{
    if (fits(client, count))
        bytes_put(&client->out, data, count);
}

void reply_u8(Client *client, uint8_t value)
{
    reply_bytes(client, &value, sizeof value);
}

void reply_i64(Client *client, int64_t value)
{
    reply_bytes(client, &value, sizeof value);
}

void reply_blob(Client *client, Blob blob)
{
    reply_i64(client, (int64_t)blob.count);
    reply_bytes(client, blob.data, blob.count);
}

void reply_value(Client *client, const Entry *entry)
{
    const Blob blob = entry_value(entry);
    if (blob.count < BORROWED_BYTES) {
        reply_blob(client, blob);
        return;
    }
    reply_i64(client, (int64_t)blob.count);
    if (!fits(client, blob.count))
        return;
    struct Borrowed *borrowed = mem_calloc(1, sizeof *borrowed);
    borrowed->value = entry->value;
    borrowed->value->readers++;
    borrowed->position = client->out_sent + bytes_count(&client->out);
    if (STAILQ_EMPTY(&client->borrowed))
        STAILQ_INIT(&client->borrowed); // a client begins as zeros
    STAILQ_INSERT_TAIL(&client->borrowed, borrowed, next);
    client->borrowed_bytes += blob.count;
}

Blob reply_front(const Client *client)
{
    const struct Borrowed *first = STAILQ_FIRST(&client->borrowed);
    if (first == NULL)
        return (Blob){ bytes_front(&client->out), bytes_count(&client->out) };
    if (first->position > client->out_sent)
        return (Blob){ bytes_front(&client->out), first->position - client->out_sent };
    return (Blob){ (const uint8_t *)first->value->bytes + first->sent,
                   first->value->count - first->sent };
}

static void stop_borrowing(Table *table, Client *client)
{
    struct Borrowed *first = STAILQ_FIRST(&client->borrowed);
    STAILQ_REMOVE_HEAD(&client->borrowed, next);
    value_stop_reading(table, first->value);
    free(first);
}

void reply_drop(Table *table, Client *client, size_t count)
{
    struct Borrowed *first = STAILQ_FIRST(&client->borrowed);
    if (first == NULL || first->position > client->out_sent) {
        bytes_drop(&client->out, count);
        client->out_sent += count;
        return;
    }
    first->sent += count;
    client->borrowed_bytes -= count;
    if (first->sent == first->value->count)
        stop_borrowing(table, client);
}

size_t reply_kept_bytes(const Client *client)
{
    size_t bytes = 0;
    const struct Borrowed *borrowed;
    STAILQ_FOREACH(borrowed, &client->borrowed, next)
    {
        if (!borrowed->value->is_stored)
            bytes += borrowed->value->count;
    }
    return bytes;
}

void reply_free(Table *table, Client *client)
{
    while (!STAILQ_EMPTY(&client->borrowed))
        stop_borrowing(table, client);
    bytes_free(&client->out);
}
