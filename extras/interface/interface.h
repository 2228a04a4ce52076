/* interface.h - the address of a network interface. */
#ifndef EXTRAS_INTERFACE_INTERFACE_H
#define EXTRAS_INTERFACE_INTERFACE_H

#include <stddef.h>

/* Returns the numeric address of an interface ("eth0") of this machine, IPv4 if it has one, in
 * `address`. -1 and errno if none (ENODEV: no such interface, or no address others could use). */
int interface_address(const char *interface, char *address, size_t bytes);

#endif
