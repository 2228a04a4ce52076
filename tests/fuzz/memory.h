/* memory.h - a run's allocations, by libraries as well; known only with AddressSanitizer. */
#ifndef TESTS_FUZZ_MEMORY_H
#define TESTS_FUZZ_MEMORY_H

#include <stdbool.h>

void memory_watch(void); // records allocations from here on
bool memory_is_left(void);
void memory_release(void); // frees all that is left, and watches no more

#endif
