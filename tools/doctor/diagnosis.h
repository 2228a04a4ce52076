/* diagnosis.h - what the flight records say about a run, in a sentence or two. */
#ifndef TOOLS_DOCTOR_DIAGNOSIS_H
#define TOOLS_DOCTOR_DIAGNOSIS_H

#include "tools/doctor/attempt.h"
#include "tools/doctor/wait_times.h"

#define DIAGNOSIS_BYTES 2048

/* Writes the verdict: who calls something else, who is missing, gone, stopped or stuck while others
 * wait in which call, who is slow, for which disk a rank waits; or that all is well. Returns true
 * for the last. `now` is flight_now(). Local. */
bool diagnose(const Attempt *attempt, const WaitTimes *times, int64_t now,
              char text[DIAGNOSIS_BYTES]);

#endif
