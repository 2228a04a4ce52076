/* What a build without extras/watch knows of its options. */
#include "common/base/options.h"

const OptionGroup watch_options = {
    .rows = (const Option[]){ { .name = "trace" }, { .name = "profile" }, { 0 } },
    .absent = "extras/watch",
};
