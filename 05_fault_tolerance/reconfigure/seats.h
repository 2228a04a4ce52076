/*
 * seats.h - a launcher's part in going on without a restart (agreement.h): it puts a new process
 * into the seat of a rank that has ended, or that the others suspect. Only where run.sh sets
 * DDP_RECONFIGURE. The launchers of a job replace --max-restarts ranks in all. After that, after
 * errors that would occur again, and if a whole node is lost, a failure ends the attempt as usual.
 */
#ifndef FAULT_TOLERANCE_SEATS_H
#define FAULT_TOLERANCE_SEATS_H

#include "launcher/launch.h"

typedef struct {
    bool on;
    bool fills; // a rank has ended, and its seat is still to be filled: that is no failure
    int first_rank, max_restarts;
    int *incarnation; // by local rank: of the process in the seat
    Store store; // of the attempt, with the ranks' prefix
    double end_begun, next_request; // of seats_end; 0: not yet
} Seats;

bool seats_wanted(void); // is DDP_RECONFIGURE set?

/* Before the ranks of an attempt start. Usage error if their output goes to files. */
void seats_open(Seats *seats, const Flags *flags, const Agents *agents, int restart_count);
void seats_close(Seats *seats);

/* Before a process is started: tells it and the other ranks that it is new. */
void seats_announce(Seats *seats, int local_rank);

/* Whenever a worker may have ended: returns a local rank whose process is to be replaced, or -1.
 * Kills those that the others suspect. Sets `fills`. */
int seats_vacant(Seats *seats, Workers *workers);

/* Passes a request to end on to the ranks, once a second, since a new one has not got it yet, and
 * waits for a moment. Returns false if they have ended, or are to be ended now: after `seconds`, at
 * a second Ctrl-C, and if seats are not filled at all. */
bool seats_end(Seats *seats, Workers *workers, int signal, double seconds);

#endif
