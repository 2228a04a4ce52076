/* spelling.h - which name did the user mean? */
#ifndef COMMON_BASE_SPELLING_H
#define COMMON_BASE_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

/* Does the name begin with what was typed? - and _ are the same, here and below. */
bool name_begins(const char *name, const char *typed, size_t length);

/* How many letters to insert, delete or replace to turn one into the other (Levenshtein, 1965). A
 * name that was cut short is at no distance. */
size_t edit_distance(const char *name, const char *typed, size_t length);

/* From this distance on, a name is none that was meant. */
static inline size_t edit_distance_limit(size_t length)
{
    return length / 2 + 1;
}

#endif
