/* net.h - TCP connections: every wait has a deadline, every byte asked for arrives or an error. */
#ifndef COMMON_DIST_NET_H
#define COMMON_DIST_NET_H

#include <stdbool.h>
#include <stddef.h>

/* Deadlines are times of seconds_now(). Nothing here dies: -1 and errno (ETIMEDOUT after the
 * deadline, ECONNRESET for a closed connection), since who failed is the caller's to tell. */

/* Listens on port (0: any free one) of the interface host names; where host is not an address of
 * this machine, or empty, on all of them. So too if it is a name that stands for loopback here but
 * hardly elsewhere, as many machines have it for their own. Sets *port. */
int net_listen(const char *host, int *port);
int net_accept(int listen_fd, double deadline);

/* Connects, again and again until the deadline: the other side may not be up yet, nor its name
 * known (which is said on standard error at once, since mostly the name is wrong). In the end errno
 * is what the last attempt failed of: ECONNREFUSED (nobody listens there), ENXIO (no such name),
 * ETIMEDOUT (no answer). */
int net_connect(const char *host, int port, double deadline);

int net_send(int fd, const void *data, size_t bytes, double deadline);
int net_recv(int fd, void *data, size_t bytes, double deadline);

/* An errno of these calls in words. */
const char *net_reason(int error);

/* The same for net_listen: where the port is in use, with the process that has it, as far as /proc
 * lets us see: "Address already in use by python3 (pid 4711)". */
#define NET_REASON_BYTES 256
const char *net_listen_reason(int error, int port, char text[NET_REASON_BYTES]);

/* Does a host's name or address mean the asking machine itself, on every machine? */
bool net_is_loopback(const char *host);

/* Is this the name or an address of this machine? */
bool net_is_here(const char *host);

/* The numeric address this end of a connection has: where others may reach this machine. */
int net_local_address(int fd, char *address, size_t bytes);

/* The numeric address of a network interface ("eth0") of this machine, IPv4 if it has one. ENODEV:
 * there is no such interface, or it has no address that others could use. */
int net_interface_address(const char *interface, char *address, size_t bytes);

#endif
