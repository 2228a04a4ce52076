/* wait_times.h - which ranks wait in the collectives, and for which. */
#ifndef TOOLS_DOCTOR_WAIT_TIMES_H
#define TOOLS_DOCTOR_WAIT_TIMES_H

#include "tools/doctor/attempt.h"

/* Single long waits, for a file to be written, count for at most twice the mean in `usual`. */
typedef struct {
    double waits; // share of its time that the rank has waited for others ...
    double usual; // ... without single long waits
    double blamed; // share of all usual waiting that was for this rank
} RankWaits;

typedef struct {
    RankWaits *rank; // NULL if too few collectives are recorded
    double usual; // mean over the ranks
    int slowest; // the rank others wait for most
} WaitTimes;

/* Computes the waits from the collectives that all ranks of a group have completed and that end on
 * all of them at once. Free rank with free(). Local. */
void wait_times(WaitTimes *times, const Attempt *attempt);

#endif
