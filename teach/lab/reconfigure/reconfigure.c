/*
 * lab-reconfigure: the ranks that a failure leaves, and new ones, agree in the store on the next
 * group. 05_fault_tolerance/reconfigure/agreement.h has the keys and their texts: read it first.
 *
 * There is no leader. Any rank may die between any two of its lines, and others go on. So every
 * decision is one store_compare_set, which one of several ranks wins.
 *
 * Wait with poll(NULL, 0, LOOK_MS), and ask seconds_now for the time. The judge runs this file over
 * a clock of its own, which knows these two and the store's calls, and no others.
 */
#include "05_fault_tolerance/reconfigure/agreement.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

#define LOOK_MS 10 // between two reads of the store
#define NEW_SECONDS 60.0 // for a new process to take its seat, unless a->timeout is longer
#define RECORD_BYTES (16 * MAX_RANKS) // of a generation's text

typedef struct {
    char key[TEXT_BYTES], text[TEXT_BYTES];
    int incarnation;
    int64_t left; // the generation that it has left; -1 if none yet ("new")
} Seat;

/* Rung 1. store_get would wait for the key. A store_compare_set that changes nothing does not. */
void agreement_look(Store *store, const char *key, char *text, size_t bytes)
{
    (void)store, (void)key, (void)text, (void)bytes;
    die("agreement_look is not written yet");
}

static Seat look_at_seat(const Agreement *a, int rank)
{
    Seat seat = { .incarnation = -1, .left = -1 };
    snprintf(seat.key, sizeof seat.key, "seat/%d", rank);
    agreement_look(a->store, seat.key, seat.text, sizeof seat.text);
    sscanf(seat.text, "%d %" SCNd64, &seat.incarnation, &seat.left);
    return seat;
}

/* Rung 3. One suspicion at a time: an earlier one stays as long as its process has its seat. */
void agreement_suspect(const Agreement *a, int rank, int incarnation)
{
    (void)a, (void)rank, (void)incarnation;
    die("agreement_suspect is not written yet");
}

/* Writes into this rank's seat which generation it has left. Returns false if it is another's. */
static bool report(const Agreement *a, int64_t left)
{
    (void)a, (void)left, (void)look_at_seat;
    die("report is not written yet");
}

/* If all seats have left this generation, writes the next one, unless another rank was faster. The
 * record is the text that was read as the generation's. */
static void propose(const Agreement *a, int64_t left, const char *record)
{
    (void)a, (void)left, (void)record;
    die("propose is not written yet");
}

/* Reads the record of a generation. Returns whether this process is in it. */
static bool is_member(Agreement *a, char *record)
{
    (void)a, (void)record;
    die("is_member is not written yet");
}

int agreement_next(Agreement *a)
{
    (void)a, (void)report, (void)propose, (void)is_member;
    die("agreement_next is not written yet");
}
