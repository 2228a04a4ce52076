/* Mismatched or invalid calls: every rank names them and the ranks that made them. */
#include <stdio.h>

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define LARGE 300000 // floats; more than the kernel buffers for a rank that does not read

static float data[LARGE], more[MAX_RANKS * 10];

/* Rank `culprit` makes another call than the others. */
typedef struct {
    int culprit;
    void (*call)(ProcessGroup *pg);
    const char *text;
    void (*other_call)(ProcessGroup *pg);
    const char *other_text;
} Mismatch;

static void sum(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, FLOAT32, REDUCE_SUM);
}

static void sum_of_fewer(ProcessGroup *pg)
{
    all_reduce(pg, data, 10, FLOAT32, REDUCE_SUM);
}

static void sum_of_ints(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, INT32, REDUCE_SUM);
}

static void largest(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, FLOAT32, REDUCE_MAX);
}

static void broadcast_from_0(ProcessGroup *pg)
{
    broadcast(pg, data, 10, INT32, 0);
}

static void broadcast_from_1(ProcessGroup *pg)
{
    broadcast(pg, data, 10, INT32, 1);
}

static void long_broadcast_from_0(ProcessGroup *pg)
{
    broadcast(pg, data, LARGE, FLOAT32, 0);
}

static void long_broadcast_from_1(ProcessGroup *pg)
{
    broadcast(pg, data, LARGE, FLOAT32, 1);
}

static void reduce_to_0(ProcessGroup *pg)
{
    reduce(pg, data, 10, FLOAT64, REDUCE_MIN, 0);
}

static void reduce_to_1(ProcessGroup *pg)
{
    reduce(pg, data, 10, FLOAT64, REDUCE_MIN, 1);
}

static void gather_to_0(ProcessGroup *pg)
{
    gather(pg, data, more, 10, UINT8, 0);
}

static void scatter_from_0(ProcessGroup *pg)
{
    scatter(pg, more, data, 10, UINT8, 0);
}

static void nothing(ProcessGroup *pg)
{
    (void)pg;
}

static void sum_in(ProcessGroup *pg, const char *name)
{
    ProcessGroup group;
    int all[MAX_RANKS];
    for (int i = 0; i < pg->world_size; i++)
        all[i] = i;
    process_group_new(&group, pg, all, pg->world_size, name);
    sum(&group);
    subgroup_free(&group);
}

static void sum_in_rows(ProcessGroup *pg)
{
    sum_in(pg, "rows");
}

static void sum_in_columns(ProcessGroup *pg)
{
    sum_in(pg, "columns");
}

static void mismatch_body(Rank *rank)
{
    const Mismatch *mismatch = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    (rank->rank == mismatch->culprit ? mismatch->other_call : mismatch->call)(&pg);
    all_reduce(&pg, data, 7, INT64, REDUCE_SUM);
    process_group_destroy(&pg);
}

#define SUM "all_reduce #1 of 18432 float32 (sum)"

static void test_mismatches(void **state)
{
    (void)state;
    const Mismatch mismatches[] = {
        { 1, sum, SUM, broadcast_from_0, "broadcast #1 of 10 int32 from rank 0" },
        { 1, sum, SUM, sum_of_fewer, "all_reduce #1 of 10 float32 (sum)" },
        { 1, sum, SUM, sum_of_ints, "all_reduce #1 of 18432 int32 (sum)" },
        { 0, sum, SUM, largest, "all_reduce #1 of 18432 float32 (max)" },
        { 1, sum, SUM, nothing, "all_reduce #1 of 7 int64 (sum)" },
        { 1, sum, SUM, barrier, "barrier #1" },
        { 0, broadcast_from_0, "broadcast #1 of 10 int32 from rank 0", broadcast_from_1,
          "broadcast #1 of 10 int32 from rank 1" }, // both wait
        { 1, broadcast_from_0, "broadcast #1 of 10 int32 from rank 0", broadcast_from_1,
          "broadcast #1 of 10 int32 from rank 1" }, // both send
        { 0, long_broadcast_from_0, "broadcast #1 of 300000 float32 from rank 0",
          long_broadcast_from_1, "broadcast #1 of 300000 float32 from rank 1" },
        { 1, reduce_to_0, "reduce #1 of 10 float64 (min) to rank 0", reduce_to_1,
          "reduce #1 of 10 float64 (min) to rank 1" },
        { 1, gather_to_0, "gather #1 of 10 uint8 to rank 0", scatter_from_0,
          "scatter #1 of 10 uint8 from rank 0" },
        { 1, sum_in_rows, "all_reduce #0 of 18432 float32 (sum) in group \"rows\"", sum_in_columns,
          "all_reduce #0 of 18432 float32 (sum) in group \"columns\"" },
    };
    for (size_t i = 0; i < sizeof mismatches / sizeof mismatches[0]; i++) {
        const Mismatch *mismatch = &mismatches[i];
        for (int world_size = 2; world_size <= 4; world_size += 2) {
            RankEnd end[MAX_RANKS];
            ranks_run(world_size, mismatch_body, (void *)mismatch, end);
            char text[128];
            snprintf(text, sizeof text, "rank %d calls %s", mismatch->culprit,
                     mismatch->other_text);
            for (int rank = 0; rank < world_size; rank++) {
                expect_error_at_once(end, rank, text);
                expect_error(end, rank, mismatch->text);
            }
        }
    }
}

static void send_recv_body(Rank *rank)
{
    ProcessGroup pg;
    const size_t *counts = rank->context;
    rank_join(rank, &pg);
    if (rank->rank == 0)
        pg_send(&pg, data, counts[0], FLOAT32, 1);
    else
        pg_recv(&pg, data, counts[1], FLOAT32, 0);
    barrier(&pg);
}

/* Messages of one kind, a few bytes or many, and of one of the kinds beside one of another. */
static void test_send_and_recv_of_other_counts(void **state)
{
    (void)state;
    static const size_t counts[][2] = { { 10, 11 },     { 11, 10 },     { 10, 60 },
                                        { 60, 10 },     { 10, 1000 },   { LARGE, 10 },
                                        { 1000, 1001 }, { 1001, 1000 }, { 0, LARGE } };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        RankEnd end[MAX_RANKS];
        char text[160];
        ranks_run(2, send_recv_body, (void *)counts[i], end);
        snprintf(text, sizeof text,
                 "rank 1 calls recv #0 of %zu float32 from rank 0, rank 0 calls send #0 of %zu "
                 "float32 to rank 1",
                 counts[i][1], counts[i][0]);
        for (int rank = 0; rank < 2; rank++)
            expect_error_at_once(end, rank, text);
    }
}

static void late_call_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 0)
        sum(&pg);
    process_group_destroy(&pg);
}

static void test_one_call_more_than_the_others(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, late_call_body, NULL, end);
    for (int rank = 0; rank < 3; rank++) {
        expect_error_at_once(end, rank, "rank 0 calls all_reduce #0 of 18432 float32 (sum)");
        expect_error(end, rank, "calls barrier #0");
    }
}

static void send_to_self(ProcessGroup *pg)
{
    pg_send(pg, data, 1, FLOAT32, pg->rank);
}

static void broadcast_from_7(ProcessGroup *pg)
{
    broadcast(pg, data, 1, FLOAT32, 7);
}

static void sum_of_everything(ProcessGroup *pg)
{
    all_reduce(pg, data, SIZE_MAX / 4, FLOAT32, REDUCE_SUM);
}

static void senseless_body(Rank *rank)
{
    const Mismatch *mistake = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    mistake->call(&pg);
}

static void test_senseless_calls(void **state)
{
    (void)state;
    const Mismatch cases[] = {
        { .call = send_to_self,
          .text = "send #0 of 1 float32 to rank 0: that is this rank itself" },
        { .call = broadcast_from_7, .text = "broadcast: there is no rank 7: ranks are numbered" },
        { .call = sum_of_everything, .text = "float32 (sum): no memory is that large" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, senseless_body, (void *)&cases[i], end);
        expect_error(end, 0, cases[i].text);
    }
}

/* What rank 1 reports that it waits for, in call #0, which rank 0 has begun; its only message. */
typedef struct {
    Notice notice;
    const char *text; // error with which rank 0 ends
} Nonsense;

static void nonsense_body(Rank *rank)
{
    const Nonsense *nonsense = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == 1) {
        // The backend's state begins with the mesh.
        const int fd = ((Mesh *)pg.state)->peer[0].notices;
        SYS_CHECK(net_send(fd, &nonsense->notice, sizeof(Notice), seconds_now() + 200));
        raise(SIGSTOP);
    }
    sum(&pg);
}

static void test_notices_that_make_no_sense(void **state)
{
    (void)state;
    static const char unknown[] = "rank 1 calls something unknown (is it another version",
                      gone[] = "rank 1 is gone: connection closed during";
    const Nonsense cases[] = {
        { { .call = { .kind = -1 } }, unknown },
        { { .call = { .kind = RECV + 1 } }, unknown },
        { { .call = { .type = -1 } }, unknown },
        { { .call = { .type = NUM_DTYPES } }, unknown },
        { { .call = { .op = -1 } }, unknown },
        { { .call = { .op = REDUCE_MIN + 1 } }, unknown },
        { { .waits_for = -1 }, gone },
        { { .waits_for = 2 }, gone },
        { { .kind = NOTICE_ABORT, .waits_for = 1, .text = "the reason" }, "fatal: the reason\n" },
        { { .kind = NOTICE_ABORT, .waits_for = 0, .call = { .count = 5 } }, // after a stop
          "fatal: the others gave up waiting for this rank in all_reduce #0 of 5 float32 (sum)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, nonsense_body, (void *)&cases[i], end);
        expect_error(end, 0, cases[i].text);
    }
}

/* Rank 1 sends its reason in two halves, and closes its data connection between them. */
static void halves_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == 1) {
        const Notice why = { .kind = NOTICE_ABORT, .waits_for = NOBODY, .text = "the reason" };
        const size_t half = offsetof(Notice, text);
        const Peer *peer = ((Mesh *)pg.state)->peer;
        SYS_CHECK(net_send(peer->notices, &why, half, seconds_now() + 200));
        shutdown(peer->data, SHUT_RDWR);
        usleep(100 * 1000);
        SYS_CHECK(
            net_send(peer->notices, (char *)&why + half, sizeof why - half, seconds_now() + 200));
        raise(SIGSTOP);
    }
    sum(&pg);
}

static void test_half_a_notice_is_kept(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, halves_body, NULL, end);
    expect_error(end, 0, "fatal: the reason");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatches),
        cmocka_unit_test(test_send_and_recv_of_other_counts),
        cmocka_unit_test(test_one_call_more_than_the_others),
        cmocka_unit_test(test_senseless_calls),
        cmocka_unit_test(test_notices_that_make_no_sense),
        cmocka_unit_test(test_half_a_notice_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
