/* A process that was replaced never sends a message again: it is dead and reaped before its seat is
 * announced as free, and so is all that it has started. */
#include "05_fault_tolerance/reconfigure/seats.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/process_identity.h"
#include "05_fault_tolerance/reconfigure/agreement.h"
#include "common/base/memory.h"
#include "common/base/signals.h"

#define DOUBLE_SECONDS 0.3 // wrappers that pass on Ctrl-C deliver it twice
#define STORE_SECONDS 30.0 // time for the store, a thread of node 0's launcher, to answer

bool seats_enabled(void)
{
    return getenv("DDP_RECONFIGURE") != NULL;
}

void seats_open(Seats *seats, const Flags *flags, const Agents *agents, int restart_count)
{
    *seats = (Seats){ .on = seats_enabled(),
                      .first_rank = agents->ranks.first_rank,
                      .max_restarts = flags->max_restarts };
    SYS_CHECK(unsetenv("DDP_INCARNATION"));
    if (!seats->on)
        return;
    if (strcmp(flags->redirects, "0") != 0 || strcmp(flags->tee, "0") != 0)
        usage_error("RECONFIGURE=1 does not go with --redirects and --tee: a new process cannot "
                    "continue the files");
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
    char key[TEXT_BYTES], text[TEXT_BYTES], number[16];
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
static void kill_suspect(Seats *seats, const Workers *workers)
{
    char text[TEXT_BYTES];
    int rank = -1, incarnation = -1;
    agreement_look(&seats->store, "suspect", text, sizeof text);
    sscanf(text, "%d %d", &rank, &incarnation);
    for (int i = 0; i < workers->num_workers; i++) {
        const Worker *worker = &workers->worker[i];
        if (rank != seats->first_rank + i || incarnation != seats->incarnation[i] ||
            !worker->running)
            continue;
        log_info("rank %d keeps the others waiting: killing process %d", rank, (int)worker->pid);
        kill(-worker->pid, SIGKILL);
    }
}

/* Returns whether a new process would fail as this one has, or all restarts are used up. */
static bool is_last_failure(Seats *seats, const Workers *workers, int local_rank)
{
    Failure failure;
    char how[END_BYTES], path[PATH_MAX];
    const Worker *worker = &workers->worker[local_rank];
    const int rank = seats->first_rank + local_rank;
    failure_of_worker(&failure, worker, rank, local_rank, workers->logs);
    if (worker->status == EXIT_USAGE || worker->pid == 0 || failure.is_unread || failure.is_final)
        return true;
    const int64_t count = store_add(&seats->store, "replaced", 1);
    if (count > seats->max_restarts)
        return true;
    log_info("rank %d: %s; a new process takes its seat (%lld of %d)", rank,
             end_text(worker->status, worker->signal, how), (long long)count, seats->max_restarts);
    logs_path(workers->logs, local_rank, "error.json", path);
    unlink(path); // the new one's error is written only where there is no file
    return false;
}

/* Returns the status in the key `end`, which any process may write in a job without a secret. */
static int status_of(const char *end)
{
    const int status = atoi(end);
    return status >= 0 && status < 256 ? status : EXIT_FAILURE;
}

int seats_vacant(Seats *seats, Workers *workers)
{
    char end[TEXT_BYTES];
    seats->fills = false;
    if (!seats->on || seats->store.failed)
        return -1;
    kill_suspect(seats, workers);
    for (int i = workers->num_workers - 1; i >= 0; i--) { // rank 0 last: its failure ends the loop
        Worker *worker = &workers->worker[i];
        if (worker->running)
            continue;
        agreement_look(&seats->store, "end", end, sizeof end);
        // All have this status, however this one ended. But rank 0 has to be sure of a success: if
        // it was killed, a new process checks, or reports that there is no file.
        const int status = status_of(end);
        if (end[0] != '\0' && (status != EXIT_SUCCESS || seats->first_rank + i > 0 ||
                               worker->status == EXIT_SUCCESS)) {
            worker->status = status;
            worker->signal = 0;
        } else if (worker->has_group) { // what it has started still runs
            kill(-worker->pid, SIGKILL);
            seats->fills = true;
        } else if (is_last_failure(seats, workers, i)) {
            store_set(&seats->store, "end", "1", 1); // no rank waits for this one
            return -1;
        } else {
            seats->incarnation[i]++;
            return i;
        }
    }
    return -1;
}

bool seats_end(Seats *seats, Workers *workers, int signal, double seconds)
{
    const double now = seconds_awake();
    const int request = signal == SIGINT ? SIGTERM : signal;
    if (seats->end_begun == 0)
        seats->end_begun = seats->next_request = now;
    if (!seats->on || (workers->num_running == 0 && !seats->fills) ||
        now >= seats->end_begun + seconds)
        return false;
    for (int i = 0; now >= seats->next_request && i < workers->num_workers; i++)
        if (workers->worker[i].running && process_catches(workers->worker[i].pid, request))
            kill(workers->worker[i].pid, request);
    if (now >= seats->next_request)
        seats->next_request = now + 1;
    return workers_wait(workers, 0.1) != SIGINT ||
           seconds_awake() <= seats->end_begun + DOUBLE_SECONDS;
}
