/*
 * usage.h - counts the bytes that a rank holds and sends while it trains, for docs/zero.md.
 *
 * A table that counts wraps the device's table, so every array of the model, its optimizer and its
 * activations is counted, whichever function allocates it.
 */
#ifndef BEYOND_USAGE_H
#define BEYOND_USAGE_H

#include "common/comm/process_group.h"
#include "common/nn/device.h"

/* Counts from here on. Call it after device_init, once for each device of this process. */
void usage_init(Device *device);

/* Marks the start of training: earlier memory does not count. pg may be NULL if nothing is sent. */
void usage_begin(const ProcessGroup *pg);

/* Prints the most bytes that the first device has held since, and the bytes sent per step. */
void usage_print(const ProcessGroup *pg, uint64_t steps);

/* Sets the bytes this rank has sent and received over tcp since init, without headers (0 on other
 * backends), when all Work has been waited for. */
void tcp_payload_bytes(const ProcessGroup *pg, uint64_t *sent, uint64_t *received);

#endif
