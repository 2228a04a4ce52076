/* Replies to a client, buffered until its socket accepts them. */
#include "common/comm/store/store_client.h"

static bool has_room(Client *client, size_t count)
{
    if (bytes_count(&client->out) + count > STORE_MAX_BUFFER)
        client->overrun = true;
    return !client->overrun;
}

void client_reply_u8(Client *client, uint8_t value)
{
    if (has_room(client, sizeof value))
        bytes_put_u8(&client->out, value);
}

void client_reply_u32(Client *client, uint32_t value)
{
    if (has_room(client, sizeof value))
        bytes_put_u32(&client->out, value);
}

void client_reply_i64(Client *client, int64_t value)
{
    if (has_room(client, sizeof value))
        bytes_put_u64(&client->out, (uint64_t)value);
}

void client_reply_blob(Client *client, Blob blob)
{
    if (has_room(client, sizeof(uint64_t) + blob.count))
        bytes_put_blob(&client->out, blob);
}
