/* The entry points for libFuzzer: FUZZ_TARGET=args build/fuzz/engine [options] [corpus or file]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const Target *find_target(void)
{
    const char *name = getenv("FUZZ_TARGET");
    for (int i = 0; i < num_targets; i++)
        if (name != NULL && strcmp(targets[i].name, name) == 0)
            return &targets[i];
    fprintf(stderr, "FUZZ_TARGET must be one of:");
    for (int i = 0; i < num_targets; i++)
        fprintf(stderr, " %s", targets[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const Target *target;
    if (target == NULL)
        target = find_target();
    world_run(target->run, target->may_keep, data, size);
    return 0;
}
