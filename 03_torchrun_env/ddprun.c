/*
 * 03_torchrun_env/ddprun - torchrun in C: one command on each node starts all its ranks.
 *
 * Ranks know nothing of each other when they start. The launcher puts a number and the address of a
 * store into each rank's environment; in the store the ranks exchange their own addresses. Then it
 * watches: no rank can train without the others, so the first failure ends all ranks on every node.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "launcher/launch.h"

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    SYS_CHECK(setenv(name, text, 1));
}

static void set_text(const char *name, const char *text, bool replace)
{
    SYS_CHECK(setenv(name, text, replace));
}

/* Tells the next worker which rank it is: it inherits this environment. Programs rely on these
 * names, which are torchrun's. */
static void set_environment(const Flags *flags, const Agents *agents, const Logs *logs,
                            int local_rank, int restart_count)
{
    set_number("RANK", agents->ranks.first_rank + local_rank); // in the whole job
    set_number("WORLD_SIZE", agents->ranks.world_size);
    set_number("LOCAL_RANK", local_rank); // on this node; picks the device
    set_number("LOCAL_WORLD_SIZE", flags->nproc_per_node);
    set_number("GROUP_RANK", flags->node_rank);
    set_number("GROUP_WORLD_SIZE", flags->max_nodes);
    set_text("ROLE_NAME", flags->role, true);
    set_number("ROLE_RANK", agents->ranks.first_role_rank + local_rank);
    set_number("ROLE_WORLD_SIZE", agents->ranks.role_world_size);

    set_text("MASTER_ADDR", flags->master_addr, true); // where the store is
    set_number("MASTER_PORT", agents->master_port);
    set_text("TORCHELASTIC_USE_AGENT_STORE", "True", true); // the launcher serves it
    set_text("TORCHELASTIC_RUN_ID", flags->run_id, true);
    set_number("TORCHELASTIC_RESTART_COUNT", restart_count);
    set_number("TORCHELASTIC_MAX_RESTARTS", flags->max_restarts);

    char error_file[PATH_MAX];
    logs_path(logs, local_rank, "error.json", error_file);
    set_text("TORCHELASTIC_ERROR_FILE", error_file, true); // a rank writes its error there
    set_text("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", true);
    set_text("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", false);

    // Several ranks that each start a thread per core would only get in each other's way.
    char threads[16];
    const int share = host_num_cores() / flags->nproc_per_node;
    snprintf(threads, sizeof threads, "%d", share > 1 ? share : 1);
    if (flags->nproc_per_node > 1)
        set_text("OMP_NUM_THREADS", threads, false);
}

static void start(Workers *workers, Flags *flags, const Agents *agents, Logs *logs,
                  int restart_count)
{
    logs_open(logs, agents->ranks.first_rank, restart_count);
    for (int local_rank = 0; local_rank < flags->nproc_per_node; local_rank++) {
        set_environment(flags, agents, logs, local_rank, restart_count);
        snprintf(flags->local_rank_argument, sizeof flags->local_rank_argument, "--local-rank=%d",
                 local_rank);
        if (!workers_start(workers, local_rank, flags->command))
            break;
    }
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
