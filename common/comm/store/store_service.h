/* store_service.h - executes the requests of a store's clients. No sockets, no blocking. */
#ifndef COMMON_COMM_STORE_STORE_SERVICE_H
#define COMMON_COMM_STORE_STORE_SERVICE_H

#include "common/comm/store/store_wait.h"

/* All zero is an empty one. */
typedef struct {
    Table table;
    WokenList woken; // clients with a reply caused by another client
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
