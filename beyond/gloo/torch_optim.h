/*
 * torch_optim.h - rounds as PyTorch's SGD does, so that ranks of both kinds keep the same weights.
 *
 * DistributedDataParallel makes gradients equal, bit for bit; each rank then makes its own step.
 * The library adds a momentum's product in one instruction, where PyTorch rounds it first: one
 * number in four differs in its last bit, and no later step repairs that.
 */
#ifndef BEYOND_GLOO_TORCH_OPTIM_H
#define BEYOND_GLOO_TORCH_OPTIM_H

#include "common/nn/device.h"

/* Wraps the optimizer in the device's table. On a GPU it does nothing. Local. */
void torch_optim_init(Device *device, const Args *args);

#endif
