/* targets.h - the fuzz targets: every place where the project reads bytes it has not written. */
#ifndef TESTS_FUZZ_TARGETS_H
#define TESTS_FUZZ_TARGETS_H

#include "tests/fuzz/world.h"

typedef struct {
    const char *name; // the target's and its corpus's name
    Body *run;
    bool may_keep; // true if it allocates for the life of the process
} Target;

extern const Target targets[];
extern const int num_targets;

/* Each target is in the file of its name. */
Body fuzz_args, fuzz_config, fuzz_flags, fuzz_env; // command lines, configuration, environment
Body fuzz_idx, fuzz_safetensors, fuzz_checkpoint, fuzz_metrics, fuzz_flight, fuzz_picture; // files
Body fuzz_handshake, fuzz_service, fuzz_server, fuzz_store, fuzz_mesh, fuzz_exchange; // connections
Body fuzz_launch; // messages of launchers and workers to a launcher

#endif
