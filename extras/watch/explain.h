/*
 * explain.h - DDP_EXPLAIN=1: rank 0 explains its first steps to a beginner, in plain sentences.
 *
 * It prints them as things happen, from the same spans as a trace.
 */
#ifndef EXTRAS_WATCH_EXPLAIN_H
#define EXTRAS_WATCH_EXPLAIN_H

#include "common/nn/model.h"

/* Starts on rank 0, if the environment asks for it; warns instead if spans already have a listener,
 * such as a trace. Stops by itself after two steps. Local. */
void explain_start(const Model *model, int rank);

/* Returns true if the environment asks this rank to explain. */
bool explain_enabled(int rank);

/* Notes that an all_reduce of gradients has been called. */
void explain_bucket(size_t bytes);

#endif
