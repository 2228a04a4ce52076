/*
 * 05_fault_tolerance/ddprun - torchrun in C: one command on each node starts all its ranks.
 *
 * Ranks know nothing of each other when they start. The launcher puts a number and the address of a
 * store into each rank's environment; in the store the ranks exchange their own addresses. Then it
 * watches: no rank can train without the others, so the first failure ends all ranks on every node.
 *
 * Here a failure ends only the attempt: the nodes that are left form the group again, with an empty
 * store, and the ranks resume from their last snapshot. The rendezvous' host alone may not be lost.
 */
#include <stdio.h>
#include <stdlib.h>

#include "05_fault_tolerance/reconfigure/seats.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "launcher/attempt_end.h"
#include "launcher/launch.h"

static bool start_rank(Workers *workers, const Group *group, const Agents *agents, Logs *logs,
                       Seats *seats, int local_rank)
{
    Flags *flags = group->flags;
    rank_set_environment(flags, agents, logs, local_rank, group->restart_count);
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

/* Starts a new process for each rank that has ended, if the others go on without a restart. Passes
 * a request to end on to the ranks, and waits until they have ended; they, too, may need new ones.
 */
static void fill_seats(Workers *workers, const Group *group, const Agents *agents, Logs *logs,
                       Seats *seats, int request)
{
    do
        for (int vacant; (vacant = seats_vacant(seats, workers)) >= 0;)
            start_rank(workers, group, agents, logs, seats, vacant);
    while (request != 0 && seats_end(seats, workers, request, group->flags->shutdown_timeout));
    if (request != 0)
        workers_end(workers, request, seats->on ? 0 : group->flags->shutdown_timeout);
}

/* Sleeps until the attempt has ended: all are done, something failed, or new nodes have come. */
static Verdict watch(Workers *workers, Agents *agents, Group *group, Logs *logs, Seats *seats)
{
    const Flags *flags = group->flags;
    Verdict verdict = VERDICT_NONE;
    while (verdict == VERDICT_NONE) {
        const int signal = workers_wait(workers, flags->monitor_interval);
        fill_seats(workers, group, agents, logs, seats, signal);

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

/* Forms the group, starts its ranks, watches them until all have ended. */
static int attempt(Group *group, Agents *agents, Workers *workers, Logs *logs)
{
    if (!group_join(group, agents)) // the job has ended while this node waited for room
        return group->status;
    workers_init(workers, logs, torchrun_flags_signals(group->torchrun));
    Seats seats;
    seats_open(&seats, group->flags, agents, group->restart_count);
    start(workers, group, agents, logs, &seats);
    const Verdict verdict = watch(workers, agents, group, logs, &seats);
    seats_close(&seats);
    const int status = attempt_conclude(group, agents, workers, logs, verdict, seats.on);

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

    int status = AGAIN;
    for (; status == AGAIN; group.restart_count++)
        status = attempt(&group, &agents, &workers, logs);

    logs_free(logs);
    group_free(&group);
    torchrun_flags_free(&torchrun);
    flags_free(&flags);
    return status;
}
