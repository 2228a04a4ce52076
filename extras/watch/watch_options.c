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
            { "show-topology", "on|off", "off", STEP_ENV, OPTION_SWITCH,
              offsetof(WatchArgs, show_topology),
              .help = "rank 0 lists all ranks: node, host, device, cores" },
            { 0 },
        },
};
