/*
 * unused.h - passes that do not use every parameter: DDP(find_unused_parameters=True).
 *
 * - Call unused_init after reducer_init, and make unused_mark_ready the model's GradHook.
 * - After each backward pass call unused_finalize instead of reducer_finalize.
 */
#ifndef BEYOND_UNUSED_UNUSED_H
#define BEYOND_UNUSED_UNUSED_H

#include "common/comm/ddp.h"

typedef struct {
    Reducer *reducer;
    uint8_t *used; // whether each was used in a pass since gradients were last sent
    float *kept; // gradients of parameters not used here, as they were before they were sent
} Unused;

/* Usage error if the gradients are on a GPU. Local. */
void unused_init(Unused *unused, Reducer *reducer);

/* Works as reducer_mark_ready; its context is the Unused. Collective. */
void unused_mark_ready(void *unused, int i);

/* Works as reducer_finalize, but parameters may lack a gradient: what is in the array is sent. The
 * ranks exchange which ones were used, and a gradient that no rank used is left unchanged.
 * Collective. */
void unused_finalize(Unused *unused);

void unused_free(Unused *unused);

#endif
