/* host.h - what this machine offers. */
#ifndef COMMON_BASE_HOST_H
#define COMMON_BASE_HOST_H

#include <stddef.h>

/* The cores this process may use: its affinity mask, cut to the CPU quota of its control group. */
int host_num_cores(void);

/* The numbers of the cores in the mask, as in "0-3,8", as far as `bytes` reach. Returns text. */
char *host_cores(char *text, size_t bytes);

#endif
