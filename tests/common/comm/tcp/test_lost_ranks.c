/* Ranks that die, stop or wait for each other: which rank is named, by which ranks, how soon. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define LARGE 300000 // floats; more than the kernel buffers for a rank that does not read

static float data[LARGE], more[MAX_RANKS * 1000];

/* Rank `culprit` does not take part in a call. */
typedef struct {
    void (*call)(ProcessGroup *pg);
    int culprit;
} Loss;

static void long_sum(ProcessGroup *pg)
{
    all_reduce(pg, data, LARGE, FLOAT32, REDUCE_SUM);
}

static void long_all_gather(ProcessGroup *pg)
{
    all_gather(pg, data, more, 1000, FLOAT32);
}

static void long_broadcast(ProcessGroup *pg)
{
    broadcast(pg, data, LARGE, FLOAT32, 0);
}

static const Loss losses[] = {
    { long_sum, 3 },
    { barrier, 2 },
    { long_all_gather, 1 },
    { long_broadcast, 1 },
};

static void killed_body(Rank *rank)
{
    const Loss *loss = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == loss->culprit) {
        usleep(100 * 1000); // the others are waiting in the call by now
        raise(SIGKILL);
    }
    loss->call(&pg);
    barrier(&pg);
}

static void test_killed_rank_is_named_by_all_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(4, killed_body, (void *)&losses[i], end);
        char text[128];
        snprintf(text, sizeof text, "rank %d is gone: connection closed during ",
                 losses[i].culprit);
        for (int rank = 0; rank < 4; rank++)
            if (rank != losses[i].culprit)
                expect_error_at_once(end, rank, text);
    }
}

/* The culprit has waited in an earlier call, and has told the others so. */
static void stopped_body(Rank *rank)
{
    const Loss *loss = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == (loss->culprit + 1) % rank->world_size)
        usleep(150 * 1000);
    barrier(&pg);
    if (rank->rank == loss->culprit)
        raise(SIGSTOP);
    loss->call(&pg);
    barrier(&pg);
}

static void test_stopped_rank_is_named_by_all_in_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i += 3) { // the first and the last
        RankEnd end[MAX_RANKS];
        char text[128];
        snprintf(text, sizeof text, "rank %d is missing in ", losses[i].culprit);
        const double timeout =
            ranks_run_into_timeout(4, 0.8, stopped_body, (void *)&losses[i], text, end);
        snprintf(text, sizeof text, " after %g s", timeout);
        for (int rank = 0; rank < 4; rank++) {
            if (rank == losses[i].culprit)
                continue;
            expect_error(end, rank, text);
            assert_true(end[rank].seconds >= 0.7 && end[rank].seconds < timeout + AT_ONCE);
        }
    }
}

/* Two ranks communicate, and one of them waits for a third that does not come. */
static void chain_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 2)
        raise(SIGSTOP);
    pg_recv(&pg, data, 10, FLOAT32, rank->rank + 1);
}

static void test_the_end_of_a_chain_is_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_into_timeout(3, 0.6, chain_body, NULL, "rank 2 is missing in ", end);
}

static void embrace_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->world_size == 3 && rank->rank == 0)
        rank->args.timeout *= 0.8; // it is the first to look for the one to blame
    rank_join(rank, &pg);
    pg_recv(&pg, data, 10, FLOAT32, ((const int *)rank->context)[rank->rank]);
}

/* Two ranks wait for each other; or two do, and a third for one of them. */
static void test_deadly_embrace(void **state)
{
    (void)state;
    static const int waits_for[2][3] = { { 1, 0 }, { 1, 2, 1 } };
    for (int i = 0; i < 2; i++) {
        RankEnd end[MAX_RANKS];
        char text[64];
        const double timeout = ranks_run_into_timeout(
            2 + i, 0.6, embrace_body, (void *)waits_for[i], "did not end within ", end);
        snprintf(text, sizeof text, "did not end within %g s: rank", timeout);
        for (int rank = 0; rank < 2 + i; rank++)
            expect_error(end, rank, i == 0 ? text : "did not end within ");
    }
}

/* Replace the C library's: count messages, of which the kernel takes a half at most on request, and
 * report a rank's pause before it ends. */
static int num_sent;
static bool takes_half;

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "send");
    num_sent++;
    return real(fd, data, takes_half ? bytes / 2 : bytes, flags);
}

static int num_failures; // of the next calls that look for a notice

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    ssize_t (*real)(int, void *, size_t, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "recv");
    if ((flags & MSG_PEEK) == 0 || num_failures == 0)
        return real(fd, data, bytes, flags);
    errno = num_failures-- % 2 == 0 ? EAGAIN : EINTR;
    return -1;
}

int poll(struct pollfd *polled, nfds_t count, int timeout)
{
    int (*real)(struct pollfd *, nfds_t, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "poll");
    if (count == 0 && timeout >= 100)
        log_info("pauses for %d ms", timeout);
    return real(polled, count, timeout);
}

/* The launcher blames the first process to end, which must be the culprit. Its own line comes once,
 * and what it leaves for the launcher says that a restart may help. */
static void test_the_others_end_a_little_later(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    char path[] = "/tmp/test_lost_ranks.XXXXXX", record[1024] = "";
    close(mkstemp(path));
    unlink(path);
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    ranks_run(2, killed_body, (void *)&(Loss){ long_sum, 1 }, end);
    unsetenv("TORCHELASTIC_ERROR_FILE");
    expect_error(end, 0, "pauses for 200 ms\n");
    const char *line = strstr(end[0].errors, "fatal: rank 1 is gone: ");
    assert_non_null(line);
    assert_null(strstr(line + 1, "fatal: "));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(record, 1, sizeof record - 1, file) > 0);
    fclose(file);
    unlink(path);
    assert_non_null(strstr(record, "rank 1 is gone: "));
    assert_non_null(strstr(record, "\"restart\": true"));
}

/* A peer that has room for half a notice gets no more of them, since the next would not begin where
 * it expects one. */
static void half_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    Mesh *mesh = pg.state;
    num_sent = 0;
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
    takes_half = true;
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
    takes_half = false;
    CHECK(num_sent == 2, "%d notices for one rank", num_sent);
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
    CHECK(num_sent == 2, "it is sent another one");
    store_add(&rank->store, "done", 1);
    while (store_add(&rank->store, "done", 0) < rank->world_size)
        usleep(1000);
}

static void test_half_a_notice_is_the_last(void **state)
{
    (void)state;
    ranks_run_well(2, half_body, NULL);
}

/* A call that is interrupted, or finds no notice after all, does not make a rank look lost. */
static void interrupted_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    num_failures = rank->rank == 0 ? 2 : 0;
    mesh_notify(pg.state, NOTICE_ALIVE, NOBODY);
    int rounds = 0; // in which rank 0 waits, and looks for notices
    for (; all_reduce_scalar(&pg, num_failures, REDUCE_SUM) > 0; rounds++) {
        CHECK(rounds < 500, "it does not look for notices");
        usleep(rank->rank == 0 ? 0 : 2000 + 200 * rounds); // longer than a busy machine keeps it
    }
    process_group_destroy(&pg);
}

static void test_interrupted_looks(void **state)
{
    (void)state;
    ranks_run_well(2, interrupted_body, NULL);
}

/* Rank 0 only sends, so it never waits; rank 1 has given up, and does not end. */
static void never_waits_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == 1) {
        const Notice why = { .kind = NOTICE_ABORT, .waits_for = NOBODY, .text = "the reason" };
        const int fd = ((Mesh *)pg.state)->peer[0].notices;
        CHECK(send(fd, &why, sizeof why, 0) == sizeof why, "not sent");
        store_set(&rank->store, "sent", "", 0);
        store_ping(&rank->store);
        raise(SIGSTOP);
    }
    store_wait(&rank->store, "sent");
    for (int i = 0; i < 20; i++) {
        usleep(2000);
        pg_send(&pg, data, 1, FLOAT32, 1);
    }
    die("it has not read the notice");
}

static void test_a_rank_that_never_waits_reads_notices(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, never_waits_body, NULL, end);
    expect_error(end, 0, "fatal: the reason\n");
}

static void keep_alive_for(ProcessGroup *pg, double seconds)
{
    for (const double end = seconds_now() + seconds; seconds_now() < end; usleep(1000))
        process_group_keep_alive(pg);
}

/* Rank 0 comes too late, but reports all the time that it is alive. */
static void late_body(Rank *rank)
{
    static void (*const calls[])(ProcessGroup * pg) = { long_sum, long_broadcast, long_all_gather };
    ProcessGroup pg;
    rank->args.timeout = 3;
    rank_join(rank, &pg);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        num_sent = 0;
        if (rank->rank == 0)
            keep_alive_for(&pg, 1.3 * rank->args.timeout);
        CHECK(num_sent <= 7 * (pg.world_size - 1), "%d notices, not 4 in a timeout", num_sent);
        calls[i](&pg);
    }
    process_group_destroy(&pg);
}

static void test_rank_that_is_late_but_alive(void **state)
{
    (void)state;
    ranks_run_well(4, late_body, NULL);
}

static void late_and_stopped_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == 0) {
        keep_alive_for(&pg, rank->args.timeout / 2);
        raise(SIGSTOP);
    }
    long_sum(&pg);
}

static void test_rank_that_was_alive_and_stops(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_into_timeout(3, 1, late_and_stopped_body, NULL, "rank 0 is missing in all_reduce #1",
                           end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank_is_named_by_all_at_once),
        cmocka_unit_test(test_stopped_rank_is_named_by_all_in_time),
        cmocka_unit_test(test_the_end_of_a_chain_is_named),
        cmocka_unit_test(test_deadly_embrace),
        cmocka_unit_test(test_rank_that_is_late_but_alive),
        cmocka_unit_test(test_rank_that_was_alive_and_stops),
        cmocka_unit_test(test_the_others_end_a_little_later),
        cmocka_unit_test(test_half_a_notice_is_the_last),
        cmocka_unit_test(test_interrupted_looks),
        cmocka_unit_test(test_a_rank_that_never_waits_reads_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
