/*
 * ranks.h - what the harnesses of the library labs share: forked ranks, faults, and a malloc that
 * counts.
 *
 * - lab_run forks the ranks and prints the fault of the first rank that has one, as "NAME: TEXT".
 * - pg_send and pg_recv are rendezvous here: a send waits until the other rank receives. A deadlock
 * is a fault at once, without a timeout.
 * - A clock counts bytes: a message begins when both ranks are there, and takes as long as it has
 * bytes.
 */
#ifndef TEACH_LAB_RANKS_H
#define TEACH_LAB_RANKS_H

#include <stdnoreturn.h>

#include "common/comm/process_group.h"

#define LAB_RANKS 8 // most ranks

/* Runs body(pg, context) in world_size processes; returns 0, or 1 after a fault was printed. */
int lab_run(int world_size, void (*body)(ProcessGroup *pg, void *context), void *context);

/* Ends this rank with a fault: the name of a hint, and what was seen. */
noreturn void fault(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void lab_stage(const char *name); // sets what is printed if the rank crashes

/* Says what the ranks try now, and the name of the hint if they get stuck there. */
void lab_tries(const char *if_stuck, const char *text);

void lab_done(void); // call before a harness ends a rank, as a status of 0 proves nothing

void lab_barrier(void); // waits for all ranks, without a message

/* Returns zeroed memory that all ranks share. Call it before they are forked. */
void *lab_shared(size_t bytes);

/* What this rank has sent and allocated since lab_reset. */
typedef struct {
    size_t sent, longest; // bytes of all messages, and of the longest
    double clock;
    bool peer[LAB_RANKS]; // the ranks with which it has exchanged messages
    size_t live, peak; // bytes that the learner's file has allocated
} LabCount;

extern LabCount lab_count;
void lab_reset(void); // collective

/* Returns a number that depends on all of these, spread evenly. */
uint64_t lab_draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

#endif
