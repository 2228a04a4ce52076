/* The entry points for libFuzzer: FUZZ_TARGET=args build/fuzz/engine [options] [corpus or file]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max_size, unsigned seed);

static size_t num_runs, num_passed;

/* The latest inputs that got past the first check: most of those that libFuzzer keeps do not. */
static struct {
    uint8_t data[4096];
    size_t size;
} latest[256];

static void note_passed(const uint8_t *data, size_t size)
{
    const size_t place = num_passed++ % (sizeof latest / sizeof *latest);
    latest[place].size = size < sizeof latest->data ? size : sizeof latest->data;
    memcpy(latest[place].data, data, latest[place].size);
}

static void report(void)
{
    fprintf(stderr, "%.0f %% past the first check\n", 100 * (double)num_passed / (double)num_runs);
}

/* Finds it once, and reports at the end. */
static const Target *find_target(void)
{
    static const Target *found;
    if (found != NULL)
        return found;
    atexit(report);
    const char *name = getenv("FUZZ_TARGET");
    for (int i = 0; i < num_targets; i++)
        if (name != NULL && strcmp(targets[i].name, name) == 0)
            return found = &targets[i];
    fprintf(stderr, "FUZZ_TARGET must be one of:");
    for (int i = 0; i < num_targets; i++)
        fprintf(stderr, " %s", targets[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const Target *target = find_target();
    num_runs++;
    if (world_run(target->run, target->may_keep, data, size))
        note_passed(data, size);
    return 0;
}

/* Begins with one of the latest seven times in eight, else with libFuzzer's choice. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t place = seed / 8 % (sizeof latest / sizeof *latest);
    if (seed % 8 > 0 && latest[place].size > 0 && latest[place].size <= max_size)
        memcpy(data, latest[place].data, size = latest[place].size);
    return mutate(find_target()->form, data, size, max_size, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max_size, unsigned seed)
{
    return cross(find_target()->form, (Input){ a, a_size, false }, (Input){ b, b_size, false }, out,
                 max_size, seed);
}
