/* Each node decides for itself, without a message: by the flags, and by the root cause, on which
 * all nodes have agreed. */
#include "launcher/attempt_end.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "launcher/error_file.h"

/* Returns whether it is useful to start again after this failure, the same on all nodes. */
static bool may_restart(Group *group, const Agents *agents, const Failure *root, bool replaces)
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
    // These would fail again: wrong options, a missing program, output that no process reads, a
    // training that has diverged.
    if (root->status == EXIT_USAGE || root->pid == 0 || root->is_unread || root->is_final)
        return false;
    if (replaces) // then all restarts are used up
        return false;
    return ++group->num_failures <= flags->max_restarts;
}

int attempt_conclude(Group *group, Agents *agents, const Workers *workers, const Logs *logs,
                     Verdict verdict, bool replaces)
{
    const Failure *root = verdict == VERDICT_FAILED ? agents_root_cause(agents) : NULL;
    const bool again =
        root != NULL ? may_restart(group, agents, root, replaces) : verdict == VERDICT_CHANGED;
    if (again && workers->request != 0) { // a request to end came in the meantime
        log_info("ended by %s", signal_name(workers->request));
        return 128 + workers->request;
    }
    if (again) {
        history_add(&group->history, group->restart_count, root, workers, agents->ranks.first_rank);
        return AGAIN;
    }
    if (root == NULL)
        return verdict == VERDICT_STOPPED ? EXIT_STOPPED : EXIT_SUCCESS;
    const bool already_printed =
        root->status == EXIT_USAGE; // the rank has printed what to type instead
    if (!already_printed)
        report_print(root, workers, agents->ranks.first_rank);
    if (!already_printed && root->rank >= 0)
        history_print(&group->history);
    error_file_write(group->torchrun->error_file, root, logs);
    return root->status;
}
