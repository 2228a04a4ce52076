/*
 * rank_watch.h - finds out which rank the others wait for in vain, for backends that cannot tell.
 *
 * Each rank leaves a report in the store every period: a sign of life, and how far it has come. Who
 * waits for long reads the reports of the others: a rank whose report no longer changes is gone,
 * one that has made fewer calls is missing. Whoever finds out first says so in the store, so that
 * all ranks end with the same line. PyTorch's ProcessGroupNCCL compares the ranks' sequence numbers
 * through its store in the same way.
 *
 * For one thread of each rank, which does hardly anything else.
 */
#ifndef COMMON_DIST_RANK_WATCH_H
#define COMMON_DIST_RANK_WATCH_H

#include <stdnoreturn.h>

#include "common/dist/backend.h"

#define REPORT_CALLS_BYTES 512

/* What a rank tells of itself; goes through the store as it is. */
typedef struct {
    uint64_t beat; // counts the reports
    uint64_t serves_store; // is the store in this rank's process?
    char busy[DESCRIPTION_BYTES]; // what it waits for; "": nothing
    char calls[REPORT_CALLS_BYTES]; // "12 NAME\n" for each of its groups: calls started there
} RankReport;

typedef struct {
    const ProcessGroup *pg; // of all ranks
    Store store; // a connection of its own: that of pg is the main thread's
    double period; // seconds between two reports
    double patience; // after so long others are to be looked at ...
    double silence; // ... and a rank whose report does not change for so long is gone
    RankReport *reports; // by rank, as last seen
    double *since; // by rank: when its last beat was seen first
    bool looking; // since rank_watch_forget
    uint64_t beat;
    void (*before_end)(void *context); // the last thing to be done before the process ends
    void *context;
} RankWatch;

/* Opens the connection, and waits until all ranks have left a first report. Collective. */
void rank_watch_init(RankWatch *watch, const ProcessGroup *pg, void (*before_end)(void *context),
                     void *context);
void rank_watch_free(RankWatch *watch);

/* Adds "12 NAME" to what a report says of calls. */
void report_add_calls(RankReport *report, const char *group, uint64_t calls);

/* To be called every period: leaves this rank's report, in which busy and calls are set. Ends the
 * process if another rank has ended the group, or if the store is gone. */
void rank_watch_tell(RankWatch *watch, const RankReport *report);

/* Reads all reports. Returns the rank that has been silent for too long, or -1. */
int rank_watch_look(RankWatch *watch);
void rank_watch_forget(RankWatch *watch); // what has been seen: there is no trouble any more

#define BLAME_BYTES 512

/* By the reports, who is to blame that this call has not ended within the timeout? call NULL: what
 * is not ended is no call. `what` describes it. Writes the line to `line`, returns it. */
char *rank_watch_blame(const RankWatch *watch, const Collective *call, const char *what,
                       char line[BLAME_BYTES]);

/* Ends the group: this process, and in their next rank_watch_tell all others, die with the line of
 * whoever came first. */
noreturn void rank_watch_end(RankWatch *watch, const char *line);

#endif
