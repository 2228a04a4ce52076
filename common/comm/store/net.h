/* net.h - TCP connections: every wait has a deadline, every call moves all its bytes or fails. */
#ifndef COMMON_COMM_STORE_NET_H
#define COMMON_COMM_STORE_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/signals.h"

/* Deadlines are times of seconds_awake(); looking up a name takes as long as the system's resolver
 * takes (man resolv.conf), for which C has no deadline. Functions return -1 and errno: ETIMEDOUT
 * after the deadline, ECONNRESET for a closed connection. */

/* Listens on port (0: any free one) of the interface host names; on all of them if host is empty or
 * not an address of this machine, or a name that resolves to loopback only here, as a machine's own
 * name often does. Sets *port. */
int net_listen(const char *host, int *port);
int net_accept(int listen_fd, double deadline);

/* Returns a port of localhost that is free now; another process may take it before it is listened
 * on. Dies if there is none. */
int net_free_port(void);

/* Connects, retrying until the deadline: the other side may not be up yet, or its name not known
 * (which is logged at once, since the name is usually wrong). errno is the last attempt's:
 * ECONNREFUSED (no process listens there), ENXIO (no such name), ETIMEDOUT (no answer). */
int net_connect(const char *host, int port, double deadline);

int net_send(int fd, const void *data, size_t bytes, double deadline);
int net_recv(int fd, void *data, size_t bytes, double deadline);

/* Returns an errno of these calls as text. */
const char *net_reason(int error);

/* Returns that for net_listen. A port in use is shown with the process that has it, if /proc shows
 * that: "Address already in use by python3 (pid 4711)". */
#define NET_REASON_BYTES 256
const char *net_listen_reason(int error, int port, char text[NET_REASON_BYTES]);

/* Copies a host's name or address without the brackets that an IPv6 address has before a port; all
 * functions here also accept it with them. Returns false if it is too long, or cannot be a host. */
bool net_copy_host(char *to, size_t bytes, const char *host, size_t length);

/* Returns whether a host name or address means the local machine on every machine. */
bool net_is_loopback(const char *host);

#define NET_SPARE_DESCRIPTORS 64 // descriptors for other needs: files, the store, a GPU

/* Raises the limit of open files and connections, which many systems begin at 1,024, to the highest
 * that they grant, and returns it. net_reserve_descriptors dies if that is less than `count`, which
 * num_ranks ranks need, before a connection fails with what looks like a network problem. */
long net_raise_descriptors(void);
void net_reserve_descriptors(long count, int num_ranks);

#endif
