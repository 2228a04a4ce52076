/* What a build without extras/watch and extras/simulated_network knows of their options. */
#include "common/base/options.h"

const OptionGroup watch_options = {
    .rows = (const Option[]){ { .name = "trace" },
                              { .name = "profile" },
                              { .name = "show-topology", .first_step = STEP_ENV },
                              { 0 } },
    .absent = "extras/watch",
};

const OptionGroup network_options = {
    .rows = (const Option[]){ { .name = "simulate-network", .first_step = STEP_SPAWN }, { 0 } },
    .absent = "extras/simulated_network",
};
