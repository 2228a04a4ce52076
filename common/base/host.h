/* host.h - what this machine offers. */
#ifndef COMMON_BASE_HOST_H
#define COMMON_BASE_HOST_H

/* The cores this process may use: its affinity mask, cut to the CPU quota of its control group. */
int host_num_cores(void);

#endif
