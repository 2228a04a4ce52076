/* Reading what the optimizer recorded (OptimStep) makes the host wait for the device, so it is read
 * only where the host waits anyway, and before anything is saved, because a file with nan must not
 * replace a good one. */
#include "common/base/divergence.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"

bool divergence_report(const Args *args, Divergence divergence, const char *where, bool prints)
{
    static bool warned;
    const bool warn = args->on_nan == ON_NAN_WARN;
    const bool fp16 = args->amp == AMP_FP16;
    const char *what =
        fp16 ? "fp16 overflowed 50 times in a row until" : "weights are nan or infinite after";
    char loss[256] = "though no rank's loss is yet", text[512];
    if (divergence.loss > 0)
        snprintf(loss, sizeof loss, "and the loss since step %u%s", divergence.loss, where);
    snprintf(text, sizeof text,
             "training diverged: %s step %u, %s: try a smaller --lr than %g, or look for bad rows "
             "in the data%s",
             what, divergence.weights, loss, args->lr, warn ? "" : " (--on-nan warn goes on)");
    if (!warn)
        log_last_error(text, prints, false);
    else if (prints && !warned)
        log_warning("%s", text);
    warned = true;
    return !warn;
}

void check_divergence(const Args *args, Divergence divergence)
{
    if (divergence.weights > 0 && divergence_report(args, divergence, "", true))
        _exit(EXIT_FAILURE);
}
