/*
 * diagnostics.h - step 05's recording, checking and fault injection.
 *
 * The flight recorder, --check-sync and --inject in one place: they apply to every step and teach
 * nothing about training.
 */
#ifndef FAULT_TOLERANCE_DIAGNOSTICS_H
#define FAULT_TOLERANCE_DIAGNOSTICS_H

#include "05_fault_tolerance/checks/flight_recorder.h"
#include "05_fault_tolerance/checks/inject.h"

typedef struct {
    const Args *args;
    ProcessGroup *pg;
    const Optimizer *optim;
    FlightRecorder recorder;
    Injector injector;
    int lock; // the folder's, on rank 0: see folder_lock.h
    bool waits; // another run still has the folder, so this rank has no record yet
} Diagnostics;

/* Calls args_parse for step 05, with a usage error if --inject is not a list of faults. Local. */
void diagnostics_parse_args(Args *args, int argc, char **argv);

/* Locks the folder for this run on rank 0, before the rendezvous, until diagnostics_free. Usage
 * error if the folder is not writable or another run has it, and on all ranks if args ask for an
 * order of sums that they cannot keep. From here on the rank has a flight record; or from
 * diagnostics_group on if another run still has the folder, whose records are not touched. The
 * struct must not be moved. Local. */
void diagnostics_init(Diagnostics *diagnostics, const Args *args, int rank, int world_size);

/* Records every collective; call it right after the rendezvous. Collective. */
void diagnostics_group(Diagnostics *diagnostics, ProcessGroup *pg);

/* Attaches to optim; call it before the first step, and after model_set_grad_hook. Local. */
void diagnostics_model(Diagnostics *diagnostics, const Optimizer *optim);

/* Records how far the training is, injects the faults that are due, then compares the replicas if
 * due, after each step. Collective. */
void diagnostics_step(Diagnostics *diagnostics);

/* Ends the record and the lock, at the end of a successful run. Local. */
void diagnostics_free(Diagnostics *diagnostics);

#endif
