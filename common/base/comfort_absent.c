/* A build without extras: no comfort, and no progress bar that has to make way for a line. */
#include "common/base/comfort.h"
#include "common/base/log.h"

static void nothing(void)
{
}

const Comfort comfort = { .has_extras = false };
const ProgressBar progress_bar = { .erase = nothing, .redraw = nothing, .finish = nothing };
