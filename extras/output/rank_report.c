/*
 * The report of a failed job. It is one write, so that those of several nodes do not mix on a
 * shared terminal.
 */
#include "extras/output/rank_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/signals.h"

#define THICK_RULE "============================================================\n"
#define THIN_RULE "------------------------------------------------------------\n"

static void print_root(FILE *out, const Failure *root, bool several_nodes)
{
    char time_text[64];
    const time_t seconds = (time_t)root->time;
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(time_text, sizeof time_text, "%Y-%m-%d %H:%M:%S", &local);

    // Which of several nodes' failures came first is decided by their clocks.
    fprintf(out, "Root cause (first observed failure):\n");
    fprintf(out, "  time    : %s%s\n", time_text, several_nodes ? ", by its node's clock" : "");
    fprintf(out, "  node    : %d %s\n", root->node, root->host);
    if (root->rank >= 0)
        fprintf(out, "  rank    : %d (local_rank: %d, pid: %d)\n", root->rank, root->local_rank,
                root->pid);
    else
        fprintf(out, "  rank    : none, its launcher\n");
    if (root->signal != 0) // as torchrun words it
        fprintf(out, "  ended   : Signal %d (%s) received by PID %d", root->signal,
                signal_name(root->signal), root->pid);
    else
        fprintf(out, "  ended   : exit status %d", root->status);
    if (root->message[0] != '\0')
        fprintf(out, "\n  message : %s", root->message);
    if (root->log[0] != '\0')
        fprintf(out, "\n  log     : %s", root->log);
    fprintf(out, "\n");
}

const char *worker_end(const Worker *worker, char text[WORKER_END_BYTES])
{
    char end[END_BYTES];
    snprintf(text, WORKER_END_BYTES, "%s%s",
             worker->pid == 0  ? "not started"
             : worker->running ? "still there"
                               : end_text(worker->status, worker->signal, end),
             worker->was_signalled ? ", told to end by ddprun" : "");
    return text;
}

void rank_report(const Failure *root, const Workers *workers, int first_rank)
{
    const Flags *flags = workers->logs->flags;
    const bool is_here = root->node == flags->node_rank;
    char *text = NULL, end[WORKER_END_BYTES];
    size_t length = 0;
    if (fault_block_print(root, workers, first_rank, -1))
        return;
    FILE *out = open_memstream(&text, &length);
    CHECK(out != NULL, "out of memory");
    // The message may blame another rank than the one that failed first, so it is the headline.
    fprintf(out, THICK_RULE "%s FAILED%s%.*s\n" THIN_RULE, flags->program,
            root->message[0] != '\0' ? ": " : "", (int)strcspn(root->message, "\n"), root->message);
    print_root(out, root, flags->max_nodes > 1);
    if (workers->num_workers > is_here)
        fprintf(out, THIN_RULE "%s:\n", is_here ? "Others on this node" : "On this node");
    for (int i = 0; i < workers->num_workers; i++) {
        const Worker *worker = &workers->worker[i];
        if (!is_here || i != root->local_rank)
            fprintf(out, "  rank %d (local_rank: %d, pid: %d): %s\n", first_rank + i, i,
                    worker->pid, worker_end(worker, end));
    }
    fprintf(out, THICK_RULE);
    fclose(out);
    write_text(STDERR_FILENO, text, length); // a failure cannot be reported anywhere
    free(text);
}
