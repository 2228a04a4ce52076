/* stop.h - a signal to one rank ends the training of all, after the same step. */
#ifndef FAULT_TOLERANCE_STOP_H
#define FAULT_TOLERANCE_STOP_H

#include <stdbool.h>

#include "common/comm/ddp.h"
#include "common/save/checkpoint.h"

typedef struct {
    const Checkpoint *checkpoint; // the run's
    float *request; // after the gradients, in device memory: above 0 once a rank is to stop
    uint64_t step; // the step at which it was last read
    bool announced; // this rank got a signal, and has passed it on
    bool agreed; // all ranks know that all of them stop
} StopRequest;

/* Makes SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 (of Grid Engine's qsub -notify) and SIGINT requests to
 * stop from now on, unless ignored (as under nohup or a shell's "&"); those that arrive before
 * training take effect in its first steps. If the group does not form within seconds of the first,
 * the process reports it and ends with EXIT_STOPPED. A second Ctrl-C ends it at once. Local. */
void stop_listen(void);

/* Returns whether the launcher is Open MPI's mpirun. After SIGTERM to it, it sends the ranks
 * SIGCONT, SIGTERM after 0.25 s (release 4: 1 s), and SIGKILL after as much again. */
bool stop_is_hasty(void);

/* Returns whether that SIGCONT has come since the last call: SIGTERM may follow, or nothing. */
bool stop_is_near(void);

/* Notes that the group has formed: from now on all ranks stop together. Local. */
void stop_joined(void);

/* Adds the request to the gradients: one more float in a bucket, no extra message. */
void stop_init(StopRequest *stop, const Checkpoint *checkpoint, Reducer *reducer);

/* Returns whether nothing is left to train, by args->epochs and args->max_steps. Local. */
bool training_done(const Checkpoint *checkpoint);

/* Returns whether all ranks stop; call it between steps, on all ranks. A rank that got a signal
 * passes it on with its next gradients, so all return true one step later (on GPUs a few: reading
 * the flag makes the host wait), between the same two steps. False if no step is left to do. */
bool stop_agreed(StopRequest *stop);

#endif
