/* loss_scale.h - `save` and `load` of the table of a device that has device->loss_scale. */
#ifndef COMMON_NN_LOSS_SCALE_H
#define COMMON_NN_LOSS_SCALE_H

#include "common/nn/device.h"

bool loss_scale_save(Device *device, char text[DEVICE_TEXT_BYTES]);
bool loss_scale_load(Device *device, const char *text, uint64_t step, bool import);

#endif
