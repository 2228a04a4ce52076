/* store_server.h - serves a store from a thread of this process. */
#ifndef COMMON_COMM_STORE_STORE_SERVER_H
#define COMMON_COMM_STORE_STORE_SERVER_H

typedef struct StoreServer StoreServer;

/* Listens on the interface that host names (loopback for localhost) and *port (0: any free one, set
 * on return). NULL and errno if it cannot. Answers every operation of the protocol; disconnects a
 * client that sends nonsense or exceeds the protocol's limits, and goes on. Limits of its own: 64
 * MiB in one request or in unread replies, 256 MiB of memory for those of all clients, 1 GiB
 * stored; 64 connections without VALIDATE; and 64 descriptors of the process stay free. Beyond
 * these the largest, the oldest, the newest client is disconnected.
 *
 * When a client that has set a key beginning with `watched` (NULL: none) disconnects, the server
 * sets KEY/gone. That is how a launcher killed by SIGKILL is noticed. */
StoreServer *store_server_start(const char *host, int *port, const char *watched);

/* Ends the thread, closes all connections, frees everything. */
void store_server_stop(StoreServer *server);

#endif
