/* input.h - a fuzzer's bytes, taken piece by piece. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rest of an input. */
typedef struct {
    const uint8_t *data;
    size_t size;
    bool stays; // the peer that sends this keeps the connection open
} Input;

uint8_t input_byte(Input *input); // 0 at the end
Input input_part(Input *input); // two bytes for length and `stays`, then the bytes
char *input_line(Input *input, char *line, size_t bytes); // without its newline; NULL at the end

#endif
