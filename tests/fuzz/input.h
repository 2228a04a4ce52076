/* input.h - the bytes that a fuzzer makes up, taken piece by piece. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of an input. */
typedef struct {
    const uint8_t *data;
    size_t size;
    bool stays; // whoever says this does not hang up after it
} Input;

uint8_t input_byte(Input *input); // 0 where there is none left
Input input_part(Input *input); // two bytes for length and `stays`, then so many bytes
char *input_line(Input *input, char *line, size_t bytes); // without its end; NULL: none left

#endif
