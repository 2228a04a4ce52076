/*
 * explain.h - DDP_EXPLAIN=1: rank 0 explains its first steps to a beginner, in plain sentences.
 *
 * It prints them as things happen, from the same spans as a trace.
 */
#ifndef COMMON_IO_EXPLAIN_H
#define COMMON_IO_EXPLAIN_H

#include "common/nn/model.h"

/* Starts on rank 0, if the environment asks for it and nobody listens to spans yet (a trace does),
 * else a warning. Stops by itself after two steps. Local. */
void explain_start(const Model *model, int rank);

#endif
