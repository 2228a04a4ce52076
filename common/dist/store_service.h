/* store_service.h - acts on what clients of a store ask for. Knows no sockets and never waits. */
#ifndef COMMON_DIST_STORE_SERVICE_H
#define COMMON_DIST_STORE_SERVICE_H

#include "common/dist/store_wait.h"

/* All zero is an empty one. */
typedef struct {
    Table table;
    WokenList woken; // got a reply because of what another client did
    const char *watched; // what the keys begin with whose setters are missed; or NULL
} Service;

/* Takes bytes a client has sent and acts on all requests that are whole by now. False: hang up, it
 * talks nonsense or asks for too much. */
bool service_feed(Service *service, Client *client, const void *data, size_t count);

/* A client whose reply is to be sent although it was not its turn; NULL: no more. */
Client *service_next_woken(Service *service);

/* Forgets a client that has gone, and frees what it held. If it is missed, STORE_GONE is set. */
void service_forget(Service *service, Client *client);

#endif
