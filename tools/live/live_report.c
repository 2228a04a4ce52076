/*
 * A report is made anew each time: flight records are small, and of growing files only the end is
 * read. Any of these bytes may be half-written, or foreign: what cannot be read is left out.
 */
#include "tools/live/live_report.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/flight_recorder.h"
#include "05_fault_tolerance/checks/process_identity.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/flight_reader.h"

enum { LANE_CALLS = 24, LOSSES = 100, SNAPSHOTS = 12, TAIL_BYTES = 16 << 10 };

static json_t *milliseconds(int64_t nanoseconds)
{
    return json_real(nanoseconds > 0 ? 1e-6 * (double)nanoseconds : 0);
}

/* ---- the ranks ---- */

/* Lists the ranks for which this one waits, in its open call. */
static json_t *waits_for(const Attempt *attempt, int rank)
{
    const Flight *flight = &attempt->flight[rank];
    json_t *list = json_array();
    if (flight->open == NULL || flight->process != PROCESS_RUNNING)
        return list;
    bool *culprit = mem_calloc((size_t)attempt->world_size, sizeof *culprit);
    diagnosis_culprits(attempt, flight->open, culprit);
    for (int other = 0; other < attempt->world_size; other++)
        if (culprit[other] && other != rank)
            json_array_append_new(list, json_integer(other));
    free(culprit);
    return list;
}

static json_t *report_rank(const Attempt *attempt, int rank, LiveJob *job, int *max_restarts)
{
    const Flight *flight = &attempt->flight[rank];
    const FlightRecord *record = flight->record;
    json_t *row = json_pack("{s:i, s:s}", "rank", rank, "process", process_name(flight->process));
    if (record == NULL)
        return row;
    json_object_set_new(row, "pid", json_integer(record->pid));
    json_object_set_new(row, "host", json_text(record->host));
    if (record->error[0] != '\0')
        json_object_set_new(row, "error", json_text(record->error));
    if ((flight->process == PROCESS_RUNNING || flight->process == PROCESS_STOPPED) &&
        live_job_has(job, record->pid, rank)) {
        const LiveRank seen = live_job_see(job, record->pid);
        json_object_set_new(row, "local_rank", json_integer(seen.local_rank));
        json_object_set_new(row, "node", json_integer(seen.node));
        *max_restarts = seen.max_restarts;
    }
    const FlightEntry *entry = flight->open != NULL ? flight->open : flight->last;
    if (entry != NULL) {
        char call[DESCRIPTION_BYTES];
        int64_t since;
        json_object_set_new(row, "state", json_string(entry_state(entry, &since)));
        json_object_set_new(row, "since", milliseconds(since));
        json_object_set_new(row, "call", json_text(flight_entry_describe(entry, call)));
        json_object_set_new(row, "waits_for", waits_for(attempt, rank));
    }
    return row;
}

/* Reports how far the training is: the step of the first rank that has a record, and the mean of
 * the ranks' last logged losses. */
static json_t *report_progress(const Attempt *attempt)
{
    const FlightRecord *first = NULL;
    double loss = 0;
    int count = 0;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const FlightRecord *record = attempt->flight[rank].record;
        if (record == NULL || record->step == 0)
            continue;
        first = first != NULL ? first : record;
        loss += record->loss;
        count++;
    }
    if (first == NULL)
        return json_null();
    const uint64_t per_epoch = first->steps_per_epoch;
    json_t *mean = isfinite(loss) ? json_real(loss / count) : json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "epoch",
                     (json_int_t)((first->step - 1) / per_epoch), "epochs",
                     (json_int_t)((first->steps - 1) / per_epoch + 1), "step",
                     (json_int_t)first->step, "steps", (json_int_t)first->steps, "loss", mean);
}

/* Lists the last collectives of a rank, oldest first. */
static json_t *report_lane(const FlightRecord *record, uint64_t newest)
{
    json_t *lane = json_array();
    for (uint64_t number = newest > LANE_CALLS ? newest - LANE_CALLS + 1 : 1; number <= newest;
         number++) {
        const FlightEntry *entry = &record->entry[(number - 1) % FLIGHT_ENTRIES];
        if (entry->number != number)
            continue;
        const int64_t end = entry->completed_ns > 0 ? entry->completed_ns : entry->failed_ns;
        const double bytes = (double)entry->count * (double)dtype_size((DType)entry->type);
        json_array_append_new(lane,
                              json_pack("[I, o, o, o, f]", (json_int_t)entry->sequence,
                                        milliseconds(entry->scheduled_ns),
                                        milliseconds(entry->started_ns), milliseconds(end), bytes));
    }
    return lane;
}

static void report_ranks(json_t *report, const Attempt *attempt, LiveJob *job)
{
    json_t *ranks = json_array(), *lanes = json_array();
    int max_restarts = -1;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        json_array_append_new(ranks, report_rank(attempt, rank, job, &max_restarts));
        json_array_append_new(lanes, flight->last != NULL
                                         ? report_lane(flight->record, flight->last->number)
                                         : json_array());
    }
    json_object_set_new(report, "ranks", ranks);
    json_object_set_new(report, "lanes", lanes);
    json_object_set_new(report, "max_restarts", json_integer(max_restarts));
    json_object_set_new(report, "launcher", json_integer(job->launcher));
}

/* ---- files ---- */

/* Reads the last whole lines of a file, each as JSON; leaves out those that are not JSON. */
static json_t *read_tail(const char *dir, const char *name, size_t most)
{
    static char text[TAIL_BYTES + 1];
    char path[PATH_MAX + 64];
    json_t *lines = json_array();
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const int fd = dir[0] != '\0' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
        if (fd >= 0)
            close(fd);
        return lines;
    }
    const off_t from = info.st_size > TAIL_BYTES ? info.st_size - TAIL_BYTES : 0;
    const ssize_t n = pread(fd, text, TAIL_BYTES, from);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *at = from > 0 ? strchr(text, '\n') : text;
    for (char *end; at != NULL && (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        if (json_is_object(line))
            json_array_append(lines, line);
        json_decref(line);
        if (json_array_size(lines) > most)
            json_array_remove(lines, 0);
    }
    return lines;
}

/* Lists [step, loss] of each line. */
static json_t *report_losses(const LiveJob *job, int world_size)
{
    json_t *ranks = json_array();
    for (int rank = 0; rank < world_size; rank++) {
        char name[32];
        size_t i;
        json_t *line, *losses = json_array();
        snprintf(name, sizeof name, "rank%d.jsonl", rank);
        json_t *lines = read_tail(job->metrics_dir, name, LOSSES);
        json_array_foreach(lines, i, line)
            json_array_append_new(losses, json_pack("[O, O]", json_object_get(line, "step"),
                                                    json_object_get(line, "loss")));
        json_decref(lines);
        json_array_append_new(ranks, losses);
    }
    return ranks;
}

typedef struct {
    char name[NAME_MAX + 1];
    struct stat info;
} Saved;

static int later(const void *a, const void *b)
{
    const struct timespec x = ((const Saved *)a)->info.st_mtim,
                          y = ((const Saved *)b)->info.st_mtim;
    return x.tv_sec != y.tv_sec ? (x.tv_sec < y.tv_sec) - (x.tv_sec > y.tv_sec)
                                : (x.tv_nsec < y.tv_nsec) - (x.tv_nsec > y.tv_nsec);
}

/* Lists the newest checkpoints and snapshots. */
static json_t *report_snapshots(const LiveJob *job)
{
    static Saved saved[256];
    size_t count = 0;
    DIR *folder = opendir(job->dir);
    for (struct dirent *entry;
         folder != NULL && count < 256 && (entry = readdir(folder)) != NULL;) {
        const char *end = strrchr(entry->d_name, '.');
        Saved *file = &saved[count];
        if (entry->d_name[0] == '.' || end == NULL || strcmp(end, ".safetensors") != 0 ||
            fstatat(dirfd(folder), entry->d_name, &file->info, 0) < 0 ||
            !S_ISREG(file->info.st_mode))
            continue;
        snprintf(file->name, sizeof file->name, "%s", entry->d_name);
        count++;
    }
    if (folder != NULL)
        closedir(folder);
    qsort(saved, count, sizeof *saved, later);
    json_t *list = json_array();
    for (size_t i = 0; i < count && i < SNAPSHOTS; i++) {
        const struct timespec written = saved[i].info.st_mtim;
        json_array_append_new(
            list,
            json_pack("[o, I, f]", json_text(saved[i].name), (json_int_t)saved[i].info.st_size,
                      1e3 * (double)written.tv_sec + 1e-6 * (double)written.tv_nsec));
    }
    return list;
}

/* ---- all of it ---- */

static json_t *report_store(const LiveJob *job, const StorePeek *peek)
{
    char address[300];
    if (job->store_port <= 0)
        return json_null();
    snprintf(address, sizeof address, "%s:%d", job->store_host, job->store_port);
    return json_pack("{s:o, s:O?}", "address", json_text(address), "keys", peek->keys);
}

char *live_report(LiveJob *job, const StorePeek *peek, bool control)
{
    Attempt attempt;
    const int64_t now = flight_now();
    json_t *report = json_pack("{s:o, s:o, s:b}", "time", milliseconds(now), "dir",
                               json_text(job->dir), "control", control);
    CHECK(report != NULL, "out of memory");
    if (attempt_load(&attempt, job->dir)) {
        char verdict[DIAGNOSIS_BYTES];
        WaitTimes times;
        wait_times(&times, &attempt);
        const bool well = diagnose(&attempt, &times, now, verdict);
        free(times.rank);
        json_object_set_new(report, "attempt", json_integer(attempt.restart_count));
        json_object_set_new(report, "world_size", json_integer(attempt.world_size));
        json_object_set_new(report, "well", json_boolean(well));
        json_object_set_new(report, "verdict", json_text(verdict));
        json_object_set_new(report, "progress", report_progress(&attempt));
        report_ranks(report, &attempt, job);
        json_object_set_new(report, "losses", report_losses(job, attempt.world_size));
    }
    if (attempt.refused != NULL)
        json_object_set_new(report, "refused", json_text(attempt.refused));
    attempt_free(&attempt);
    json_object_set_new(report, "tests", read_tail(job->metrics_dir, "test.jsonl", LOSSES));
    json_object_set_new(report, "snapshots", report_snapshots(job));
    json_object_set_new(report, "store", report_store(job, peek));
    char *text = json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(15));
    CHECK(text != NULL, "out of memory");
    json_decref(report);
    return text;
}

/* ---- signals ---- */

/* Sends a signal. A descriptor of the process keeps its pid from being reused after the check. */
static const char *send_to(const LiveJob *job, int rank, const FlightRecord *record, int number)
{
    const int fd = (int)syscall(SYS_pidfd_open, record->pid, 0);
    if (fd < 0)
        return "its process is gone";
    const char *reason = NULL;
    if (process_start_ticks(record->pid, NULL) != record->pid_ticks)
        reason = "its process is gone";
    else if (!live_job_has(job, record->pid, rank))
        reason = "the process that its record names has not mapped this record: is it a rank?";
    else if (syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) < 0)
        reason = strerror(errno);
    close(fd);
    return reason;
}

const char *live_signal(const LiveJob *job, int rank, LiveAction action)
{
    static const int numbers[] = {
        [LIVE_STOP] = SIGSTOP, [LIVE_CONTINUE] = SIGCONT, [LIVE_KILL] = SIGKILL
    };
    Attempt attempt;
    const char *reason = "there is no such rank";
    if (attempt_load(&attempt, job->dir) && rank >= 0 && rank < attempt.world_size) {
        const Flight *flight = &attempt.flight[rank];
        const bool here = flight->process == PROCESS_RUNNING || flight->process == PROCESS_STOPPED;
        reason = here ? send_to(job, rank, flight->record, numbers[action])
                      : "it does not run on this machine";
    }
    attempt_free(&attempt);
    return reason;
}
