/* Stands in for extras/watch, which shows and records a run. */
#include "common/save/metrics.h"

const MetricsHooks metrics_hooks = { NULL, NULL, NULL, NULL, NULL };
