/*
 * A lock on a permanent file, into which the holder writes its name. If the file were removed at
 * the end, two processes could lock different files of that name. flock also works on NFS, where a
 * machine that lost power keeps its locks until the server gives up on it.
 *
 * A user who may open the file may lock it, and so keep a run from starting. So only users who may
 * write into the folder may open it, because they could remove the checkpoints as well.
 */
#include "05_fault_tolerance/checks/folder_lock.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#define LOCK_FILE ".lock"
#define SECONDS_HERE 10.0 // time for a process of this machine to end
#define SECONDS_ELSEWHERE 120.0 // time for one of another machine, and a file server to notice
#define LOOK_MS 100 // time between attempts

typedef char Job[256]; // " of the job ... on ", or " on " if nothing names it
typedef char Holder[384]; // "process 1234" JOB "HOST"

/* Names a job by the address of its rank 0, else by its launcher's number: first by PMIx's, since
 * mpirun's ranks may be in several steps of Slurm. */
static void name_job(Job job)
{
    const char *addr = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    const char *space = getenv("PMIX_NAMESPACE");
    const char *slurm = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    char name[240] = "";
    if (addr != NULL && port != NULL)
        snprintf(name, sizeof name, "the job at %s:%s", addr, port);
    else if (space != NULL)
        snprintf(name, sizeof name, "the job %s", space);
    else if (slurm != NULL && step != NULL)
        snprintf(name, sizeof name, "the job %s.%s", slurm, step);
    snprintf(job, sizeof(Job), "%s%s on ", name[0] != '\0' ? " of " : "", name);
}

static void name_this_process(Holder holder)
{
    Job job;
    char host[64] = "";
    name_job(job);
    gethostname(host, sizeof host - 1);
    snprintf(holder, sizeof(Holder), "process %d%s%s", (int)getpid(), job, host);
}

/* Reads the holder's name from the file, which any user may have written. */
static void read_holder(int fd, Holder holder)
{
    const ssize_t length = pread(fd, holder, sizeof(Holder) - 1, 0);
    holder[length > 0 ? length : 0] = '\0';
    for (char *c = holder; *c != '\0'; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    if (holder[0] == '\0')
        snprintf(holder, sizeof(Holder), "another process");
}

static bool is_here(const Holder holder, const Holder ours)
{
    const char *host = strstr(holder, " on ");
    return host != NULL && strcmp(host, strstr(ours, " on ")) == 0;
}

/* Waits for the holder to end. The first attempt may have failed because of the short lock of
 * folder_lock_is_foreign. */
static void wait_for_holder(int fd, const char *dir, const Holder ours)
{
    Holder holder;
    const double begun = seconds_awake();
    for (int tries = 1; flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; tries++) {
        read_holder(fd, holder);
        const double timeout = is_here(holder, ours) ? SECONDS_HERE : SECONDS_ELSEWHERE;
        if (tries == 2)
            log_info("%s is in use by %s: waits %g s at most, in case it is just ending", dir,
                     holder, timeout);
        if (seconds_awake() > begun + timeout)
            usage_error("%s saves its snapshots in %s: wait for its end, or name another folder "
                        "with --checkpoint-dir",
                        holder, dir);
        poll(NULL, 0, LOOK_MS);
    }
}

/* Returns -1 if the lock's file does not exist, or cannot be opened. */
static int open_lock(const char *dir, int flags)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/" LOCK_FILE, dir);
    return length < (int)sizeof path ? open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)
                                     : -1;
}

/* Refuses a lock's file that cannot be used: without a lock a run would overwrite another's files,
 * and writing its name through a link would destroy the link's target. */
static void refuse_strange_lock(const char *dir, int fd, int reason)
{
    struct stat file = { 0 };
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" LOCK_FILE, dir);
    const bool is_there = lstat(path, &file) == 0;
    if (is_there && fd < 0 && reason == EACCES)
        usage_error("%s belongs to another user, and this run may not lock it: name another folder "
                    "with --checkpoint-dir",
                    path);
    if (is_there && (!S_ISREG(file.st_mode) || file.st_nlink > 1))
        usage_error("%s is a link or no file: remove it, or name another folder with "
                    "--checkpoint-dir",
                    path);
}

/* Lets users who may write into the folder lock it, if the file is ours. Where the sticky bit keeps
 * users from replacing each other's files, as in /tmp, they cannot share a run's folder either. */
static void share_lock(const char *dir, int fd)
{
    struct stat folder, file;
    if (stat(dir, &folder) < 0 || fstat(fd, &file) < 0)
        return;
    const mode_t writers = (folder.st_mode & S_ISVTX) != 0 ? 0 : folder.st_mode;
    const bool has_group =
        file.st_gid == folder.st_gid || fchown(fd, (uid_t)-1, folder.st_gid) == 0;
    fchmod(fd, (writers & S_IWOTH) != 0                ? 0666
               : (writers & S_IWGRP) != 0 && has_group ? 0660
                                                       : 0600);
}

int folder_lock(const char *dir)
{
    int fd = folder_try(dir) ? open_lock(dir, O_RDWR | O_CREAT) : -1;
    if (fd < 0 && errno == EACCES)
        fd = open_lock(dir, O_RDONLY); // another user's file; flock needs no more
    refuse_strange_lock(dir, fd, errno);
    if (fd < 0)
        return -1;
    share_lock(dir, fd);
    Holder ours;
    name_this_process(ours);
    wait_for_holder(fd, dir, ours);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, ours, strlen(ours), 0) < 0)
        log_warning("cannot write %s/" LOCK_FILE ": %s", dir, strerror(errno)); // still locked
    return fd;
}

bool folder_lock_is_foreign(const char *dir)
{
    const int fd = open_lock(dir, O_RDONLY);
    if (fd < 0)
        return false;
    Job job;
    Holder holder;
    name_job(job);
    const bool is_locked = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    read_holder(fd, holder);
    close(fd);
    return is_locked && strstr(holder, job) == NULL;
}
