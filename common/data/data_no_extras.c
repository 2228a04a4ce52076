/* Stands in for extras/scratch in builds without extras, which have no --scratch-dir. */
#include "common/data/scratch.h"

void scratch_fill(const Args *args)
{
    (void)args;
}
