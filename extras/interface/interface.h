/* interface.h - the address of a network interface. */
#ifndef EXTRAS_INTERFACE_INTERFACE_H
#define EXTRAS_INTERFACE_INTERFACE_H

#include <stddef.h>

/* The numeric address of an interface ("eth0") of this machine, IPv4 if it has one. -1 and errno:
 * there is none (ENODEV: no such interface, or none that others could use). */
int interface_address(const char *interface, char *address, size_t bytes);

#endif
