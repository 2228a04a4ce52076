/* attempt.h - the flight records of all ranks of a run's newest attempt, side by side. */
#ifndef TOOLS_DOCTOR_ATTEMPT_H
#define TOOLS_DOCTOR_ATTEMPT_H

#include <limits.h>

#include "05_fault_tolerance/checks/flight_record.h"

/* The state of a rank's process. */
typedef enum {
    PROCESS_NO_RECORD, // nothing is known of it
    PROCESS_ELSEWHERE, // on another machine: it may be there or not
    PROCESS_RUNNING,
    PROCESS_STOPPED, // by SIGSTOP, a terminal or a debugger
    PROCESS_GONE, // ended without recording that it was done
    PROCESS_FINISHED, // trained to the end
} ProcessState;

const char *process_name(ProcessState state); // "running"

typedef struct {
    FlightRecord *record; // NULL: none of this attempt
    ProcessState process;
    const FlightEntry *last; // its newest call; NULL: none so far
    const FlightEntry *open; // its oldest call that is not completed; NULL: none
} Flight;

/* One rank's part in a collective. */
typedef struct {
    const FlightEntry *entry;
    int rank;
} Part;

typedef struct {
    char folder[PATH_MAX]; // where the records are
    int world_size, restart_count;
    bool joining; // the group has not formed
    Flight *flight; // by rank
    Part *part; // all recorded calls except send and recv, by group, sequence and rank
    size_t num_parts;
    char *refused; // "rank3.flight: why it was not read", the first such; NULL: none
} Attempt;

/* Reads the records in DIR/flight, or else DIR. False: there are none, and refused may say why.
 * Free it in any case. Local. */
bool attempt_load(Attempt *attempt, const char *dir);
void attempt_free(Attempt *attempt);

/* The first part of the next collective. */
const Part *attempt_next(const Attempt *attempt, const Part *part);

/* How far an entry has come: "scheduled", "started", "completed" or "failed", and since when. */
const char *entry_state(const FlightEntry *entry, int64_t *since_ns);

#endif
