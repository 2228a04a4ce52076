/*
 * ddprun --redirects, --tee and --local-ranks-filter: the output of the ranks goes to the
 * launcher's own, to files, or to both. What is teed goes through a pipe to a thread (tee.h); a
 * redirected stream goes straight to its file. --duplicate-stdout-filters and -stderr-filters:
 * chosen lines of what is teed and shown go to one file of all ranks, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/output/numa.h"
#include "extras/output/rank_report.h"
#include "extras/output/tee.h"
#include "launcher/launch.h"

/* The outputs of the ranks, by local rank. */
typedef struct {
    char redirects[FLAGS_MAX_WORKERS]; // to a file: 1 stdout, 2 stderr, 3 both (torchrun's numbers)
    char tee[FLAGS_MAX_WORKERS]; // to a file and the console, with the same numbers
    char shown[FLAGS_MAX_WORKERS]; // 1 if shown on the console
} Outputs;

/* Reads the whole number that text begins with and sets *end behind it. Returns -1 if there is none
 * from 0 to max. */
static int read_int(const char *text, char **end, int max)
{
    errno = 0;
    const long number = strtol(text, end, 10);
    return *end != text && errno == 0 && number >= 0 && number <= max ? (int)number : -1;
}

/* Sets values[R] for each local rank R of a list such as "0:1,1:3", or, if most is 0, "0,2", which
 * sets 1. Returns false if it is not such a list. */
static bool read_list(const Flags *flags, const char *text, int most, char *values)
{
    for (char *end = NULL; text != NULL; text = *end == ',' ? end + 1 : NULL) {
        const int local_rank = read_int(text, &end, flags->nproc_per_node - 1);
        int value = 1;
        if (local_rank >= 0 && most > 0)
            value = *end == ':' ? read_int(end + 1, &end, most) : -1;
        if (local_rank < 0 || value < 0 || (*end != ',' && *end != '\0'))
            return false;
        values[local_rank] = (char)value;
    }
    return true;
}

static void read_streams(const Flags *flags, const char *name, const char *text, char *streams)
{
    char *end = NULL;
    const int value = read_int(text, &end, 3); // one number for all ranks
    if (value >= 0 && *end == '\0')
        memset(streams, value, (size_t)flags->nproc_per_node);
    else if (!read_list(flags, text, 3, streams))
        usage_error("%s %s: it must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a "
                    "number for each local rank, as in 0:1,1:3",
                    name, text);
}

static Outputs read_outputs(const Flags *flags)
{
    Outputs outputs = { 0 };
    const char *filter = flags->local_ranks_filter;
    read_streams(flags, "--redirects", flags->redirects, outputs.redirects);
    read_streams(flags, "--tee", flags->tee, outputs.tee);
    memset(outputs.shown, filter == NULL, sizeof outputs.shown);
    if (!read_list(flags, filter, 0, outputs.shown))
        usage_error("--local-ranks-filter %s: it must be local ranks, as in 0,2", filter);
    return outputs;
}

void rank_output_check(const Flags *flags)
{
    read_outputs(flags);
    numa_plan(flags);
}

static int open_log(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    CHECK(fd >= 0, "cannot write %s: %s", path, strerror(errno));
    return fd;
}

/* Opens the descriptor for a worker's stream (0: stdout, 1: stderr). */
static int open_stream(Logs *logs, const Outputs *outputs, int rank, int local_rank, int stream)
{
    const bool is_teed = outputs->tee[local_rank] >> stream & 1;
    const bool is_redirected = outputs->redirects[local_rank] >> stream & 1;
    const bool is_shown = outputs->shown[local_rank];
    if (!is_teed && !is_redirected)
        return is_shown ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);

    char path[PATH_MAX];
    const char *name = stream == 0 ? "stdout.log" : "stderr.log";
    logs_path(logs, local_rank, name, path);
    TeeTarget target = { open_log(path), is_shown ? stream + 1 : -1, -1, NULL };
    if (!is_teed)
        return target.file_fd;
    target.filters = stream == 0 ? logs->flags->stdout_filters : logs->flags->stderr_filters;
    snprintf(path, sizeof path, "%s/filtered_%s", logs->attempt, name);
    if (target.filters != NULL && is_shown)
        target.filtered_fd = open_log(path);
    return tee_add(&logs->tee, &target, logs->flags, rank, local_rank);
}

void rank_output_open(Logs *logs, int first_rank)
{
    const Outputs outputs = read_outputs(logs->flags);
    const int num_workers = logs->flags->nproc_per_node;
    logs->output = mem_calloc((size_t)num_workers, sizeof *logs->output);
    for (int i = 0; i < num_workers; i++)
        for (int stream = 0; stream < 2; stream++)
            logs->output[i][stream] = open_stream(logs, &outputs, first_rank + i, i, stream);
    tee_start(logs->tee);
    rank_messages_open(logs);
}

void rank_output_close(Logs *logs)
{
    rank_messages_read(logs);
    tee_finish(logs->tee);
    logs->tee = NULL;
    for (int i = 0; i < logs->flags->nproc_per_node; i++)
        for (int stream = 0; stream < 2; stream++)
            if (logs->output[i][stream] >= 0) // its worker was not started
                close(logs->output[i][stream]);
    free(logs->output);
    logs->output = NULL;
}
