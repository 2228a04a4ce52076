/* diagnosis.h - what the flight records show about a run, in a sentence or two. */
#ifndef TOOLS_DOCTOR_DIAGNOSIS_H
#define TOOLS_DOCTOR_DIAGNOSIS_H

#include "tools/doctor/attempt.h"
#include "tools/doctor/wait_times.h"

#define DIAGNOSIS_BYTES 2048

/* Writes the verdict: which ranks make a different call; which are missing, gone, stopped or stuck,
 * and in which call the others wait; which rank is slow; for which disk a rank waits; or that all
 * is well. Returns true if all is well. `now` is flight_now(). Local. */
bool diagnose(const Attempt *attempt, const WaitTimes *times, int64_t now,
              char text[DIAGNOSIS_BYTES]);

/* Marks the ranks that this call waits for: the members of its group that do not wait themselves,
 * and have not made the call or were stopped or lost in it. */
void diagnosis_culprits(const Attempt *attempt, const FlightEntry *call, bool *culprit);

#endif
