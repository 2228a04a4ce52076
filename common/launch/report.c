/*
 * The report is one write, so that those of several nodes do not mix on a shared terminal. If a
 * program cannot be started, or the launcher was asked to end, one line is enough.
 *
 * The history of a restarted job is printed again at its end: by then the ranks' own lines have
 * scrolled it away.
 */
#include "common/launch/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/log.h"
#include "common/base/signal_name.h"

#define THICK_RULE "============================================================\n"
#define THIN_RULE "------------------------------------------------------------\n"

static void print_end(FILE *out, int status, int signal)
{
    if (signal == 0)
        fprintf(out, "exit status %d", status);
    else
        fprintf(out, "killed by %s", signal_name(signal));
}

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
    fprintf(out, "  ended   : ");
    print_end(out, root->status, root->signal);
    if (root->message[0] != '\0')
        fprintf(out, "\n  message : %s", root->message);
    if (root->log[0] != '\0')
        fprintf(out, "\n  log     : %s", root->log);
    fprintf(out, "\n");
}

static void print_worker(FILE *out, const Worker *worker, int rank, int local_rank)
{
    fprintf(out, "  rank %d (local_rank: %d, pid: %d): ", rank, local_rank, worker->pid);
    if (worker->pid == 0)
        fprintf(out, "not started");
    else if (worker->running)
        fprintf(out, "still there");
    else
        print_end(out, worker->status, worker->signal);
    fprintf(out, worker->was_signalled ? ", told to end by ddprun\n" : "\n");
}

void report_print(const Failure *root, const Flags *flags, const Workers *workers, int first_rank)
{
    const bool is_here = root->node == flags->node_rank;
    const bool was_asked = workers->request != 0; // as another node was, perhaps a moment before
    if (root->rank < 0 ? is_here || was_asked : is_here && root->pid == 0) {
        log_info("%s", root->message);
        return;
    }
    if (root->is_unread) { // as of `| head -n 2`: one line, like a shell's
        log_info("rank %d on node %d (%s) was killed by SIGPIPE: its output goes to a program that "
                 "has ended",
                 root->rank, root->node, root->host);
        return;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    CHECK(out != NULL, "out of memory");
    fprintf(out, THICK_RULE "%s FAILED\n" THIN_RULE, flags->program);
    print_root(out, root, flags->max_nodes > 1);
    if (workers->num_workers > is_here)
        fprintf(out, THIN_RULE "%s:\n", is_here ? "Others on this node" : "On this node");
    for (int i = 0; i < workers->num_workers; i++) {
        if (!is_here || i != root->local_rank)
            print_worker(out, &workers->worker[i], first_rank + i, i);
    }
    fprintf(out, THICK_RULE);
    fclose(out);
    log_block("%s", text);
    free(text);
}

static void print_attempt(FILE *out, int attempt, const Failure *root)
{
    fprintf(out, "attempt %d: ", attempt);
    if (root == NULL) {
        fprintf(out, "nodes have come");
    } else if (root->rank < 0) {
        fprintf(out, "%s", root->message);
    } else {
        fprintf(out, "rank %d on node %d (%s): ", root->rank, root->node, root->host);
        print_end(out, root->status, root->signal);
        if (root->message[0] != '\0')
            fprintf(out, ": %.200s", root->message);
    }
}

void history_add(History *history, int attempt, const Failure *root)
{
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    CHECK(out != NULL, "out of memory");
    print_attempt(out, attempt, root);
    fclose(out);
    log_info("%s; restarting the group", line);

    char *earlier = history->text;
    CHECK(asprintf(&history->text, "%s  %s\n", earlier != NULL ? earlier : "", line) >= 0,
          "out of memory");
    free(earlier);
    free(line);
}

void history_print(const History *history)
{
    if (history->text != NULL)
        log_block("Earlier attempts:\n%s" THICK_RULE, history->text);
}

void history_free(History *history)
{
    free(history->text);
}
