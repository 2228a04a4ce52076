/*
 * watch_device.h - a device in front of the device, which notes when each piece of work began and
 * ended: the spans of training and evaluation.
 */
#ifndef EXTRAS_WATCH_WATCH_DEVICE_H
#define EXTRAS_WATCH_WATCH_DEVICE_H

#include "common/nn/model.h"

/* Makes the model's device record spans from now on; one at a time. Layers have the names of their
 * weights. */
void watch_device(const Model *model);
void unwatch_device(void);

#endif
