/* inject.h - does to its own rank what --inject asks for (fault_spec.h). */
#ifndef COMMON_FAULT_INJECT_H
#define COMMON_FAULT_INJECT_H

#include "common/base/fault_spec.h"
#include "common/nn/optim.h"

typedef struct {
    Model *model;
    Fault fault[MAX_FAULTS]; // this rank's, in this attempt
    int num_faults;
    GradHook *grad_hook; // the model's own, which comes after this one's
    void *grad_hook_context;
} Injector;

/* Picks this rank's faults of this attempt from args->inject. Usage error where that names a rank
 * that is not there. Local. */
void injector_init(Injector *injector, const Args *args, int rank, int world_size);

/* Names the victim, before its first step. Where there are gradients to corrupt, puts itself in
 * front of the model's grad hook, which must be set by then. Injector and model stay where they
 * are. Local. */
void injector_attach(Injector *injector, Model *model);

/* After each step: does what is due. Local. */
void injector_step(const Injector *injector);

#endif
