/*
 * watch.h - step 05's recording, checking and fault injection.
 *
 * The flight recorder, --check-sync and --inject in one place: they apply to every step and teach
 * nothing about training.
 */
#ifndef COMMON_FAULT_WATCH_H
#define COMMON_FAULT_WATCH_H

#include "common/fault/flight_recorder.h"
#include "common/fault/inject.h"

typedef struct {
    const Args *args;
    ProcessGroup *pg;
    const Optimizer *optim;
    FlightRecorder recorder;
    Injector injector;
} Watch;

/* Before the rendezvous: from here on the rank has a flight record. The watch must not be moved.
 * Local. */
void watch_init(Watch *watch, const Args *args, int rank, int world_size);

/* Right after it: every collective is recorded. Collective. */
void watch_group(Watch *watch, ProcessGroup *pg);

/* Before the first step, and after model_set_grad_hook. Local. */
void watch_model(Watch *watch, const Optimizer *optim);

/* After each step: injects the faults that are due, then compares the replicas if due.
 * Collective. */
void watch_step(Watch *watch);

/* At the end of a run that went well. Local. */
void watch_free(Watch *watch);

#endif
