/*
 * ranks.h - what the harnesses of the library labs share: forked ranks, faults, and a malloc that
 * counts.
 *
 * - lab_run forks the ranks and prints the fault of the first rank that has one, as "NAME: TEXT".
 * - pg_send and pg_recv are rendezvous here: a send waits until the other rank receives. Once no
 * rank can go on, that is a fault at once, and no matter of time.
 * - A clock counts bytes: a message begins when both ranks are there, and takes as long as it has
 * bytes.
 */
#ifndef TEACH_LAB_RANKS_H
#define TEACH_LAB_RANKS_H

#include <stdnoreturn.h>

#include "common/comm/process_group.h"

#define LAB_RANKS 8 // at most

/* Runs body(pg, context) in world_size processes; returns 0, or 1 after a fault was printed. */
int lab_run(int world_size, void (*body)(ProcessGroup *pg, void *context), void *context);

/* Ends this rank with a fault: the name of a hint, and what was seen. */
noreturn void fault(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void lab_stage(const char *name); // what the harness tries now: told if the rank crashes

void lab_done(void); // before a harness ends a rank: a status of 0 alone says nothing

void lab_barrier(void); // all ranks meet, without a message

/* Memory that all ranks see, from before they are forked; all zero. */
void *lab_shared(size_t bytes);

/* What this rank has sent and allocated since lab_reset. */
typedef struct {
    size_t sent; // bytes
    double clock;
    bool peer[LAB_RANKS]; // with whom it has exchanged messages
    size_t live, peak; // bytes that the learner's file has allocated
} LabCount;

extern LabCount lab_count;
void lab_reset(void); // collective

/* A number that depends on all of these, spread evenly. */
uint64_t lab_draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

#endif
