/* spelling.h - which name did the user mean? */
#ifndef COMMON_BASE_SPELLING_H
#define COMMON_BASE_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

/* Is this the name that was typed? - and _ are the same, here and below. */
bool name_is(const char *name, const char *typed, size_t length);

/* The nearest to what was typed of the names that were tried. */
typedef struct {
    const char *typed;
    size_t length;
    const char *name; // NULL: none is so near that it may have been meant
    size_t distance;
} Nearest;

/* Nothing was tried yet. */
Nearest nearest_to(const char *typed, size_t length);

/* Nearness is how few letters have to be inserted, deleted or replaced to turn one into the other
 * (Levenshtein, 1965). A name that was cut short is at no distance. Of equals the first counts. */
void nearest_try(Nearest *nearest, const char *name);

#endif
