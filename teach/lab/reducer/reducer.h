/* reducer.h - lab-reducer: the functions of ddp.h, and one more. */
#ifndef TEACH_LAB_REDUCER_H
#define TEACH_LAB_REDUCER_H

#include "common/comm/ddp.h"

/* How often a backward pass marks each parameter: 1; 0 if it is frozen; 2 if two layers use it.
 * Called after reducer_init and before the first pass, or not at all: then each is marked once. */
void lab_reducer_uses(Reducer *reducer, const int *uses);

#endif
