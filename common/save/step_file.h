/* step_file.h - a file of JSON lines, one per training step. */
#ifndef COMMON_SAVE_STEP_FILE_H
#define COMMON_SAVE_STEP_FILE_H

#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *file; // NULL: not requested, or given up
} StepFile;

/* Opens DIR/NAME, which may have lines of an earlier run, and drops those about steps after
 * last_step, which will be repeated (0: all of them). Dies if it cannot be written. */
void step_file_open(StepFile *steps, const char *dir, const char *name, uint64_t last_step);

/* Adds a line; text begins with {"epoch":N,"step":step and ends with a line end. Line buffered:
 * readers see whole lines. If the disk is full, warns and writes no more: training is worth more
 * than its metrics. */
void step_file_write(StepFile *steps, uint64_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A number in JSON, which has no nan and no inf: those become "null". Nine digits tell any float
 * from its neighbours. Writes to text, returns it. */
#define JSON_NUMBER_BYTES 32
const char *json_number(double value, char text[JSON_NUMBER_BYTES]);

void step_file_close(StepFile *steps);

#endif
