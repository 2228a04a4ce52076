/* store_server.h - serves a store from a thread of this process. */
#ifndef COMMON_DIST_STORE_SERVER_H
#define COMMON_DIST_STORE_SERVER_H

typedef struct StoreServer StoreServer;

/* Listens on the interface that host names (loopback for localhost) and *port (0: any free one, set
 * on return). NULL and errno if it cannot. Answers every operation of the protocol; closes
 * the connection of whoever sends nonsense or more than the protocol's limits, and goes on. Limits
 * of its own: 64 MiB in one request or in replies not read, 256 MiB in those of all clients, 1 GiB
 * stored; 64 connections that have not said VALIDATE; and 64 descriptors of the process stay free.
 * Beyond these the largest, the oldest, the newest client is hung up on. */
StoreServer *store_server_start(const char *host, int *port);

/* The same, but whoever sets a key that begins with `watched` is missed: when it hangs up, the
 * server sets that key with STORE_GONE behind. So the death of those is known who cannot tell of
 * it. */
StoreServer *store_server_start_watching(const char *host, int *port, const char *watched);

/* Ends the thread, closes all connections, frees everything. */
void store_server_stop(StoreServer *server);

#endif
