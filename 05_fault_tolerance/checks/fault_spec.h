/*
 * fault_spec.h - faults to inject, as they are written: --inject KIND:RANK:STEP.
 *
 *     kill:1:20         SIGKILL to rank 1 after its step 20: a machine that is lost
 *     stop:1:20         SIGSTOP instead: it exists, but is silent
 *     exit:1:20         it ends by itself, with a line and status 1
 *     slow:1:20:50      from step 20 on, it sleeps 50 ms after every step (100 if none are given)
 *     corrupt-grad:1:20 its gradients of step 20 are 1000 times too large: all replicas follow
 *     bitflip:1:20      after step 20, one bit of one of its weights flips: the replicas differ
 *
 * Several are separated by commas. Steps are those of the metrics: counted from 1 over the whole
 * run. A fault happens in the first attempt only, so that the restarted run succeeds; kill:0:30@1
 * waits for the first restart.
 */
#ifndef FAULT_TOLERANCE_FAULT_SPEC_H
#define FAULT_TOLERANCE_FAULT_SPEC_H

#include <stdint.h>

#include "common/base/args.h"

#define MAX_FAULTS 16

typedef enum {
    FAULT_KILL,
    FAULT_STOP,
    FAULT_SLOW,
    FAULT_EXIT,
    FAULT_CORRUPT_GRAD,
    FAULT_BITFLIP,
} FaultKind;

typedef struct {
    FaultKind kind;
    int rank;
    uint64_t step; // counted from 1
    int milliseconds; // the sleep of FAULT_SLOW
    int attempt; // restarts before it happens
} Fault;

/* Parses one fault, as above, up to a comma or a 0. Returns the rest of the text, or NULL if it is
 * not a fault. */
const char *fault_parse(Fault *fault, const char *text);

/* Dies with a usage error unless the text of --inject is a list of such faults, or NULL. */
void faults_check(const Args *args);

#endif
