/*
 * store_service.h - executes the requests of a store's clients. No sockets, no blocking.
 */
#ifndef COMMON_COMM_STORE_STORE_SERVICE_H
#define COMMON_COMM_STORE_STORE_SERVICE_H

#include "common/comm/store/store_table.h"

/* One connection to a store, on the server's side. All zero at first. */
typedef struct Client {
    Bytes in; // received, not yet executed
    Bytes out; // replies not yet sent, up to STORE_MAX_BUFFER
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

/* All zero is an empty one. */
typedef struct {
    Table table;
    LIST_HEAD(, Client) woken; // clients with a reply caused by another client
    const char *watched; // prefix of watched keys (store_server.h); or NULL
} Service;

/* Takes bytes from a client and executes all complete requests. False: disconnect it, it sends
 * nonsense or asks for too much. */
bool service_feed(Service *service, Client *client, const void *data, size_t count);

/* The next client in `woken`, whose reply must be sent; NULL: no more. */
Client *service_next_woken(Service *service);

/* Removes a disconnected client and frees what it held. If it had set a watched key, sets
 * KEY/gone. */
void service_forget(Service *service, Client *client);

#endif
