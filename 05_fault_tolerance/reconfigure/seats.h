/*
 * seats.h - a launcher's part in continuing without a restart (agreement.h): it puts a new process
 * into the seat of a rank that has ended, or that the others suspect. Only where run.sh sets
 * DDP_RECONFIGURE. The launchers of a job replace --max-restarts ranks in all. After that, after
 * errors that would occur again, and if a whole node is lost, a failure ends the attempt as usual.
 */
#ifndef FAULT_TOLERANCE_SEATS_H
#define FAULT_TOLERANCE_SEATS_H

#include "launcher/launch.h"

typedef struct {
    bool on;
    bool fills; // a rank has ended, and its seat must still be filled: that is no failure
    int first_rank, max_restarts;
    int *incarnation; // by local rank, that of the process in the seat
    Store store; // the attempt's, with the ranks' prefix
    double end_begun, next_request; // for seats_end; 0: not yet
} Seats;

bool seats_enabled(void); // returns whether DDP_RECONFIGURE is set

/* Prepares the seats of an attempt before its ranks start. Usage error if output goes to files. */
void seats_open(Seats *seats, const Flags *flags, const Agents *agents, int restart_count);
void seats_close(Seats *seats);

/* Announces a new process, before it is started, to itself and to the other ranks. */
void seats_announce(Seats *seats, int local_rank);

/* Returns a local rank whose process must be replaced, or -1; call it when a worker may have ended.
 * Kills those that the others suspect. Sets `fills`. */
int seats_vacant(Seats *seats, Workers *workers);

/* Passes a request to end on to the ranks, once a second, since a new one has not got it yet, and
 * waits for a moment. Returns false if they have ended, or must be ended now: after `seconds`, at a
 * second Ctrl-C, and if seats are not filled at all. */
bool seats_end(Seats *seats, Workers *workers, int signal, double seconds);

#endif
