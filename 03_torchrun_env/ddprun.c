/*
 * 03_torchrun_env/ddprun - torchrun in C: one command on each node starts all its ranks.
 *
 * Ranks know nothing of each other when they start. The launcher puts a number and the address of a
 * store into each rank's environment; in the store the ranks exchange their own addresses. Then it
 * watches: no rank can train without the others, so the first failure ends all ranks on every node.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "launcher/launch.h"

static bool start_rank(Workers *workers, Flags *flags, const Agents *agents, Logs *logs,
                       int local_rank, int restart_count)
{
    rank_set_environment(flags, agents, logs, local_rank, restart_count);
    snprintf(flags->local_rank_argument, sizeof flags->local_rank_argument, "--local-rank=%d",
             local_rank);
    return workers_start(workers, local_rank, flags->command);
}

static void start(Workers *workers, Flags *flags, const Agents *agents, Logs *logs,
                  int restart_count)
{
    logs_open(logs, agents->ranks.first_rank, restart_count);
    for (int local_rank = 0; local_rank < flags->nproc_per_node; local_rank++)
        if (!start_rank(workers, flags, agents, logs, local_rank, restart_count))
            break;
}

/* Sleeps until the job has ended: every worker on every node is done, or something failed. */
static Verdict watch(Workers *workers, Agents *agents, const Flags *flags, Logs *logs)
{
    Verdict verdict = VERDICT_NONE;
    while (verdict == VERDICT_NONE) {
        const int signal = workers_wait(workers, flags->monitor_interval);
        if (signal != 0) // a request to end, which the ranks must get, too
            workers_end(workers, signal, flags->shutdown_timeout);

        Failure failure;
        const Worker *failed = workers_failed(workers, flags->shutdown_timeout);
        if (signal != 0 && !workers_all_ended_with(workers, EXIT_STOPPED) &&
            !workers_all_ended_with(workers, EXIT_SUCCESS)) {
            failure_of_launcher(&failure, flags->node_rank, 128 + signal, "ended by %s",
                                signal_name(signal));
            agents_fail(agents, &failure);
        } else if (failed != NULL) {
            const int local_rank = (int)(failed - workers->worker);
            failure_of_worker(&failure, failed, agents->ranks.first_rank + local_rank, local_rank,
                              logs);
            agents_fail(agents, &failure);
        } else if (workers->num_running == 0) {
            agents_done(agents, workers_all_ended_with(workers, EXIT_STOPPED));
        }
        verdict = agents_verdict(agents);
    }
    workers_end(workers, SIGTERM, flags->shutdown_timeout);
    logs_close(logs);
    return verdict;
}

int main(int argc, char **argv)
{
    Flags flags;
    flags_parse(&flags, NULL, argc, argv);
    Logs *logs = logs_init(&flags); // where the ranks' output goes
    Agents agents; // the launchers of all nodes
    agents_join(&agents, &flags);
    Workers workers; // the ranks of this node
    workers_init(&workers, logs, NULL);

    const int restart_count = 0;
    start(&workers, &flags, &agents, logs, restart_count);
    const Verdict verdict = watch(&workers, &agents, &flags, logs);
    int status = verdict == VERDICT_STOPPED ? EXIT_STOPPED : EXIT_SUCCESS;
    if (verdict == VERDICT_FAILED) {
        const Failure *root = agents_root_cause(&agents);
        if (root->status != EXIT_USAGE) // else the rank has printed what to type instead
            report_print(root, &workers, agents.ranks.first_rank);
        status = root->status;
    }

    workers_free(&workers);
    logs_free(logs);
    agents_leave(&agents);
    flags_free(&flags);
    return status;
}
