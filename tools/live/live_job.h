/*
 * live_job.h - where the parts of a running job are: what its ranks write, and the launcher's
 * store.
 *
 * Nothing is asked of the job. Its ranks' files are found in what Linux tells of their processes
 * (/proc): the flight records are mapped, the metrics are open, and the environment is the
 * launcher's. So a rank of another machine, or another user's, is known by its record only.
 */
#ifndef TOOLS_LIVE_LIVE_JOB_H
#define TOOLS_LIVE_LIVE_JOB_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    char dir[PATH_MAX]; // --checkpoint-dir
    char metrics_dir[PATH_MAX]; // --metrics-dir; empty: none is known
    char store_host[256]; // of the store; empty: unknown
    char secret_file[PATH_MAX], run_id[128]; // with which to prove that we may read it
    int store_port; // 0: unknown
    pid_t launcher; // 0: unknown
} LiveJob;

/* What its environment says of a rank; -1: unknown. */
typedef struct {
    int local_rank, node, max_restarts;
} LiveRank;

/* A job by its folder, or by the port of its store (MASTER_PORT). False: no rank on this machine
 * has that port and a flight record. */
bool live_job_find(LiveJob *job, const char *dir_or_port);

/* Has the process this rank's record mapped? What a record says of its process may be forged. */
bool live_job_has(const LiveJob *job, pid_t pid, int rank);

/* Reads what Linux knows of this rank, and updates the job: each attempt has a new port. */
LiveRank live_job_see(LiveJob *job, pid_t pid);

#endif
