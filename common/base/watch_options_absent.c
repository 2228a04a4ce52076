/* What a build without extras/watch knows of its options. */
#include "common/base/options.h"

const OptionGroup watch_options = {
    .rows = (const Option[]){ { .name = "trace" },
                              { .name = "profile" },
                              { .name = "show-topology", .first_step = STEP_ENV },
                              { 0 } },
    .absent = "extras/watch",
};
