/*
 * live_job.h - where the parts of a running job are: the files its ranks write, and the launcher's
 * store.
 *
 * The job gets no requests. Its ranks' files are found in Linux's information on their processes
 * (/proc): the flight records are mapped, the metrics are open, and the environment is the
 * launcher's. So a rank on another machine, or another user's, is known by its record only.
 */
#ifndef TOOLS_LIVE_LIVE_JOB_H
#define TOOLS_LIVE_LIVE_JOB_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    char dir[PATH_MAX]; // --checkpoint-dir
    char metrics_dir[PATH_MAX]; // --metrics-dir; empty if unknown
    char store_host[256]; // empty if unknown
    char secret_file[PATH_MAX], run_id[128]; // to prove that we may read the store
    int store_port; // 0 if unknown
    pid_t launcher; // 0 if unknown
} LiveJob;

/* A rank's numbers from its environment; -1 if unknown. */
typedef struct {
    int local_rank, node, max_restarts;
} LiveRank;

/* Finds a job by its folder, or by the port of its store (MASTER_PORT). Returns false if no rank on
 * this machine has that port and a flight record. */
bool live_job_find(LiveJob *job, const char *dir_or_port);

/* Returns true if the process has this rank's record mapped. The pid in a record may be forged. */
bool live_job_has(const LiveJob *job, pid_t pid, int rank);

/* Reads Linux's information on this rank, and updates the job: each attempt has a new port. */
LiveRank live_job_see(LiveJob *job, pid_t pid);

#endif
