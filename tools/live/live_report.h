/* live_report.h - what is known of a running job, as JSON for the page of tools/watch. */
#ifndef TOOLS_LIVE_LIVE_REPORT_H
#define TOOLS_LIVE_LIVE_REPORT_H

#include "tools/live/live_job.h"
#include "tools/live/store_peek.h"

/* One line of JSON; free it with free(). Reads the ranks' records and metrics, and asks nothing of
 * the job. Times are milliseconds since 1970.
 *
 *     time, dir, control, attempt, max_restarts, launcher, world_size, well, verdict, refused
 *     progress   epoch, epochs, step, steps, loss (the mean over the ranks); null before step 1
 *     ranks      of each: rank, pid, host, node, local_rank, process, call, state, since, waits_for
 *     lanes      of each rank, its last collectives: [sequence, called, begun, ended or 0, bytes]
 *     losses     of each rank, its last steps: [step, loss]
 *     tests      [epoch, step, loss, accuracy]
 *     snapshots  [file, bytes, written]
 *     store      address and keys; or null */
char *live_report(LiveJob *job, const StorePeek *peek, bool control);

typedef enum { LIVE_STOP, LIVE_CONTINUE, LIVE_KILL } LiveAction;

/* Sends SIGSTOP, SIGCONT or SIGKILL to a rank, if its process is still the one of its record, on
 * this machine, and has that record mapped: anyone who may write into the folder could have put
 * another process's number there. Returns NULL if done, else the reason why not. */
const char *live_signal(const LiveJob *job, int rank, LiveAction action);

#endif
