/* The options of what watches a run. */
#include "common/base/options.h"
#include "extras/watch/recording.h"

WatchArgs watch_args;

const OptionGroup watch_options = {
    .heading = HEADING_RESULTS,
    .fields = &watch_args,
    .rows =
        (const Option[]){
            { "trace", "FILE", "off", STEP_SINGLE, OPTION_OPTIONAL, offsetof(WatchArgs, trace),
              .help = "write what happened when, for ui.perfetto.dev" },
            { "profile", "FILE", "off", STEP_SINGLE, OPTION_OPTIONAL, offsetof(WatchArgs, profile),
              .help = "write a table of where the time went" },
            { 0 },
        },
};
