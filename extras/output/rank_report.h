/* rank_report.h - which rank failed first, with its message, and how the node's other ranks ended.
 * On a terminal it is one block: what, who, since when, what next (fault_block.c). */
#ifndef WATCH_RANK_REPORT_H
#define WATCH_RANK_REPORT_H

#include "launcher/launch.h"

/* Prints to standard error the failure that ended the job, then how this node's other ranks ended.
 */
void rank_report(const Failure *root, const Workers *workers, int first_rank);

/* Prints to a terminal the failure that ended the job (attempt is -1) or this attempt of it.
 * Returns false, printing nothing, if standard error is no terminal. */
bool fault_block_print(const Failure *root, const Workers *workers, int first_rank, int attempt);

/* Describes how a worker ended: "exit status 1, told to end by ddprun". */
#define WORKER_END_BYTES 128
const char *worker_end(const Worker *worker, char text[WORKER_END_BYTES]);

/* The last messages of the ranks: on a terminal each is printed once (terminal.h), and the block
 * lists the ranks that have the same one. Call _open before the ranks start, _read when they have
 * ended and their files are still there. */
void rank_messages_open(const Logs *logs);
void rank_messages_read(const Logs *logs);

#endif
