/*
 * A seat is announced as free when its process is dead and reaped, and so is all that it has
 * started: a process that was replaced never sends a message again.
 */
#include "05_fault_tolerance/seats.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define STORE_SECONDS 30.0 // for the store, which a thread of node 0's launcher serves, to answer

bool seats_wanted(void)
{
    return getenv("DDP_RECONFIGURE") != NULL;
}

void seats_open(Seats *seats, const Flags *flags, const Agents *agents, int restart_count)
{
    *seats = (Seats){ .on = seats_wanted(), .max_restarts = flags->max_restarts };
    SYS_CHECK(unsetenv("DDP_INCARNATION"));
    if (!seats->on)
        return;
    if (strcmp(flags->redirects, "0") != 0 || strcmp(flags->tee, "0") != 0)
        usage_error("RECONFIGURE=1 does not go with --redirects and --tee: a new process cannot "
                    "continue the files");
    seats->first_rank = agents->ranks.first_rank;
    seats->incarnation = mem_calloc((size_t)flags->nproc_per_node, sizeof *seats->incarnation);
    CHECK(store_connect(&seats->store, flags->master_addr, agents->master_port, STORE_SECONDS),
          "no store at %s:%d: %s", flags->master_addr, agents->master_port,
          store_connect_reason(errno));
    seats->store.may_fail = true; // then node 0 is gone, and the attempt with it
    snprintf(seats->store.prefix, sizeof seats->store.prefix, "ddp.c/%s/%d/", flags->run_id,
             restart_count);
}

void seats_close(Seats *seats)
{
    if (seats->on)
        store_free(&seats->store);
    free(seats->incarnation);
}

void seats_announce(Seats *seats, int local_rank)
{
    char key[32], text[32], number[16];
    if (!seats->on)
        return;
    snprintf(number, sizeof number, "%d", seats->incarnation[local_rank]);
    snprintf(text, sizeof text, "%s new", number);
    snprintf(key, sizeof key, "seat/%d", seats->first_rank + local_rank);
    store_set(&seats->store, key, text, strlen(text));
    store_ping(&seats->store); // before the process looks
    SYS_CHECK(setenv("DDP_INCARNATION", number, 1));
}

/* Kills the process that keeps the others waiting, if it is one of ours. */
static void kill_suspect(Seats *seats, Workers *workers)
{
    char text[64] = "";
    int rank, incarnation;
    store_compare_set(&seats->store, "suspect", "", "-", text, sizeof text - 1);
    const bool any = sscanf(text, "%d %d", &rank, &incarnation) == 2;
    const int i = any ? rank - seats->first_rank : -1;
    if (i < 0 || i >= workers->num_workers || incarnation != seats->incarnation[i] ||
        !workers->worker[i].running)
        return;
    log_info("rank %d keeps the others waiting: killing process %d", rank,
             (int)workers->worker[i].pid);
    kill(-workers->worker[i].pid, SIGKILL);
}

/* Would a new process fail as this one has, or are all restarts used up? */
static bool is_last_failure(Seats *seats, const Worker *worker, int rank, int local_rank,
                            const Logs *logs)
{
    Failure failure;
    char how[END_BYTES];
    failure_of_worker(&failure, worker, rank, local_rank, logs);
    if (worker->status == EXIT_USAGE || worker->pid == 0 || failure.is_unread || failure.is_final)
        return true;
    const int64_t count = store_add(&seats->store, "replaced", 1);
    if (count <= seats->max_restarts)
        log_info("rank %d: %s; a new process takes its seat (%lld of %d)", rank,
                 end_text(worker->status, worker->signal, how), (long long)count,
                 seats->max_restarts);
    return count > seats->max_restarts;
}

int seats_vacant(Seats *seats, Workers *workers)
{
    char end[16] = "";
    seats->fills = false;
    if (!seats->on || seats->store.failed)
        return -1;
    kill_suspect(seats, workers);
    for (int i = 0; i < workers->num_workers; i++) {
        Worker *worker = &workers->worker[i];
        if (worker->running)
            continue;
        if (store_check(&seats->store, "end")) { // all have this status, however this one ended
            store_get(&seats->store, "end", end, sizeof end - 1);
            worker->status = atoi(end);
            worker->signal = 0;
        } else if (worker->has_group) { // what it has started still runs
            kill(-worker->pid, SIGKILL);
            seats->fills = true;
        } else if (is_last_failure(seats, worker, seats->first_rank + i, i, workers->logs)) {
            store_set(&seats->store, "end", "1", 1); // no rank waits for this one
            return -1;
        } else {
            seats->incarnation[i]++;
            return i;
        }
    }
    return -1;
}
