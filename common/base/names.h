/* names.h - guesses the option or flag that was meant. */
#ifndef COMMON_BASE_NAMES_H
#define COMMON_BASE_NAMES_H

#include "common/base/options.h"

/* The name closest to what was typed; the first one if several are equally close. `names` ends with
 * a NULL. Returns NULL if none is close enough to have been meant. */
const char *name_nearest(const char *typed, size_t length, const char *const names[]);

#endif
