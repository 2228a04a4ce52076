/* rank_watch.h - finds the rank that keeps the others waiting, for backends that cannot name it.
 *
 * Each rank writes a report to the store every period: a heartbeat and its progress. A rank that
 * waits for long reads the others' reports: a rank whose report no longer changes is gone, one that
 * has made fewer calls is missing. The first rank to find this writes it to the store, so that all
 * end with the same line. PyTorch's ProcessGroupNCCL compares the ranks' sequence numbers through
 * its store in the same way.
 *
 * Only one thread of each rank uses it, the watchdog. */
#ifndef COMMON_COMM_NCCL_RANK_WATCH_H
#define COMMON_COMM_NCCL_RANK_WATCH_H

#include <stdnoreturn.h>

#include "common/comm/backend.h"

/* A rank's report, stored as it is. */
typedef struct {
    uint64_t number; // number of the report, counted from 1
    uint64_t serves_store; // whether the store is in this rank's process
    uint64_t keeps_alive; // see process_group_keep_alive
    uint64_t num_calls; // calls started, send and recv excluded
    char busy[DESCRIPTION_BYTES]; // what the rank waits for, or ""
} RankReport;

typedef struct {
    const ProcessGroup *pg; // the group of all ranks
    Store store; // a connection of its own, since pg's is the main thread's
    double period; // seconds between two reports
    double wait_limit; // seconds of waiting after which the others are checked
    double silence; // seconds after which a rank whose report has not changed is gone
    RankReport *reports; // each rank's report, as last seen
    double *since; // when each rank's last report was first seen
    double kept_alive_at; // when the last report of a rank that keeps_alive was first seen
    bool polling; // if false, the next poll forgets what was seen before
    uint64_t num_reports; // reports published by this rank
} RankWatch;

/* Opens the connection, and waits until all ranks have written a first report. Collective. */
void rank_watch_init(RankWatch *watch, const ProcessGroup *pg);
void rank_watch_free(RankWatch *watch);

/* Writes this rank's report, whose busy and num_calls are set. Call it every period. Ends the
 * process if another rank has ended the group, or if the store is gone. */
void rank_watch_publish(RankWatch *watch, const RankReport *report);

/* Reads all reports. Returns the rank that has been silent for too long, or -1. */
int rank_watch_poll(RankWatch *watch);

#define BLAME_BYTES 512

/* Finds from the reports which rank kept this call from ending within the timeout. `call` is NULL
 * for a setup. `what` describes it. Writes the message to `line`, returns it. */
char *rank_watch_blame(const RankWatch *watch, const Collective *call, const char *what,
                       char line[BLAME_BYTES]);

/* Ends the group: this process, and all others in their next rank_watch_publish, die with the line
 * of the first to call this. On rank 1 itself, if it was only stopped and wakes, a line "rank 1 is
 * ..." is reworded to "the others gave up waiting for this rank, which was ...". */
noreturn void rank_watch_end(RankWatch *watch, const char *line);

#endif
