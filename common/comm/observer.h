/*
 * observer.h - sees every collective: when it is called, begins and ends.
 *
 * States have the names of PyTorch's Flight Recorder. A group without observers pays for one test
 * of a null pointer. Observers are the flight recorder and the timeline.
 */
#ifndef COMMON_COMM_OBSERVER_H
#define COMMON_COMM_OBSERVER_H

#include "common/comm/backend.h"

typedef enum {
    COLLECTIVE_SCHEDULED, // called, not begun. Reported by the calling thread
    COLLECTIVE_STARTED, // in progress. From here on reported by any thread
    COLLECTIVE_COMPLETED, // its data may be used
    COLLECTIVE_FAILED, // it never will: this rank gives up, and exits once all know
} CollectiveState;

typedef struct Observer {
    /* A call has reached this state. collective->op_id identifies it; of its pointers only pg may
     * be followed. Be quick: the collective waits. */
    void (*see)(void *context, const Collective *collective, CollectiveState state);
    void *context;
    struct Observer *next; // the group's
} Observer;

/* From now on the observer sees the calls on the group of all ranks and on all its subgroups. Call
 * it while none is in progress; the observer must not move until the group is destroyed. Local. */
void process_group_observe(ProcessGroup *pg, Observer *observer);

/* Notifies the observers. SCHEDULED is reported for all backends; a backend reports STARTED,
 * COMPLETED and FAILED as far as it can: nccl's host does not see the first two. */
void collective_report(const Collective *collective, CollectiveState state);

/* What an extra adds to the group of all ranks (extras/watch). NULLs: there is none. */
typedef struct {
    /* Writes the options that all ranks must share to text, as ", --trace". */
    void (*describe)(const Args *args, char *text, size_t bytes);
    void (*formed)(ProcessGroup *pg); // may put a backend in front. Collective, as is the next
    void (*leaving)(ProcessGroup *pg); // about to be destroyed
} GroupHooks;

extern const GroupHooks group_hooks; // in builds without: watch_group_absent.c

#endif
