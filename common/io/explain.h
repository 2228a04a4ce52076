/*
 * explain.h - DDP_EXPLAIN=1: rank 0 tells a beginner, in plain sentences, what its first steps do.
 *
 * The sentences come as things happen: what is measured for a trace is put into words here.
 */
#ifndef COMMON_IO_EXPLAIN_H
#define COMMON_IO_EXPLAIN_H

#include "common/nn/model.h"

/* Starts to talk, on rank 0, if the environment asks for it and nobody listens to spans yet (a
 * trace does). Falls silent after two steps by itself. Local. */
void explain_start(const Model *model, int rank);

#endif
