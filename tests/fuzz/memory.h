/* memory.h - what a run has allocated, by anybody's malloc; known where AddressSanitizer is in. */
#ifndef TESTS_FUZZ_MEMORY_H
#define TESTS_FUZZ_MEMORY_H

#include <stdbool.h>

void memory_watch(void); // from here on
bool memory_is_left(void);
void memory_release(void); // frees all that is left, and watches no more

#endif
