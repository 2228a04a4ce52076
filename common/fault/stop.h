/* stop.h - a signal to one rank ends the training of all, after the same step. */
#ifndef COMMON_FAULT_STOP_H
#define COMMON_FAULT_STOP_H

#include <stdbool.h>

#include "common/dist/ddp.h"
#include "common/io/checkpoint.h"

typedef struct {
    const Checkpoint *checkpoint; // of the run
    float *wish; // behind the gradients, in device memory: above 0 once a rank wants to stop
    uint64_t step; // after which it was looked at
    bool told; // this rank has been told to stop, and tells the others
    bool agreed; // all ranks know, and leave
} StopRequest;

/* From now on SIGTERM, SIGUSR1 and SIGINT are requests to stop, unless they are ignored (as nohup
 * and a shell's "&" have it); before training they wait for its first steps. A second Ctrl-C ends
 * the process at once. Local. */
void stop_listen(void);

/* The wish is to travel with the gradients: one more float in a bucket, and no message more. */
void stop_init(StopRequest *stop, const Checkpoint *checkpoint, Reducer *reducer);

/* To be asked between steps, by all ranks. A rank that was told to stop tells the others with its
 * next gradients, so all leave one step later: true, on every rank between the same two steps. (On
 * GPUs some steps later: looking makes the host wait.) Where no step is left to do, false. */
bool stop_agreed(StopRequest *stop);

#endif
