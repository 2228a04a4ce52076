/* parts.h - what the files of this folder use of each other; common/base/comfort.h has the rest. */
#ifndef EXTRAS_COMFORT_PARTS_H
#define EXTRAS_COMFORT_PARTS_H

#include "common/base/args.h"
#include "common/base/comfort.h"
#include "common/save/safetensors.h"

bool comfort_is_path(const Option *option); // true for a FILE or a DIR
void leftovers_remove(const char *dir); // the temporary files of killed processes

/* Returns the name most like `typed` of the options listed in that step; NULL if none is near. */
const char *comfort_nearest(const Option *options, int step, const char *typed, size_t length);

/* Names the format of a file that is no safetensors file in its error, if it is known. */
void adopt_explain(Safetensors *file);

#endif
