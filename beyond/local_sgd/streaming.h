/*
 * streaming.h - DiLoCo in fragments, each sent at its own time and hidden behind computation:
 * Streaming DiLoCo (Douillard et al., "Streaming DiLoCo with overlapping communication: Towards a
 * distributed free lunch", 2025).
 *
 * Four fragments, rounds of 8 steps, an overlap of 2:
 *
 *     step          1   2   3   4   5   6   7   8   9  10  11  12
 *     fragment 0        s   .   a                       s   .   a    s: its all-reduce starts
 *     fragment 1                s   .   a                       s    a: the rank waits for it, and
 *     fragment 2                        s   .   a                       makes the outer step
 *     fragment 3                                s   .   a
 *
 * A fragment's outer gradient is that of step s. The outer optimizer is DiLoCo's. It ends at step
 * a, where this rank's weights are already `overlap` steps further: they become the mean of both,
 * with a weight of `mix` for this rank's own. Without an overlap nothing is mixed.
 *
 * The calls are those of diloco.h, with these names. As there, a checkpoint does not have the outer
 * momentum.
 */
#ifndef BEYOND_LOCAL_SGD_STREAMING_H
#define BEYOND_LOCAL_SGD_STREAMING_H

#include "common/comm/process_group.h"
#include "common/nn/model.h"

#define STREAMING_MAX_FRAGMENTS 64

typedef struct {
    size_t offset, numel; // its slice of the model's parameters
    int turn; // step, modulo the period, after which its all-reduce starts
    int begun; // step of the start that has not been applied yet (0 if none)
    Work work; // the all-reduce of that start
} Fragment;

typedef struct {
    int fragments; // at most STREAMING_MAX_FRAGMENTS
    int period; // steps of a round, from one start of a fragment to its next
    int overlap; // steps from a start to its outer step; less than the period
    float lr, momentum; // the outer optimizer's
    float mix; // 0: the outer step's weights replace this rank's own; 1: they are ignored
} StreamingOptions;

typedef struct {
    ProcessGroup *pg;
    Model *model;
    StreamingOptions options;
    int steps; // steps taken so far
    int ended; // `steps` at the last end of a round (streaming_end_round)
    float *
        begin; // the weights that the last outer step of a fragment has left, the same on all ranks
    float *change; // the outer gradients
    float *velocity; // the outer momentum
    Fragment fragment[STREAMING_MAX_FRAGMENTS];
} Streaming;

/* Usage error if the weights are on a GPU. Local. */
void streaming_init(Streaming *streaming, ProcessGroup *pg, Model *model, StreamingOptions options);
void streaming_step(Streaming *streaming); // collective where a fragment starts
/* Applies what is being sent, then ends a round of every fragment at once, without mixing, so that
 * all ranks have the same weights. Collective, if any step was taken since the last call. */
void streaming_end_round(Streaming *streaming);
void streaming_free(Streaming *streaming);

#endif
