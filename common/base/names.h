/* names.h - compares the names of options and flags with what people type. */
#ifndef COMMON_BASE_NAMES_H
#define COMMON_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Does this name begin with what was typed? "-" and "_" are the same. */
bool name_begins(const char *name, const char *typed, size_t length);

/* Is what was typed this name? */
bool name_is(const char *name, const char *typed, size_t length);

/* The name closest to what was typed; the first one if several are equally close. `names` ends with
 * a NULL. Returns NULL if none is close enough to have been meant. */
const char *name_nearest(const char *typed, size_t length, const char *const names[]);

#endif
