/*
 * startup.h - what a run says at its start, and keeps of what it was asked for.
 *
 * It is in extras/comfort: nothing needs it to train. A build without it is silent.
 */
#ifndef COMMON_BASE_STARTUP_H
#define COMMON_BASE_STARTUP_H

#include "common/base/options.h"

/* For args_parse at its end: remembers what the user asked for, and says so if there is a
 * config.yaml in the current folder that sets something, but that nobody has read. Settings must
 * live as long as the process. */
void startup_settings(Settings *settings);

/* Is standard error a terminal, a file or the log of a batch job? Only the extras ask. */
bool startup_is_read(void);

/* Then rank 0 says: "trains linear on random, batch 32 x 2 = 64, on cpu; set: --lr 0.05,
 * config.yaml:7: seed 3". args: of args_parse. */
void startup_announce(const void *args, int world_size, const char *device);

/* A JSON object with all options of this program, as they would be typed; NULL: it knows none. */
struct json_t *startup_options(const void *args);

#endif
