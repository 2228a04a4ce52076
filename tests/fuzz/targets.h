/* targets.h - the fuzz targets: every place where the project reads bytes it has not written. */
#ifndef TESTS_FUZZ_TARGETS_H
#define TESTS_FUZZ_TARGETS_H

#include "tests/fuzz/world.h"

typedef struct {
    const char *name; // the target's and its corpus's name
    Body *run;
    bool may_keep; // true if it allocates for the life of the process
    const char *form; // what its inputs are made of, a letter for each piece (mutate.c)
} Target;

extern const Target targets[];
extern const int num_targets;

/* What a form consists of: 1 a byte, l a line, p a part (input_part), i an IDX file, t the rest. A
 * * repeats the letter before it; at its end a form begins anew. */

/* Changes a piece of an input and what counts its bytes. Returns the input's new size. */
size_t mutate(const char *form, uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Makes an input of the first pieces or lines of one and the last ones of another. Returns its
 * size. */
size_t cross(const char *form, Input a, Input b, uint8_t *out, size_t max_size, unsigned seed);

/* Each target is in the file of its name. */
Body fuzz_args, fuzz_config, fuzz_flags, fuzz_env; // command lines, configuration, environment
Body fuzz_idx, fuzz_safetensors, fuzz_checkpoint, fuzz_metrics, fuzz_flight, fuzz_picture; // files
Body fuzz_handshake, fuzz_service, fuzz_server, fuzz_store, fuzz_mesh, fuzz_exchange; // connections
Body fuzz_launch; // messages of launchers and workers to a launcher

#endif
