/* checkpoint_format.h - what is written where in a checkpoint; private to checkpoint*.c. */
#ifndef COMMON_IO_CHECKPOINT_FORMAT_H
#define COMMON_IO_CHECKPOINT_FORMAT_H

#include "common/io/checkpoint.h"
#include "common/io/safetensors.h"

#define CHECKPOINT_VERSION_KEY "ddp_c_version" // tells our files from others
#define CHECKPOINT_VERSION "1"
#define CHECKPOINT_STEP "optimizer.step" // int64, a scalar

/* Name of an optimizer's state for a parameter: "optimizer.fc1.weight.exp_avg". */
void checkpoint_state_name(char *name, size_t bytes, const Tensor *parameter, const char *state);

/* Adds all that is known of the run before it starts: its settings, and what inference needs. */
void checkpoint_describe(const Checkpoint *checkpoint, Safetensors *file);

/* "00c0ffee" */
void checkpoint_checksum(const Safetensors *file, char text[9]);

#endif
