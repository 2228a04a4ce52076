/* /proc/PID/environ, /maps and /fd of the ranks; see proc(5). */
#include "tools/live/live_job.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/flight_record.h"

enum { ENVIRON_BYTES = 128 << 10 };

/* Returns the process's environment plus another 0; free it. NULL if it is gone, or not ours. */
static char *read_environ(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? calloc(1, ENVIRON_BYTES + 2) : NULL;
    size_t length = 0;
    for (ssize_t n; text != NULL && length < ENVIRON_BYTES &&
                    (n = read(fd, text + length, ENVIRON_BYTES - length)) > 0;)
        length += (size_t)n;
    if (fd >= 0)
        close(fd);
    return text;
}

static const char *variable(const char *environ, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = environ; at != NULL && *at != '\0'; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static int number_of(const char *environ, const char *name)
{
    const char *text = variable(environ, name);
    return text != NULL && isdigit((unsigned char)text[0]) ? atoi(text) : -1;
}

/* Cuts the file's name, and the name of the folder that it is in, if that is `folder`. */
static void folder_of(char *path, const char *folder)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
    slash = strrchr(path, '/');
    if (slash != NULL && folder != NULL && strcmp(slash + 1, folder) == 0)
        *slash = '\0';
}

/* Finds the flight record that the process has mapped; returns false if there is none. The name of
 * a removed file ends with " (deleted)", so it is not found. */
static bool find_record(pid_t pid, char record[PATH_MAX])
{
    static const char ending[] = ".flight\n";
    char name[64], *line = NULL;
    size_t bytes = 0;
    bool found = false;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(name, "re");
    while (file != NULL && !found && getline(&line, &bytes, file) > 0) {
        const char *path = strchr(line, '/');
        const size_t length = path != NULL ? strlen(path) : 0;
        found = length > sizeof ending && strcmp(path + length - sizeof ending + 1, ending) == 0 &&
                strstr(path, "/" FLIGHT_FOLDER "/rank") != NULL &&
                snprintf(record, PATH_MAX, "%.*s", (int)length - 1, path) < PATH_MAX;
    }
    if (file != NULL)
        fclose(file);
    free(line);
    return found;
}

bool live_job_has(const LiveJob *job, pid_t pid, int rank)
{
    char dir[PATH_MAX], record[PATH_MAX], expected[PATH_MAX + 64];
    if (realpath(job->dir, dir) == NULL || !find_record(pid, record))
        return false;
    snprintf(expected, sizeof expected, "%s/" FLIGHT_FOLDER "/" FLIGHT_FILE, dir, rank);
    return strcmp(record, expected) == 0;
}

/* Finds the checkpoint folder of the rank with this process. */
static bool find_dir(pid_t pid, char dir[PATH_MAX])
{
    const bool found = find_record(pid, dir);
    if (found)
        folder_of(dir, FLIGHT_FOLDER);
    return found;
}

/* Finds the folder of the rankR.jsonl that the process writes; returns false if it writes none. */
static bool find_metrics(pid_t pid, char dir[PATH_MAX])
{
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(name);
    bool found = false;
    for (struct dirent *entry; folder != NULL && !found && (entry = readdir(folder)) != NULL;) {
        const ssize_t n = readlinkat(dirfd(folder), entry->d_name, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        const char *file = strrchr(path, '/');
        int rank = 0, end = 0;
        found = file != NULL && sscanf(file, "/rank%d.jsonl%n", &rank, &end) == 1 && end > 0 &&
                file[end] == '\0';
        if (found) {
            snprintf(dir, PATH_MAX, "%s", path);
            folder_of(dir, NULL);
        }
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* Finds the checkpoint folder of a rank whose store has this port. */
static bool find_port(int port, char dir[PATH_MAX])
{
    DIR *processes = opendir("/proc");
    bool found = false;
    for (struct dirent *entry; processes != NULL && !found && (entry = readdir(processes));) {
        const pid_t pid = atoi(entry->d_name);
        char *environ = pid > 0 ? read_environ(pid) : NULL;
        found = number_of(environ, "MASTER_PORT") == port && number_of(environ, "RANK") >= 0 &&
                find_dir(pid, dir);
        free(environ);
    }
    if (processes != NULL)
        closedir(processes);
    return found;
}

bool live_job_find(LiveJob *job, const char *dir_or_port)
{
    *job = (LiveJob){ 0 };
    const bool is_port = dir_or_port[strspn(dir_or_port, "0123456789")] == '\0';
    if (is_port && strlen(dir_or_port) < 6 && access(dir_or_port, F_OK) != 0)
        return find_port(atoi(dir_or_port), job->dir);
    snprintf(job->dir, sizeof job->dir, "%s", dir_or_port);
    return true;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], line[64] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "PPid: %d", &parent) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return parent;
}

LiveRank live_job_see(LiveJob *job, pid_t pid)
{
    char *environ = read_environ(pid);
    const LiveRank rank = { .local_rank = number_of(environ, "LOCAL_RANK"),
                            .node = number_of(environ, "GROUP_RANK"),
                            .max_restarts = number_of(environ, "TORCHELASTIC_MAX_RESTARTS") };
    const char *host = variable(environ, "MASTER_ADDR");
    const char *secret = variable(environ, "DDP_SECRET_FILE");
    const char *run_id = variable(environ, "TORCHELASTIC_RUN_ID");
    if (host != NULL) {
        snprintf(job->store_host, sizeof job->store_host, "%s", host);
        job->store_port = number_of(environ, "MASTER_PORT");
        snprintf(job->secret_file, sizeof job->secret_file, "%s", secret != NULL ? secret : "");
        snprintf(job->run_id, sizeof job->run_id, "%s", run_id != NULL ? run_id : "");
        job->launcher = rank.local_rank >= 0 ? parent_of(pid) : 0;
    }
    if (job->metrics_dir[0] == '\0')
        find_metrics(pid, job->metrics_dir);
    free(environ);
    return rank;
}
