/* What the others tell a rank that waits, and how it ends: which rank it names. */
#include "tests/common/comm/tcp/rank_by_hand.h"

/* ---- what others tell ---- */

static void test_a_rank_is_alive(void **state)
{
    (void)state;
    clock_now = 1050;
    tell(3, NOTICE_ALIVE, NOBODY, &mesh->call);
    sleep_until_notice(2);
    assert_true(mesh->deadline == 1050 + TIMEOUT);
    mesh->deadline = 5000; // a later one stands
    tell(3, NOTICE_ALIVE, NOBODY, &mesh->call);
    sleep_until_notice(2);
    assert_true(mesh->deadline == 5000 && num_received == 0);
    mesh->on_demand = (struct OnDemand *)&pg;
    tell(3, NOTICE_ALIVE, NOBODY, &mesh->call);
    sleep_until_notice(2);
    assert_int_equal(num_received, 1);
}

static void test_a_rank_that_may_leave(void **state)
{
    (void)state;
    tell(3, NOTICE_CLOSE, NOBODY, &mesh->call);
    shutdown(notices[3], SHUT_RDWR);
    sleep_until_notice(2);
    assert_int_equal(mesh->watched[3].fd, -1);
    sleep_until_notice(2);
    assert_true(clock_now == 1010);
}

static void test_half_a_notice(void **state)
{
    (void)state;
    const Notice notice = { .kind = NOTICE_WAITING, .waits_for = 2, .call = mesh->call };
    for (int closed = 0; closed < 2; closed++) {
        assert_int_equal(write(notices[3], &notice, 100), 100);
        if (closed) {
            shutdown(notices[3], SHUT_WR);
            assert_true(ends(NOBODY, 2));
            expect_end(NOBODY,
                       "rank 3 is gone: connection closed during all_reduce #7 of 5 float32 (sum)");
            return;
        }
        sleep_until_notice(2);
        assert_int_equal(mesh->peer[3].last.waits_for, 0);
        assert_int_equal(write(notices[3], (const char *)&notice + 100, sizeof notice - 100),
                         sizeof notice - 100);
        sleep_until_notice(2);
        assert_int_equal(mesh->peer[3].last.waits_for, 2);
    }
}

static void test_who_can_be_waited_for(void **state)
{
    (void)state;
    static const struct {
        int waits_for;
        bool is_rank;
    } cases[] = { { 0, true }, { N - 1, true }, { -1, false }, { N, false } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        tear_down(NULL);
        set_up(NULL);
        clock_step = cases[i].is_rank ? 0 : 0.4; // it waits for a reason for a second
        tell(3, NOTICE_WAITING, cases[i].waits_for, &mesh->call);
        assert_int_equal(ends(NOBODY, 2), !cases[i].is_rank);
        if (!cases[i].is_rank)
            expect_end(NOBODY,
                       "rank 3 is gone: connection closed during all_reduce #7 of 5 float32 (sum)");
        else
            assert_int_equal(mesh->peer[3].last.waits_for, cases[i].waits_for);
    }
}

/* A rank that closes its connection, or only its data's, has perhaps said why. */
static void test_the_last_notice_of_a_rank(void **state)
{
    (void)state;
    Notice last = { .kind = NOTICE_ABORT, .waits_for = 2 };
    memset(last.text, 'x', sizeof last.text); // without an end
    tell(3, NOTICE_WAITING, 2, &mesh->call);
    assert_int_equal(write(notices[3], &last, sizeof last), sizeof last);
    close(notices[3]);
    notices[3] = dup(notices[2]);
    assert_true(ends(NOBODY, 2) || ends(NOBODY, 2));
    assert_int_equal(pg.missing, 2);
    Notice notice;
    assert_true(told(0, &notice));
    assert_memory_equal(notice.text, last.text, sizeof last.text);
}

static void lose(int rank)
{
    if (setjmp(mesh->unwind) == 0)
        mesh_lost(mesh, rank);
}

static void test_a_reason_may_come_late(void **state)
{
    (void)state;
    clock_step = 0.3; // what a look takes
    lose(3);
    expect_end(NOBODY, "rank 3 is gone: connection closed during all_reduce #7 of 5 float32 (sum)");
    assert_true(clock_now > 1001.2 && clock_now < 1001.6); // a second after the first look
    num_failed = 0;
    mesh->watched[3].fd = -1; // it has said that it leaves
    clock_now = 1000;
    lose(3);
    assert_true(clock_now < 1000.4);
}

static void test_one_lost_rank_may_know_why(void **state)
{
    (void)state;
    shutdown(notices[0], SHUT_RDWR);
    const Notice last = { .kind = NOTICE_ABORT, .waits_for = 0, .text = "the disk is full" };
    assert_int_equal(write(notices[3], &last, sizeof last), sizeof last);
    assert_true(ends(NOBODY, 2));
    Notice notice;
    assert_true(told(2, &notice));
    assert_string_equal(notice.text, "the disk is full");
    assert_int_equal(pg.missing, 0);
}

static void test_a_closed_connection(void **state)
{
    (void)state;
    shutdown(notices[0], SHUT_RDWR);
    errno = EAGAIN; // of an earlier call
    assert_true(ends(NOBODY, 2));
    assert_string_equal(said, "rank 0 is gone: connection closed during all_reduce #7 of 5 float32 "
                              "(sum): this rank leaves the group");
    assert_int_equal(pg.missing, NOBODY);
}

static void test_a_late_reason_of_rank_0(void **state)
{
    (void)state;
    const Notice last = { .kind = NOTICE_ABORT, .waits_for = 0, .text = "the disk is full" };
    assert_int_equal(write(notices[0], &last, sizeof last), sizeof last);
    lose(0);
    assert_string_equal(said, "the disk is full: this rank leaves the group");
}

/* If this rank was stopped, the others have given up waiting for it. */
static void test_the_missing_rank_is_this_one(void **state)
{
    (void)state;
    const Notice last = {
        .kind = NOTICE_ABORT, .waits_for = OWN, .call = mesh->call, .text = "rank 1 is missing"
    };
    assert_int_equal(write(notices[3], &last, sizeof last), sizeof last);
    mesh->call.sequence = 8;
    assert_true(ends(NOBODY, 2));
    assert_int_equal(pg.missing, OWN);
    Notice notice;
    assert_true(told(2, &notice));
    assert_string_equal(notice.text, "rank 1 is missing"); // which it passes on as it is
    assert_string_equal(said,
                        "the others gave up waiting for this rank in all_reduce #7 of 5 float32 "
                        "(sum) after 100 s: this rank leaves the group");
}

/* ---- calls that differ ---- */

static void test_calls_that_differ(void **state)
{
    (void)state;
    CollectiveId same = mesh->call, other = mesh->call, message = mesh->call, named = mesh->call;
    other.count = 6, message.count = 6, message.kind = SEND, named.count = 6;
    snprintf(named.group, sizeof named.group, "tp");
    call.sequence = 8, call.kind = BARRIER;
    mesh_begin(mesh, &call); // #7 is one that this rank has done
    const CollectiveId *const equal[] = { &same, &message, &named };
    for (size_t i = 0; i < LENGTH(equal); i++) {
        tell(3, NOTICE_WAITING, 2, equal[i]);
        sleep_until_notice(2);
    }
    tell(3, NOTICE_WAITING, 2, &other);
    assert_true(ends(NOBODY, 2));
    expect_end(NOBODY,
               "rank 1 calls all_reduce #7 of 5 float32 (sum), rank 3 calls all_reduce #7 of 6 "
               "float32 (sum)");
}

/* What is no call of this program is not described, and what is the last of its kind is. */
static void test_calls_of_another_program(void **state)
{
    (void)state;
    const CollectiveId first = { .kind = ALL_REDUCE, .type = 0, .op = REDUCE_SUM };
    struct {
        CollectiveId id;
        const char *text; // NULL: something unknown
    } cases[] = { { first, "all_reduce #0 of 0 float32 (sum)" },
                  { first, NULL },
                  { first, NULL },
                  { first, NULL },
                  { first, NULL },
                  { first, NULL },
                  { first, NULL },
                  { first, "recv #0 of 0 " },
                  { first, "(min)" } };
    cases[1].id.kind = -1, cases[2].id.kind = RECV + 1;
    cases[3].id.type = -1, cases[4].id.type = NUM_DTYPES;
    cases[5].id.op = -1, cases[6].id.op = REDUCE_MIN + 1;
    cases[7].id.kind = RECV, cases[7].id.type = NUM_DTYPES - 1, cases[8].id.op = REDUCE_MIN;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        Notice notice;
        if (setjmp(mesh->unwind) == 0)
            mesh_mismatch(mesh, 3, &cases[i].id);
        assert_true(told(0, &notice));
        assert_has(notice.text, cases[i].text != NULL
                                    ? cases[i].text
                                    : "rank 3 calls something unknown (is it another version");
    }
}

/* ---- the timeout ---- */

/* Ranks wait for each other in a chain; the one at its end has said nothing of late. */
static void test_the_end_of_the_chain(void **state)
{
    (void)state;
    mesh->wait.next_notice_time = mesh->deadline = 1100;
    clock_now = 1100;
    const struct {
        int waits_for[N]; // of ranks 0, 2 and 3; NOBODY: it is silent
        double at; // when they said so
        int missing;
        const char *text;
    } cases[] = {
        { { NOBODY, 0, 3, NOBODY }, 1090, 3, "rank 3 is missing in " },
        { { NOBODY, 0, NOBODY, 2 }, 1090, 2, "rank 2 is missing in " },
        { { NOBODY, 0, 3, 0 }, 1090, 0, "rank 0 is missing in " },
        { { NOBODY, 0, 3, 0 }, 1050, 2, "rank 2 is missing in " }, // too long ago
        { { NOBODY, 0, 3, 0 }, 1050.1, 0, "rank 0 is missing in " },
        { { NOBODY, 0, 1, NOBODY },
          1090,
          NOBODY,
          "rank 1 waits for rank 2, which is in barrier #3" },
        { { NOBODY, 0, 3, 2 }, 1090, NOBODY, "rank 1 waits for rank 2, which is in barrier #3" },
        { { NOBODY, 0, 2, NOBODY },
          1090,
          NOBODY,
          "rank 1 waits for rank 2, which is in barrier #3" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        Notice notice;
        num_failed = 0, pg.revoked = false;
        for (int rank = 0; rank < N; rank++) {
            Peer *peer = &mesh->peer[rank];
            peer->last = (Notice){ .waits_for = cases[i].waits_for[rank],
                                   .call = { .kind = BARRIER, .sequence = 3 } };
            peer->reported_at = cases[i].waits_for[rank] == NOBODY ? 1 : cases[i].at;
        }
        mesh->peer[OWN].reported_at = -1e9;
        assert_true(ends(NOBODY, 2));
        assert_int_equal(pg.missing, cases[i].missing);
        assert_true(told(0, &notice));
        assert_has(notice.text, cases[i].text);
        assert_has(notice.text,
                   cases[i].missing == NOBODY
                       ? "all_reduce #7 of 5 float32 (sum) did not end within 100 s"
                       : "in all_reduce #7 of 5 float32 (sum) after 100 s: it is stopped");
    }
}

static void test_the_timeout_is_put_off(void **state)
{
    (void)state;
    clock_now = mesh->wait.next_notice_time = mesh->deadline;
    mesh->on_demand = (struct OnDemand *)&pg;
    has_answer = true; // extras/on_demand asks first
    assert_false(ends(NOBODY, 2));
    assert_true(num_queries == 1 && queried == 2);
    has_answer = false;
    mesh->on_demand = NULL;
    for (int rank = 0; rank < N; rank++)
        if (rank != OWN)
            expect_told(rank, NOTICE_WAITING, 2);

    clock_now = mesh->deadline; // the second notice of a rank says that it is alive
    tell(3, NOTICE_WAITING, 2, &mesh->call);
    tell(3, NOTICE_ALIVE, NOBODY, &mesh->call);
    assert_false(ends(NOBODY, 2));
    assert_true(mesh->deadline == clock_now + TIMEOUT && num_queries == 1);
    clock_now = mesh->deadline - 1; // just before
    mesh->wait.next_notice_time = clock_now + 0.5;
    assert_false(ends(NOBODY, 2));
}

/* ---- a group that does not survive ---- */

static void time_out(const void *context)
{
    (void)context;
    mesh->survivor = NULL;
    pg.calls.error_suffix = "; see the end";
    clock_now = mesh->deadline;
    mesh_wait(mesh, NOBODY, 2);
}

static void be_told(const void *context)
{
    mesh->survivor = NULL;
    const Notice last = { .kind = NOTICE_ABORT, .waits_for = OWN, .call = mesh->call };
    (void)!write(notices[3], &last, sizeof last);
    if (context != NULL)
        mesh->collective = NULL; // while it is being formed
    mesh_wait(mesh, NOBODY, 2);
}

static void test_the_process_ends(void **state)
{
    (void)state;
    assert_dies_saying(time_out, NULL, 1,
                       "fatal: rank 2 is missing in all_reduce #7 of 5 float32 (sum) after 100 s",
                       "this call; see the end\n");
    expect_told(0, NOTICE_ABORT, 2);
    assert_dies_saying(be_told, NULL, 1,
                       "fatal: the others gave up waiting for this rank in all_reduce #7 of 5 "
                       "float32 (sum) after 100 s\n");
    assert_dies_saying(be_told, "", 1, "fatal: the others gave up waiting for this rank");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BY_HAND(test_a_rank_is_alive),
        BY_HAND(test_a_rank_that_may_leave),
        BY_HAND(test_half_a_notice),
        BY_HAND(test_who_can_be_waited_for),
        BY_HAND(test_the_last_notice_of_a_rank),
        BY_HAND(test_a_reason_may_come_late),
        BY_HAND(test_one_lost_rank_may_know_why),
        BY_HAND(test_a_closed_connection),
        BY_HAND(test_a_late_reason_of_rank_0),
        BY_HAND(test_the_missing_rank_is_this_one),
        BY_HAND(test_calls_that_differ),
        BY_HAND(test_calls_of_another_program),
        BY_HAND(test_the_end_of_the_chain),
        BY_HAND(test_the_timeout_is_put_off),
        BY_HAND(test_the_process_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
