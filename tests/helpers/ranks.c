#include "tests/helpers/ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/store.h"
#include "tests/helpers/unit.h"

#define RANKS_SECONDS 900 // a rank that runs longer hangs

#define TIMEOUT 300.0

static double timeout = TIMEOUT; // for the ranks' calls to each other

static pid_t fork_child(void)
{
    const pid_t pid = fork();
    SYS_CHECK(pid);
    if (pid == 0) {
        unit_leave();
        prctl(PR_SET_PDEATHSIG, SIGKILL); // no child outlives a test that crashes
    }
    return pid;
}

/* Forks a process that serves the store, so that no rank has the server's thread. */
static pid_t store_fork(int *port)
{
    int ends[2];
    SYS_CHECK(pipe(ends));
    const pid_t pid = fork_child();
    if (pid == 0) {
        int own_port = 0;
        CHECK(store_server_start("127.0.0.1", &own_port, NULL) != NULL, "no store: %s",
              strerror(errno));
        SYS_CHECK(write(ends[1], &own_port, sizeof own_port));
        for (;;)
            pause();
    }
    close(ends[1]);
    CHECK(read(ends[0], port, sizeof *port) == sizeof *port, "the store's process does not start");
    close(ends[0]);
    return pid;
}

static noreturn void run_child(Rank *rank, int port, FILE *errors, void (*body)(Rank *rank))
{
    dup2(fileno(errors), STDERR_FILENO);
    log_set_rank(rank->rank, rank->world_size);
    rank->args.backend = BACKEND_TCP;
    rank->args.all_reduce = ALL_REDUCE_FLAT;
    rank->args.timeout = timeout;
    rank->args.bucket_cap_mb = 25;
    CHECK(store_connect(&rank->store, "127.0.0.1", port, TIMEOUT), "no store");
    body(rank);
    store_free(&rank->store);
    exit(EXIT_SUCCESS);
}

static void read_all(FILE *file, char *text, size_t bytes)
{
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

/* Records how a child has ended, if it has; a stopped one counts as ended. */
static bool has_ended(pid_t pid, RankEnd *end)
{
    int status;
    if (waitpid(pid, &status, WNOHANG | WUNTRACED) != pid)
        return false;
    if (WIFEXITED(status))
        end->status = WEXITSTATUS(status);
    else
        end->status = 128 + (WIFSTOPPED(status) ? WSTOPSIG(status) : WTERMSIG(status));
    return true;
}

void ranks_run(int world_size, void (*body)(Rank *rank), void *context, RankEnd end[MAX_RANKS])
{
    int port = 0;
    const pid_t store = store_fork(&port);
    pid_t pids[MAX_RANKS];
    FILE *errors[MAX_RANKS];
    bool ended[MAX_RANKS] = { false };
    for (int i = 0; i < world_size; i++) {
        end[i].status = -1;
        errors[i] = tmpfile();
        pids[i] = fork_child();
        if (pids[i] == 0)
            run_child(&(Rank){ .rank = i, .world_size = world_size, .context = context }, port,
                      errors[i], body);
    }

    const double start = seconds_now();
    int left = world_size;
    while (left > 0 && seconds_now() < start + RANKS_SECONDS) {
        for (int i = 0; i < world_size; i++) {
            if (ended[i] || !has_ended(pids[i], &end[i]))
                continue;
            ended[i] = true;
            end[i].seconds = seconds_now() - start;
            left--;
        }
        usleep(1000);
    }
    for (int i = 0; i < world_size; i++) {
        if (end[i].status == -1 || end[i].status == 128 + SIGSTOP) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        read_all(errors[i], end[i].errors, sizeof end[i].errors);
    }
    kill(store, SIGKILL);
    waitpid(store, NULL, 0);
}

/* Returns the rank that failed, or -1. If several failed, returns one that a signal has killed,
 * because the others only report that it has gone. */
static int failed_rank(int world_size, const RankEnd *end)
{
    int failed = -1;
    for (int i = 0; i < world_size; i++)
        if (end[i].status != 0 && (failed < 0 || (end[i].status > 128 && end[failed].status < 128)))
            failed = i;
    return failed;
}

void ranks_run_well(int world_size, void (*body)(Rank *rank), void *context)
{
    RankEnd end[MAX_RANKS];
    ranks_run(world_size, body, context, end);
    const int failed = failed_rank(world_size, end);
    if (failed >= 0)
        fail_msg("rank %d of %d: status %d after %.1f s: %s", failed, world_size,
                 end[failed].status, end[failed].seconds, end[failed].errors);
}

static bool has_message(const RankEnd *end, const char *text)
{
    return end->status == EXIT_FAILURE && strstr(end->errors, text) != NULL;
}

/* Returns the first rank that a test has neither stopped nor killed and whose error is different,
 * or -1. */
static int rank_with_other_message(int world_size, const RankEnd *end, const char *text)
{
    for (int i = 0; i < world_size; i++)
        if (end[i].status != 128 + SIGSTOP && end[i].status != 128 + SIGKILL &&
            !has_message(&end[i], text))
            return i;
    return -1;
}

double ranks_run_into_timeout(int world_size, double seconds, void (*body)(Rank *rank),
                              void *context, const char *text, RankEnd end[MAX_RANKS])
{
    timeout = seconds;
    ranks_run(world_size, body, context, end);
    while (rank_with_other_message(world_size, end, text) >= 0 && timeout < 60) {
        timeout *= 5;
        print_message("again, with a timeout of %g s\n", timeout);
        ranks_run(world_size, body, context, end);
    }
    seconds = timeout;
    timeout = TIMEOUT;
    const int other = rank_with_other_message(world_size, end, text);
    if (other >= 0)
        expect_error(end, other, text);
    return seconds;
}

void expect_error(const RankEnd *end, int rank, const char *text)
{
    if (!has_message(&end[rank], text))
        fail_msg("rank %d ended with %d and \"%s\", not with \"%s\"", rank, end[rank].status,
                 end[rank].errors, text);
}

void expect_error_at_once(const RankEnd *end, int rank, const char *text)
{
    expect_error(end, rank, text);
    if (end[rank].seconds > AT_ONCE)
        fail_msg("rank %d needed %.1f s to say \"%s\"", rank, end[rank].seconds, text);
}

void rank_join(Rank *rank, ProcessGroup *pg)
{
    process_group_init_store(pg, &rank->args, &rank->store, rank->rank, rank->world_size,
                             (MemoryLocation){ 0 });
}
