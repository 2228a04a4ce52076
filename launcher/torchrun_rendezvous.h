/* torchrun_rendezvous.h - a ddprun and a torchrun at one endpoint recognise each other.
 *
 * torchrun's elastic nodes coordinate through a Python object in the store, which ddprun cannot
 * use. Without these two functions each would wait for the other until join_timeout. */
#ifndef LAUNCHER_TORCHRUN_RENDEZVOUS_H
#define LAUNCHER_TORCHRUN_RENDEZVOUS_H

#include "common/comm/store/store.h"

/* Makes a torchrun that comes to our store fail at once, with a line that names ddprun. */
void torchrun_refuse(Store *store, const char *run_id);

/* Returns whether this is the store of a torchrun, or one of ours after torchrun_refuse. */
bool torchrun_is_here(Store *store, const char *run_id);

#endif
