/*
 * A fault on a terminal, as one block: what happened, to which rank, since when, and what comes
 * next. If several ranks have the same message, or ended the same way, they share one line.
 */
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/output/rank_report.h"
#include "extras/output/terminal.h"

static char *last_message[FLAGS_MAX_WORKERS]; // each local rank's last message; NULL if none

/* ---- the messages of the ranks ---- */

void rank_messages_open(const Logs *logs)
{
    if (terminal_is(STDERR_FILENO))
        SYS_CHECK(setenv(TERMINAL_SAID, logs->attempt, 1));
    else
        unsetenv(TERMINAL_SAID);
}

static char *read_message(const Logs *logs, int local_rank)
{
    char path[PATH_MAX];
    logs_path(logs, local_rank, "error.json", path);
    json_t *error = failure_load_file(path);
    const char *text = json_string_value(json_object_get(error, "message"));
    char *message = text != NULL ? strdup(text) : NULL;
    if (message != NULL)
        text_disarm(message, "");
    json_decref(error);
    return message;
}

/* Removes the files that mark the messages already printed. */
static void remove_marks(const Logs *logs)
{
    DIR *folder = opendir(logs->attempt);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, TERMINAL_SAID_FILE, strlen(TERMINAL_SAID_FILE)) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
}

void rank_messages_read(const Logs *logs)
{
    for (int i = 0; i < logs->flags->nproc_per_node; i++) {
        free(last_message[i]);
        last_message[i] = read_message(logs, i);
    }
    remove_marks(logs);
}

/* ---- the block ---- */

/* Prints "rank 3", "ranks 0, 2, 5 to 9". */
static void print_ranks(FILE *out, const bool *has, int count, int first_rank)
{
    int num = 0;
    for (int i = 0; i < count; i++)
        num += has[i];
    fprintf(out, num == 1 ? "rank" : "ranks");
    const char *before = " ";
    for (int i = 0; i < count; i++) {
        int last = i;
        while (has[i] && last + 1 < count && has[last + 1])
            last++;
        if (has[i])
            fprintf(out, "%s%d", before, first_rank + i);
        if (has[i] && last >= i + 2) {
            fprintf(out, " to %d", first_rank + last);
            i = last;
        }
        before = has[i] ? ", " : before;
    }
}

/* Prints a line for each different text: the ranks that have it, and the text. skip: a local rank
 * to leave out, or -1. */
static void print_folded(FILE *out, const char *label, char *const *text, int count, int first_rank,
                         int skip, const char *known)
{
    bool *done = mem_calloc((size_t)count, sizeof *done), *has = mem_calloc((size_t)count, 1);
    for (int i = 0; i < count; i++) {
        if (text[i] == NULL || done[i] || i == skip)
            continue;
        int num = 0;
        for (int j = 0; j < count; j++) {
            has[j] = j != skip && text[j] != NULL && strcmp(text[j], text[i]) == 0;
            done[j] |= has[j];
            num += has[j];
        }
        fprintf(out, "  %-6s ", label);
        print_ranks(out, has, count, first_rank);
        if (known != NULL)
            fprintf(out, num > 1 || strcmp(text[i], known) == 0 ? " say%s the same" : " say%s",
                    num == 1 ? "s" : "");
        if (known == NULL || strcmp(text[i], known) != 0)
            fprintf(out, ": %s", text[i]);
        fputc('\n', out);
    }
    free(done);
    free(has);
}

static void print_what(FILE *out, const Failure *root)
{
    char end[END_BYTES];
    if (root->message[0] != '\0')
        fprintf(out, "✕ %.*s\n", (int)strcspn(root->message, "\n"), root->message);
    else
        fprintf(out, root->signal != 0 ? "✕ rank %d was %s\n" : "✕ rank %d ended with %s\n",
                root->rank, end_text(root->status, root->signal, end));
}

static void print_who(FILE *out, const Failure *root, const Flags *flags)
{
    char end[END_BYTES], time_text[16];
    const time_t seconds = (time_t)root->time;
    struct tm local;
    strftime(time_text, sizeof time_text, "%H:%M:%S", localtime_r(&seconds, &local));
    if (root->rank < 0)
        fprintf(out, "  who    the launcher of node %d\n", root->node);
    else
        fprintf(out, "  who    rank %d on node %d (%s), pid %d%s%s\n", root->rank, root->node,
                root->host, root->pid, root->message[0] != '\0' ? ": " : "",
                root->message[0] != '\0' ? end_text(root->status, root->signal, end) : "");
    const double ago = (double)time(NULL) - root->time;
    fprintf(out, "  since  %s", time_text);
    if (flags->max_nodes > 1) // clocks differ
        fprintf(out, " by its node's clock");
    else if (ago >= 1)
        fprintf(out, ", %.0f s ago", ago);
    fputc('\n', out);
    if (root->log[0] != '\0')
        fprintf(out, "  log    %s\n", root->log);
}

static void print_next(FILE *out, const Failure *root, const Flags *flags, int attempt)
{
    if (attempt >= 0)
        fprintf(out, "  next   all ranks start again: attempt %d (--max-restarts %d)\n",
                attempt + 1, flags->max_restarts);
    else if (root->is_final)
        fprintf(out, "  next   the job ends with status %d: it would fail again\n", root->status);
    else
        fprintf(out, "  next   the job ends with status %d: %s\n", root->status,
                flags->max_restarts > 0 ? "no restart is left (--max-restarts)"
                                        : "not restarted without --max-restarts");
}

bool fault_block_print(const Failure *root, const Workers *workers, int first_rank, int attempt)
{
    if (!terminal_is(STDERR_FILENO))
        return false;
    const Flags *flags = workers->logs->flags;
    const int count = workers->num_workers;
    const int skip = root->node == flags->node_rank ? root->local_rank : -1;
    char **ends = mem_calloc((size_t)count + 1, sizeof *ends), *text = NULL;
    char end[WORKER_END_BYTES];
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    CHECK(out != NULL, "out of memory");
    print_what(out, root);
    print_who(out, root, flags);
    print_folded(out, "others", last_message, count, first_rank, skip, root->message);
    for (int i = 0; i < count && attempt < 0; i++)
        CHECK((ends[i] = strdup(worker_end(&workers->worker[i], end))) != NULL, "out of memory");
    if (attempt < 0)
        print_folded(out, "ended", ends, count, first_rank, skip, NULL);
    print_next(out, root, flags, attempt);
    fclose(out);
    write_text(STDERR_FILENO, text, length);
    for (int i = 0; i < count; i++)
        free(ends[i]);
    free(ends);
    free(text);
    return true;
}
