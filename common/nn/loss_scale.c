/* The loss scale as text, as a checkpoint's metadata is: "65536 7 2" is the scale, the good steps
 * since it changed, and the steps skipped. The text comes from outside, so it is checked. */
#include <math.h>
#include <stdio.h>

#include "common/nn/device.h"

bool loss_scale_save(Device *device, char text[DEVICE_TEXT_BYTES])
{
    if (device->loss_scale == NULL)
        return false;
    LossScale state;
    device_copy(device, &state, device->loss_scale, sizeof state, COPY_TO_HOST);
    snprintf(text, DEVICE_TEXT_BYTES, "%.9g %d %u", (double)state.scale, (int)state.good_steps,
             (unsigned)state.skipped);
    return true;
}

bool loss_scale_load(Device *device, const char *text, uint64_t step, bool import)
{
    if (device->loss_scale == NULL)
        return true;
    LossScale state = { 0 };
    int good_steps = -1, end = 0;
    unsigned skipped = 0;
    const bool valid = sscanf(text, "%f %d %u%n", &state.scale, &good_steps, &skipped, &end) == 3 &&
                       text[end] == '\0' && isfinite(state.scale) && state.scale > 0 &&
                       good_steps >= 0 && skipped <= step;
    state.good_steps = good_steps;
    state.skipped = skipped;
    if (valid && import)
        device_copy(device, device->loss_scale, &state, sizeof state, COPY_TO_DEVICE);
    return valid;
}
