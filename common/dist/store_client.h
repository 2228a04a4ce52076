/* store_client.h - one connection of a store, as its server sees it. */
#ifndef COMMON_DIST_STORE_CLIENT_H
#define COMMON_DIST_STORE_CLIENT_H

#include "common/dist/store_protocol.h"
#include "common/dist/store_table.h"

/* Its own part is all zero at first. */
typedef struct Client {
    Bytes in; // came, not yet acted on
    Bytes out; // replies, not yet sent
    RequestMeasure measure; // of the request at the front of `in`
    bool validated; // has sent the protocol's magic number
    bool overrun; // leaves more replies unread than we keep
    WaitList waits; // the keys that its WAIT or BARRIER still lacks
    bool woken; // is in the service's list of these
    LIST_ENTRY(Client) next_woken;
    Bytes watched_key; // the watched key that it has set, if any

    int fd; // this and the rest belong to the server
    bool wants_room; // epoll is to say when `out` can be sent on
    LIST_ENTRY(Client) next;
} Client;

/* Replies pile up in `out`, up to STORE_MAX_BUFFER; beyond that the client is overrun. */
void client_reply_u8(Client *client, uint8_t value);
void client_reply_u32(Client *client, uint32_t value);
void client_reply_i64(Client *client, int64_t value);
void client_reply_blob(Client *client, Blob blob);

#endif
