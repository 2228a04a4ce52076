/* names.h - names of options and flags, as people type them. */
#ifndef COMMON_BASE_NAMES_H
#define COMMON_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Does this name begin with what was typed? - and _ are the same. */
bool name_begins(const char *name, const char *typed, size_t length);

/* Is it this name? */
bool name_is(const char *name, const char *typed, size_t length);

/* The name closest to what was typed, of those before a NULL, the first of equals; NULL: none is
 * close enough to have been meant. */
const char *name_nearest(const char *typed, size_t length, const char *const names[]);

#endif
