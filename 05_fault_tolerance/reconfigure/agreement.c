/*
 * There is no leader whose death would have to be noticed. If a rank dies while it proposes,
 * another one does. beyond/proved/reconfigure.pml is a model of this file, and tests/simulation
 * runs it.
 */
#include "05_fault_tolerance/reconfigure/agreement.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

#define LOOK_MS 10 // between two reads of the store
#define NEW_SECONDS 60.0 // time for a new process to take its seat, unless --timeout is longer
#define RECORD_BYTES (16 * MAX_RANKS)

typedef struct {
    char key[TEXT_BYTES], text[TEXT_BYTES];
    int incarnation;
    int64_t left; // the generation that it has left; -1 if none yet
} Seat;

void agreement_look(Store *store, const char *key, char *text, size_t bytes)
{
    memset(text, 0, bytes);
    store_compare_set(store, key, "-", "-", text, bytes - 1); // changes nothing
    if (strcmp(text, "-") == 0)
        text[0] = '\0';
}

static Seat look_at_seat(const Agreement *a, int rank)
{
    Seat seat = { .incarnation = -1, .left = -1 };
    snprintf(seat.key, sizeof seat.key, "seat/%d", rank);
    agreement_look(a->store, seat.key, seat.text, sizeof seat.text);
    sscanf(seat.text, "%d %" SCNd64, &seat.incarnation, &seat.left);
    return seat;
}

/* Allows one suspicion at a time. Of two ranks that do not reach each other, one is killed. */
void agreement_suspect(const Agreement *a, int rank, int incarnation)
{
    char earlier[TEXT_BYTES], ours[TEXT_BYTES], now[TEXT_BYTES];
    int other, its_incarnation;
    agreement_look(a->store, "suspect", earlier, sizeof earlier);
    if (sscanf(earlier, "%d %d", &other, &its_incarnation) == 2 &&
        look_at_seat(a, other).incarnation == its_incarnation)
        return;
    snprintf(ours, sizeof ours, "%d %d", rank, incarnation);
    store_compare_set(a->store, "suspect", earlier, ours, now, sizeof now);
}

/* Writes into this rank's seat which generation it has left. Returns false if it is another's. */
static bool report(const Agreement *a, int64_t left)
{
    char ours[TEXT_BYTES], now[TEXT_BYTES] = "";
    const Seat seat = look_at_seat(a, a->rank);
    snprintf(ours, sizeof ours, "%d %" PRId64, a->incarnation, left);
    if (seat.incarnation == a->incarnation)
        store_compare_set(a->store, seat.key, seat.text, ours, now, sizeof now - 1);
    return strcmp(now, ours) == 0;
}

/* If all seats have left this generation, writes the next one, unless another rank was faster. */
static void propose(const Agreement *a, int64_t left, const char *record)
{
    char next[RECORD_BYTES], now[RECORD_BYTES];
    int length = snprintf(next, sizeof next, "%" PRId64, left + 1);
    for (int rank = 0; rank < a->world_size; rank++) {
        const Seat seat = look_at_seat(a, rank);
        if (seat.left != left)
            return;
        length += snprintf(next + length, sizeof next - (size_t)length, " %d", seat.incarnation);
    }
    store_compare_set(a->store, "generation", record, next, now, sizeof now);
}

/* Reads the record of a generation. Returns whether this process is in it. */
static bool is_member(Agreement *a, char *record)
{
    a->generation = strtoll(record, &record, 10);
    for (int rank = 0; rank < a->world_size; rank++)
        a->member[rank] = (int)strtol(record, &record, 10);
    return a->member[a->rank] == a->incarnation;
}

int agreement_next(Agreement *a)
{
    char record[RECORD_BYTES], end[TEXT_BYTES];
    int64_t left = -1; // as in this rank's seat; -1 if it has left none yet
    double since = seconds_awake();
    for (int rank = 0;;) {
        agreement_look(a->store, "generation", record, sizeof record);
        const int64_t newest = strtoll(record, NULL, 10); // 0 if there is none yet
        agreement_look(a->store, "end", end, sizeof end);
        if (end[0] != '\0')
            return atoi(end);
        if (left >= 0 && newest != left && is_member(a, record))
            return -1;
        left = newest;
        if (!report(a, left)) // again in each round, as this process may have been replaced
            return EXIT_FAILURE;
        const Seat seat = look_at_seat(a, rank);
        if (seat.left == left) {
            since = seconds_awake();
            if (++rank == a->world_size)
                propose(a, left, record);
            rank %= a->world_size; // one may have been replaced meanwhile
            continue;
        }
        if (seconds_awake() > since + fmax(a->timeout, seat.left < 0 ? NEW_SECONDS : 0))
            agreement_suspect(a, rank, seat.incarnation);
        poll(NULL, 0, LOOK_MS);
    }
}
