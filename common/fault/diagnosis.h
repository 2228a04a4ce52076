/* diagnosis.h - what the flight records say about a run, in a sentence or two. */
#ifndef COMMON_FAULT_DIAGNOSIS_H
#define COMMON_FAULT_DIAGNOSIS_H

#include "common/fault/attempt.h"
#include "common/fault/wait_times.h"

#define DIAGNOSIS_BYTES 2048

/* Writes the verdict: who calls something else, who is missing, gone, stopped or stuck while others
 * wait in which call, who is slow; or that all is well. Returns true for the last. `now` is
 * flight_now(). Local. */
bool diagnose(const Attempt *attempt, const WaitTimes *times, int64_t now,
              char text[DIAGNOSIS_BYTES]);

#endif
