/* inject.h - injects the faults of --inject into its own rank (fault_spec.h). */
#ifndef FAULT_TOLERANCE_INJECT_H
#define FAULT_TOLERANCE_INJECT_H

#include "05_fault_tolerance/checks/fault_spec.h"
#include "common/nn/optim.h"

typedef struct {
    Model *model;
    Fault fault[MAX_FAULTS]; // this rank's, in this attempt
    int num_faults;
    GradHook *grad_hook; // the model's own, called after this one
    void *grad_hook_context;
} Injector;

/* Picks this rank's faults of this attempt from args->inject. Usage error if that names a rank that
 * does not exist. Local. */
void injector_init(Injector *injector, const Args *args, int rank, int world_size);

/* Sets the model to corrupt, before its first step. To corrupt gradients, installs itself in front
 * of the model's grad hook, which must be set by then. Injector and model must not be moved.
 * Local. */
void injector_attach(Injector *injector, Model *model);

/* Injects the faults that are due; call it after each step. Local. */
void injector_step(const Injector *injector);

#endif
