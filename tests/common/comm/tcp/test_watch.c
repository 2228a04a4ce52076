/* What a call begins with, and how it waits. */
#include "tests/common/comm/tcp/rank_by_hand.h"

/* ---- what a call begins with ---- */

static void test_begin(void **state)
{
    (void)state;
    static int members[] = { 0, 1, 3 };
    ProcessGroup sub = { .rank = 1, .world_size = 3, .members = members, .parent = &pg };
    memset(sub.name, 'g', sizeof sub.name - 1);
    const Collective broadcast = { .pg = &sub,
                                   .kind = BROADCAST,
                                   .type = INT32,
                                   .op = REDUCE_MAX,
                                   .sequence = 9,
                                   .count = 6,
                                   .root = 2 };
    clock_now = 2000;
    mesh->wait.peer = 3;
    mesh_begin(mesh, &broadcast);
    CollectiveId id = {
        .kind = BROADCAST, .type = INT32, .op = REDUCE_MAX, .sequence = 9, .count = 6, .root = 3
    };
    memcpy(id.group, sub.name, sizeof id.group);
    assert_memory_equal(&mesh->call, &id, sizeof id);
    assert_memory_equal(&mesh->recent[1], &id, sizeof id);
    assert_int_equal(mesh->num_calls, 2);
    assert_ptr_equal(mesh->collective, &broadcast);
    assert_true(mesh->deadline == 2100 && mesh->wait.next_notice_time == 2000.1);
    assert_int_equal(mesh->wait.peer, NOBODY);

    for (int kind = SEND; kind <= RECV; kind++) { // which others do not know of
        const Collective message = { .pg = &pg, .kind = (CollectiveKind)kind, .root = 2 };
        mesh_begin(mesh, &message);
        assert_int_equal(mesh->num_calls, 2);
    }
    for (uint64_t i = 2; i < NUM_RECENT_CALLS + 2; i++) {
        call.sequence = i;
        mesh_begin(mesh, &call);
    }
    assert_int_equal(mesh->recent[0].sequence, NUM_RECENT_CALLS);
    assert_int_equal(mesh->recent[1].sequence, NUM_RECENT_CALLS + 1);
    assert_int_equal(mesh->recent[2].sequence, 2);
}

/* Once in a millisecond a call reads all notices there are. */
static void test_a_call_looks_now_and_then(void **state)
{
    (void)state;
    clock_now = 2000;
    mesh_begin(mesh, &call);
    assert_int_equal(num_polls, 1);
    assert_true(mesh->wait.next_poll_time == 2000.001 && slept == 0 && num_polled == N);
    clock_now = 2000.0009;
    mesh_begin(mesh, &call);
    assert_int_equal(num_polls, 1);
    for (int i = 0; i < 3; i++)
        tell(2, NOTICE_WAITING, i, &mesh->call);
    clock_now = mesh->wait.next_poll_time;
    mesh_begin(mesh, &call);
    assert_int_equal(num_polls, 1 + 4);
    assert_int_equal(mesh->peer[2].last.waits_for, 2);
    assert_true(mesh->peer[2].reported_at == clock_now);
}

/* ---- a wait ---- */

static void test_at_first_it_looks_again_and_again(void **state)
{
    (void)state;
    mesh->wait.num_threads = 1;
    for (int has_core = 0; has_core < 2; has_core++) {
        mesh->has_core = has_core;
        mesh->wait.spins_until = 0;
        assert_false(ends(NOBODY, 2));
        assert_true(mesh->wait.spins_until == clock_now + 50e-6);
        assert_true(num_yields == 1 && num_polls == 0 && mesh->wait.idle_since == 0);
    }
    clock_now = mesh->wait.spins_until; // it has had its time
    assert_false(ends(NOBODY, 2));
    assert_int_equal(num_polls, 1);

    mesh->wait.num_threads = 0; // nobody waits for it
    mesh->wait.spins_until = 0;
    assert_false(ends(NOBODY, 2));
    assert_true(num_polls == 2 && num_yields == 1);
}

static void test_then_it_sleeps(void **state)
{
    (void)state;
    static const struct {
        int to, from, waits_for;
    } waits[] = { { 2, 3, 3 }, { NOBODY, 0, 0 }, { 3, NOBODY, 3 }, { 0, NOBODY, 0 } };
    for (size_t i = 0; i < LENGTH(waits); i++) {
        const int to = waits[i].to, from = waits[i].from;
        const double now = clock_now;
        mesh->wait.idle_since = 0;
        mesh->wait.next_notice_time = now + 3;
        may_poll = i > 0; // there may be data in a pipe
        gone = NOBODY;
        assert_false(ends(to, from));
        assert_int_equal(num_polls, i);
        assert_true(!may_poll || (slept == 3 && num_polled == N + 2));
        assert_true(mesh->wait.peer == waits[i].waits_for && mesh->wait.idle_since == now);
        const struct pollfd *polled = mesh->watched + N;
        assert_int_equal(polled[0].fd, to == NOBODY ? -1 : mesh->peer[to].data);
        assert_int_equal(polled[1].fd, from == NOBODY ? -1 : mesh->peer[from].data);
        assert_true(polled[0].events == POLLOUT && polled[1].events == POLLIN);
    }
    const double since = mesh->wait.idle_since;
    mesh->deadline = clock_now + 2;
    mesh->wait.next_notice_time = clock_now + 3;
    has_answer = true, mesh->on_demand = (struct OnDemand *)&pg;
    assert_false(ends(NOBODY, 2));
    assert_true(slept == 2 && mesh->wait.idle_since == since);
}

static void test_data_is_left_to_the_caller(void **state)
{
    (void)state;
    static Notice payload, read_back; // as long as a notice
    memset(&payload, NOTICE_CLOSE, sizeof payload);
    assert_int_equal(write(data[3], &payload, sizeof payload), sizeof payload);
    assert_int_equal(write(data[2], &payload, sizeof payload), sizeof payload);
    assert_false(ends(2, 3)); // data can be sent, and has come
    assert_true(clock_now == 1000);
    for (int rank = 2; rank < N; rank++)
        assert_int_equal(recv(mesh->peer[rank].data, &read_back, sizeof read_back, MSG_DONTWAIT),
                         sizeof read_back);
}

static void test_a_pipe_whose_rank_is_gone(void **state)
{
    (void)state;
    for (int polls = 0; polls < 2; polls++) {
        tear_down(NULL);
        set_up(NULL);
        may_poll = polls;
        gone = 3;
        clock_step = 0.4; // it waits a second for a reason
        assert_true(ends(2, NOBODY));
        expect_end(NOBODY,
                   "rank 3 is gone: connection closed during all_reduce #7 of 5 float32 (sum)");
        assert_int_equal(num_polls, polls);
    }
}

/* After a tenth of a second it tells the others whom it waits for, and again each 25 seconds. */
static void test_the_others_are_told(void **state)
{
    (void)state;
    mesh->wait.idle_since = 0;
    assert_false(ends(NOBODY, 3));
    assert_true(slept > 0.0999 && slept < 0.1001);
    for (int rank = 0; rank < N; rank++)
        if (rank != OWN)
            expect_told(rank, NOTICE_WAITING, 3);
    assert_true(mesh->wait.next_notice_time == clock_now + TIMEOUT / 4);
    assert_true(num_reports == 1 && reported == 3);

    mesh->wait.next_notice_time = clock_now + 5;
    mesh->wait.idle_since = clock_now + 5 - 0.05; // something has come meanwhile
    assert_false(ends(NOBODY, 2));
    assert_int_equal(num_reports, 1);
    mesh->wait.idle_since = 1;
    mesh->wait.next_notice_time = clock_now + 5;
    tell(3, NOTICE_ALIVE, NOBODY, &mesh->call); // it wakes up before it has to tell them
    for (int rank = 0; rank < N; rank++)
        if (rank != OWN)
            expect_told(rank, NOTICE_WAITING, 2);
    assert_false(ends(NOBODY, 0));
    assert_int_equal(reported, 0);
    expect_silence();
}

/* A rank that does not read its notices gets no more; nor does one that has had half of one. */
static void test_who_does_not_read(void **state)
{
    (void)state;
    most = 1;
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
    most = sizeof(Notice);
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
    static char text[2 * sizeof(Notice)];
    assert_int_equal(recv(notices[0], text, sizeof text, MSG_DONTWAIT), 1);
    mesh->peer[0].notices_blocked = false;
    most = 0; // nothing sent, as by a full socket, is no half of a notice
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
    most = sizeof(Notice);
    mesh_notify(mesh, NOTICE_CLOSE, 2);
    expect_told(0, NOTICE_CLOSE, 2);
}

static void test_sleeping_until_a_time(void **state)
{
    (void)state;
    tell(0, NOTICE_WAITING, 2, &mesh->call);
    tell(3, NOTICE_ALIVE, NOBODY, &mesh->call);
    mesh_sleep_until(mesh, 1004);
    assert_true(clock_now == 1004 && slept == 4 && num_polls == 2 && num_polled == N);
    assert_int_equal(mesh->peer[0].last.waits_for, 2);
    assert_true(mesh->deadline == 1000 + TIMEOUT);
    mesh_sleep_until(mesh, 1004);
    assert_int_equal(num_polls, 2);
}

/* ---- memory ---- */

static void test_scratch(void **state)
{
    (void)state;
    char *first = mesh_scratch(mesh, 0);
    assert_non_null(first);
    assert_ptr_equal(mesh_scratch(mesh, 0), first);
    char *large = mesh_scratch(mesh, 1000);
    memset(large, 1, 1000);
    assert_ptr_equal(mesh_scratch(mesh, 1000), large);
    assert_ptr_equal(mesh_scratch(mesh, 10), large);
    assert_int_equal(mesh->scratch_bytes, 1000);
    memset(mesh_scratch(mesh, 1001), 1, 1001);
    assert_int_equal(mesh->scratch_bytes, 1001);
    free(mesh->scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BY_HAND(test_begin),
        BY_HAND(test_a_call_looks_now_and_then),
        BY_HAND(test_at_first_it_looks_again_and_again),
        BY_HAND(test_then_it_sleeps),
        BY_HAND(test_data_is_left_to_the_caller),
        BY_HAND(test_a_pipe_whose_rank_is_gone),
        BY_HAND(test_the_others_are_told),
        BY_HAND(test_who_does_not_read),
        BY_HAND(test_sleeping_until_a_time),
        BY_HAND(test_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
