/*
 * comfort.h - functions of extras/comfort that make messages more helpful. All are optional.
 *
 * A build without extras has comfort_absent.c instead, in which every field is NULL or false.
 */
#ifndef COMMON_BASE_COMFORT_H
#define COMMON_BASE_COMFORT_H

#include <stdbool.h>
#include <stddef.h>

struct Args;
struct Settings;

typedef struct {
    bool has_extras; // this build has the options of extras
    void (*parsed)(const struct Settings *settings); // at the end of args_parse; keeps the pointer
    /* Rank 0 says: "trains linear on random, batch 32 x 2 = 64, on cpu; set: --lr 0.05". */
    void (*announce)(const struct Args *args, int world_size, const char *device);
    struct json_t *(*options)(void); // all options as typed; NULL: args_parse was not called
    bool (*is_read)(void); // is standard error a terminal, a file or the log of a batch job?
    const char *(*start_advice)(const char *program, int error); // why it cannot be started, or ""
    int (*gpus_listed)(void); // counted in the driver's files; CUDA is more accurate
    void (*port_owner)(int port, char *text, size_t bytes); // writes " by NAME (pid N)" if known
} Comfort;

extern const Comfort comfort;

#endif
