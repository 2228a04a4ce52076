/*
 * agreement.h - the ranks that a failure leaves, and new ones, agree in the store on the next
 * group: a generation, with an incarnation (a process, counted from 0) in each seat (rank).
 *
 * Under the attempt's prefix; each value is one text, which is compared as a whole:
 *
 *     seat/<rank>   "<incarnation> new" by its launcher (seats.h), and by the process itself
 *                   "<incarnation> <generation that it has left>"
 *     generation    "<number> <incarnation in each seat> ..."
 *     suspect       "<rank> <incarnation>": it keeps the others waiting; its launcher kills it
 *     end           the exit status of all, when rank 0 has written the last file
 *
 * A rank that loses its group leaves it and notes it in its seat. When all seats have left the same
 * generation, every rank proposes the next, by compare_set: the first proposal counts.
 */
#ifndef FAULT_TOLERANCE_AGREEMENT_H
#define FAULT_TOLERANCE_AGREEMENT_H

#include "common/comm/store/store.h"

#define MAX_RANKS 512
#define TEXT_BYTES 64 // size of a key, and of all values but a generation's

typedef struct {
    Store *store;
    int rank, world_size, incarnation; // this process's
    double timeout; // seconds to wait for a rank before it is suspected
    int64_t generation; // this rank's (0 if none yet)
    int member[MAX_RANKS]; // its incarnations
} Agreement;

/* Leaves this rank's generation and waits for the next that it is in. Returns -1, or the status to
 * exit with if another process has the seat, or training has ended meanwhile. */
int agreement_next(Agreement *agreement);

/* Reports that this incarnation of `rank` keeps the others waiting. */
void agreement_suspect(const Agreement *agreement, int rank, int incarnation);

/* Reads a key without waiting for it; "" if it is not set. For launchers, too. */
void agreement_look(Store *store, const char *key, char *text, size_t bytes);

#endif
