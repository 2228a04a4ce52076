/*
 * 05_fault_tolerance/ddprun - torchrun in C: one command on each node starts all its ranks.
 *
 * Ranks know nothing of each other when they start. The launcher puts a number and the address of a
 * store into each rank's environment; in the store the ranks exchange their own addresses. Then it
 * watches: no rank can train without the others, so the first failure ends all ranks on every node.
 *
 * Here a failure ends only the attempt: the nodes that are left form the group again, with an empty
 * store, and the ranks resume from their last snapshot. Where nodes may come and
 * go, the job ends if the host of its rendezvous is lost, as with torchrun.
 */
#include <stdio.h>
#include <stdlib.h>

#include "05_fault_tolerance/checks/process_identity.h"
#include "05_fault_tolerance/reconfigure/seats.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "launcher/attempt_history.h"
#include "launcher/elastic_group.h"
#include "launcher/error_file.h"
#include "launcher/launch.h"

#define AGAIN (-1) // the attempt has ended, but not the job
#define DOUBLE_SECONDS 0.3 // wrappers that pass on Ctrl-C deliver it twice

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

static bool start_rank(Workers *workers, const Group *group, const Agents *agents, Logs *logs,
                       Seats *seats, int local_rank)
{
    Flags *flags = group->flags;
    set_environment(flags, agents, logs, local_rank, group->restart_count);
    torchrun_flags_set_environment(group->torchrun, local_rank);
    seats_announce(seats, local_rank);
    snprintf(flags->local_rank_argument, sizeof flags->local_rank_argument, "--local-rank=%d",
             local_rank);
    return workers_start(workers, local_rank, flags->command);
}

static void start(Workers *workers, const Group *group, const Agents *agents, Logs *logs,
                  Seats *seats)
{
    logs_open(logs, agents->ranks.first_rank, group->restart_count);
    for (int local_rank = 0; local_rank < group->flags->nproc_per_node; local_rank++)
        if (!start_rank(workers, group, agents, logs, seats, local_rank))
            break;
}

/* Starts a new process for each rank that has ended, if the others go on without a restart. */
static void fill_seats(Workers *workers, const Group *group, const Agents *agents, Logs *logs,
                       Seats *seats)
{
    for (int vacant; (vacant = seats_vacant(seats, workers)) >= 0;)
        start_rank(workers, group, agents, logs, seats, vacant);
}

/* Passes a request to end on to the ranks, and waits until they have ended. Those that go on
 * without a restart may need new ranks to save their state. */
static void end_ranks(Workers *workers, const Group *group, const Agents *agents, Logs *logs,
                      Seats *seats, int signal)
{
    const double begun = seconds_awake(), patience = group->flags->shutdown_timeout;
    double next = begun; // new ranks have not got it yet
    fill_seats(workers, group, agents, logs, seats); // all may have been killed at this moment
    while (seats->on && (workers->num_running > 0 || seats->fills) &&
           seconds_awake() < begun + patience) {
        const int request = signal == SIGINT ? SIGTERM : signal;
        for (int i = 0; seconds_awake() >= next && i < workers->num_workers; i++)
            if (workers->worker[i].running && process_catches(workers->worker[i].pid, request))
                kill(workers->worker[i].pid, request);
        next = seconds_awake() >= next ? next + 1 : next;
        if (workers_wait(workers, 0.1) == SIGINT && seconds_awake() > begun + DOUBLE_SECONDS)
            break; // Ctrl-C again
        fill_seats(workers, group, agents, logs, seats);
    }
    workers_end(workers, signal, seats->on ? 0 : patience);
}

/* Sleeps until the attempt has ended: every worker on every node is done, or something failed, or
 * new nodes have arrived. */
static Verdict watch(Workers *workers, Agents *agents, Group *group, Logs *logs, Seats *seats)
{
    const Flags *flags = group->flags;
    Verdict verdict = VERDICT_NONE;
    while (verdict == VERDICT_NONE) {
        const int signal = workers_wait(workers, flags->monitor_interval);
        if (signal != 0) // a request to end, which the ranks must get, too
            end_ranks(workers, group, agents, logs, seats, signal);
        else
            fill_seats(workers, group, agents, logs, seats);

        Failure failure;
        const Worker *failed =
            seats->fills ? NULL : workers_failed(workers, flags->shutdown_timeout);
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
        } else if (workers->num_running == 0 && !seats->fills) {
            agents_done(agents, workers_all_ended_with(workers, EXIT_STOPPED));
        } else if (group_may_grow(group)) {
            group_change(agents);
        }
        verdict = agents_verdict(agents);
    }
    workers_end(workers, SIGTERM, flags->shutdown_timeout);
    logs_close(logs);
    return verdict;
}

/* Is it useful to start again after this failure? All nodes come to the same answer. */
static bool may_restart(Group *group, const Agents *agents, const Failure *root)
{
    const Flags *flags = group->flags;
    if (flags->elastic && agents_left_out(agents)) // the others may have gone on: try to rejoin
        return true;
    // A launcher died: go on without its node, unless that is node 0, which hosts the rendezvous.
    if (flags->elastic && root->rank < 0)
        return root->node != 0;
    // Fixed nodes that lost each other try to meet again: perhaps only the network failed.
    if (root->rank < 0)
        return root->status == EXIT_FAILURE && !agents->has_torchrun_nodes &&
               ++group->num_failures <= flags->max_restarts;
    // These would fail again: wrong options, a missing program, output that nobody reads, a
    // training that has diverged.
    if (root->status == EXIT_USAGE || root->pid == 0 || root->is_unread || root->is_final)
        return false;
    if (seats_wanted()) // all restarts are used up: they were seats that were filled
        return false;
    return ++group->num_failures <= flags->max_restarts;
}

/* The job's status, or AGAIN. */
static int conclude(Group *group, Agents *agents, const Workers *workers, const Logs *logs,
                    Verdict verdict, History *history)
{
    const Failure *root = verdict == VERDICT_FAILED ? agents_root_cause(agents) : NULL;
    const bool again = root != NULL ? may_restart(group, agents, root) : verdict == VERDICT_CHANGED;
    if (again && workers->request != 0) { // a request to end came in the meantime
        log_info("ended by %s", signal_name(workers->request));
        return 128 + workers->request;
    }
    if (again) {
        history_add(history, group->restart_count, root, workers, agents->ranks.first_rank);
        return AGAIN;
    }
    if (root == NULL)
        return verdict == VERDICT_STOPPED ? EXIT_STOPPED : EXIT_SUCCESS;
    const bool is_said = root->status == EXIT_USAGE; // the rank has printed what to type instead
    if (!is_said)
        report_print(root, workers, agents->ranks.first_rank);
    if (!is_said && root->rank >= 0)
        history_print(history);
    error_file_write(group->torchrun->error_file, root, logs);
    return root->status;
}

/* Forms the group, starts its ranks, watches them until all have ended. */
static int attempt(Group *group, Agents *agents, Workers *workers, Logs *logs, History *history)
{
    if (!group_join(group, agents)) { // the job has ended while this node waited for room
        if (group->status != EXIT_SUCCESS)
            history_print(history);
        return group->status;
    }
    workers_init(workers, logs, torchrun_flags_signals(group->torchrun));
    Seats seats;
    seats_open(&seats, group->flags, agents, group->restart_count);
    start(workers, group, agents, logs, &seats);
    const Verdict verdict = watch(workers, agents, group, logs, &seats);
    seats_close(&seats);
    const int status = conclude(group, agents, workers, logs, verdict, history);

    workers_free(workers);
    if (status != AGAIN)
        group_close(group, status); // first, so that no late node joins a job that has ended
    agents_leave(agents);
    return status;
}

int main(int argc, char **argv)
{
    Flags flags;
    flags_parse(&flags, &more_flags, argc, argv);
    TorchrunFlags torchrun; // flags that step 03 leaves out
    torchrun_flags_read(&torchrun, &flags);
    Logs *logs = logs_init(&flags); // where the ranks' output goes
    Group group; // the nodes, as they come and go
    group_open(&group, &flags, &torchrun);
    Agents agents; // the launchers of all nodes
    Workers workers; // the ranks of this node
    History history = { 0 };

    int status = AGAIN;
    for (; status == AGAIN; group.restart_count++)
        status = attempt(&group, &agents, &workers, logs, &history);

    history_free(&history);
    logs_free(logs);
    torchrun_flags_free(&torchrun);
    flags_free(&flags);
    return status;
}
