/* Stands in for extras/watch, which shows and records a run, and for extras/comfort/adopt.c. */
#include "common/save/checkpoint.h"
#include "common/save/metrics.h"

const MetricsHooks metrics_hooks = { NULL, NULL, NULL, NULL, NULL };

bool adopt_weights(Safetensors *file, const Model *model)
{
    return file != NULL && model != NULL;
}
