/* The options of what watches a run. */
#include "common/base/options.h"

const OptionGroup watch_options = {
    .heading = HEADING_RESULTS,
    .rows =
        (const Option[]){
            { "trace", "FILE", "off", STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, trace),
              .help = "write what happened when, for ui.perfetto.dev" },
            { "profile", "FILE", "off", STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, profile),
              .help = "write a table of where the time went" },
            { 0 },
        },
};
