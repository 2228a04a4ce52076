/* What the programs before step 05 know of its options. */
#include "common/base/options.h"

const OptionGroup fault_options = {
    .rows = (const Option[]){ { .name = "save-every-steps", .first_step = STEP_FAULT },
                              { .name = "keep", .first_step = STEP_FAULT },
                              { .name = "check-sync", .first_step = STEP_FAULT },
                              { .name = "inject", .first_step = STEP_FAULT },
                              { 0 } },
    .absent = "05_fault_tolerance",
};
