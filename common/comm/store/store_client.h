/* store_client.h - one connection to a store, on the server's side. */
#ifndef COMMON_COMM_STORE_STORE_CLIENT_H
#define COMMON_COMM_STORE_STORE_CLIENT_H

#include "common/comm/store/store_protocol.h"
#include "common/comm/store/store_table.h"

/* All zero at first. */
typedef struct Client {
    Bytes in; // received, not yet executed
    Bytes out; // replies not yet sent
    RequestMeasure measure; // of the request at the front of `in`
    bool validated; // has sent the protocol's magic number
    bool overrun; // has more unread replies than we buffer
    WaitList waits; // for the keys that its WAIT or BARRIER still lacks
    bool woken; // is in the service's list `woken`
    LIST_ENTRY(Client) next_woken;
    Bytes watched_key; // the watched key that it has set, if any

    int fd; // from here on: the server's
    bool wants_room; // waiting for EPOLLOUT to send `out`
    size_t buffered; // bytes of memory that both queues have, as the server has counted them
    LIST_ENTRY(Client) next;
} Client;

/* Replies pile up in `out`, up to STORE_MAX_BUFFER; beyond that the client is overrun. */
void client_reply_u8(Client *client, uint8_t value);
void client_reply_u32(Client *client, uint32_t value);
void client_reply_i64(Client *client, int64_t value);
void client_reply_blob(Client *client, Blob blob);

#endif
