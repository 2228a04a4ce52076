/*
 * usage.h - what a rank holds and what it sends while it trains, counted for docs/beyond_ddp.md.
 *
 * A table that counts stands in front of the device's table: so every array of the model, its
 * optimizer and its activations counts, whoever asks for it.
 */
#ifndef BEYOND_USAGE_H
#define BEYOND_USAGE_H

#include "common/comm/process_group.h"
#include "common/nn/device.h"

/* Counts from here on: call it after device_init, once for each device of this process. */
void usage_init(Device *device);

/* The training begins: what was held before does not count. pg may be NULL: then nothing is sent.
 */
void usage_begin(const ProcessGroup *pg);

/* Prints the most bytes that the first device held since, and how many bytes a step were sent. */
void usage_print(const ProcessGroup *pg, uint64_t steps);

#endif
