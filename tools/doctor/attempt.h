/* attempt.h - the flight records of all ranks of a run's newest attempt, side by side. */
#ifndef TOOLS_DOCTOR_ATTEMPT_H
#define TOOLS_DOCTOR_ATTEMPT_H

#include <limits.h>

#include "05_fault_tolerance/checks/flight_record.h"

/* The state of a rank's process. */
typedef enum {
    PROCESS_NO_RECORD, // nothing is known about it
    PROCESS_ELSEWHERE, // on another machine, so its state is unknown
    PROCESS_RUNNING,
    PROCESS_STOPPED, // stopped by SIGSTOP, a terminal or a debugger
    PROCESS_GONE, // ended without recording that it was done
    PROCESS_FINISHED, // trained to the end
} ProcessState;

const char *process_name(ProcessState state); // e.g. "running"

typedef struct {
    FlightRecord *record; // NULL if none in this attempt
    ProcessState process;
    const FlightEntry *last; // its newest call; NULL if none so far
    const FlightEntry *open; // its oldest call that is not completed; NULL if none
} Flight;

/* One rank's part in a collective. */
typedef struct {
    const FlightEntry *entry;
    int rank;
} Part;

typedef struct {
    char folder[PATH_MAX]; // the folder with the records
    int world_size, restart_count;
    bool joining; // true until the group has formed
    Flight *flight; // indexed by rank
    Part *part; // all recorded calls except send and recv, by group, sequence and rank
    size_t num_parts;
    char *refused; // "rank3.flight: why it was not read", the first of them; NULL if none
} Attempt;

/* Reads the records in DIR/flight, or else DIR. Returns false if there are none; refused may then
 * give the reason. Free it in any case. Local. */
bool attempt_load(Attempt *attempt, const char *dir);
void attempt_free(Attempt *attempt);

/* Returns the first part of the next collective. */
const Part *attempt_next(const Attempt *attempt, const Part *part);

/* Returns an entry's state, "scheduled", "started", "completed" or "failed", and sets *since_ns. */
const char *entry_state(const FlightEntry *entry, int64_t *since_ns);

#endif
