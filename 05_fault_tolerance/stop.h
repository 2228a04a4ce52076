/* stop.h - a signal to one rank ends the training of all, after the same step. */
#ifndef FAULT_TOLERANCE_STOP_H
#define FAULT_TOLERANCE_STOP_H

#include <stdbool.h>

#include "common/comm/ddp.h"
#include "common/save/checkpoint.h"

typedef struct {
    const Checkpoint *checkpoint; // of the run
    float *request; // after the gradients, in device memory: above 0 once a rank wants to stop
    uint64_t step; // at which it was last read
    bool announced; // this rank got a signal, and tells the others
    bool agreed; // all ranks know that all of them stop
} StopRequest;

/* From now on SIGTERM, SIGHUP, SIGUSR1 and SIGINT are requests to stop, unless ignored (as under
 * nohup or a shell's "&"); those that arrive before training take effect in its first steps. If the
 * group does not form within seconds of the first, the process says so and ends with EXIT_STOPPED.
 * A second Ctrl-C ends it at once. Local. */
void stop_listen(void);

/* The group has formed: from now on all ranks stop together. Local. */
void stop_joined(void);

/* The request travels with the gradients: one more float in a bucket, no extra message. */
void stop_init(StopRequest *stop, const Checkpoint *checkpoint, Reducer *reducer);

/* Is nothing left to train, by args->epochs and args->max_steps? Local. */
bool training_done(const Checkpoint *checkpoint);

/* Call it between steps, on all ranks. A rank that got a signal tells the others with its next
 * gradients, so all return true one step later, between the same two steps. (On GPUs a few steps
 * later: reading the flag makes the host wait.) False if no step is left to do. */
bool stop_agreed(StopRequest *stop);

#endif
