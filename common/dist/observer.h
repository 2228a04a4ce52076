/*
 * observer.h - for those who want to see every collective: when it is called, begins and ends.
 *
 * States have the names of PyTorch's Flight Recorder. A group without observers pays for a look at
 * a null pointer, and nobody needs to know who is looking: a flight record, a trace.
 */
#ifndef COMMON_DIST_OBSERVER_H
#define COMMON_DIST_OBSERVER_H

#include "common/base/gpu_marks.h"
#include "common/dist/backend.h"

typedef enum {
    COLLECTIVE_SCHEDULED, // called; its turn has not come. By the thread that calls
    COLLECTIVE_STARTED, // in progress. From here on by any thread
    COLLECTIVE_COMPLETED, // its data may be used
    COLLECTIVE_FAILED, // it will never be: this rank gives up, and ends when all know
} CollectiveState;

typedef struct Observer {
    /* Now this has become of a call. collective->op_id tells it from all others; no pointer in it
     * is to be followed but pg. To be quick: the collective waits. */
    void (*see)(void *context, const Collective *collective, CollectiveState state);
    /* A GPU carries the call out, between these marks; for such a call there is no STARTED, nor
     * what comes after it, since the host hears of neither. NULL: no interest. */
    void (*see_marks)(void *context, const Collective *collective, GpuMark begin, GpuMark end);
    void *context;
    struct Observer *next; // the group's
} Observer;

/* From now on the observer sees the calls on the group of all ranks and on all its parts. To be
 * called while none is in progress; the observer stays where it is until the group is destroyed.
 * Local. */
void process_group_observe(ProcessGroup *pg, Observer *observer);

/* Tells the observers. SCHEDULED is said for all backends; a backend says STARTED, COMPLETED, and
 * FAILED, as far as it knows. */
void collective_report(const Collective *collective, CollectiveState state);
void collective_report_marks(const Collective *collective, GpuMark begin, GpuMark end);

#endif
