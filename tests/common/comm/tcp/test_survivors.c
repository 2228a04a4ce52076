/* A group that survives an error (step 05's), and what else a group may have of its own. The
 * backend is called without process_group_init here, as 05_fault_tolerance/reconfigure does. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

/* All ranks have been stopped for long, as it were, or have computed: of their two clocks one has
 * left that out (tests/rules.mk). */
#define ABSENT_SECONDS 1000

double __real_seconds_now(void), __wrap_seconds_now(void);
double __real_seconds_awake(void), __wrap_seconds_awake(void);

double __wrap_seconds_now(void)
{
    return __real_seconds_now() + ABSENT_SECONDS;
}

double __wrap_seconds_awake(void) // and seconds_awake_at_tick, which does not ask seconds_now
{
    return __real_seconds_awake() - ABSENT_SECONDS;
}

#define TIMEOUT 200.0 // seconds
#define LARGE 300000 // floats

static float data[LARGE];

/* Connects the first `world_size` ranks. */
static void form(Rank *rank, ProcessGroup *pg, int number, int world_size)
{
    *pg = (ProcessGroup){ .rank = rank->rank,
                          .world_size = world_size,
                          .mean_ranks = world_size,
                          .store = &rank->store,
                          .number = number,
                          .timeout = rank->args.timeout,
                          .missing = -1,
                          .calls = { .count = pg->calls.count, .error_suffix = "" },
                          .backend = &backend_tcp,
                          .survivor = rank };
    pg->state = backend_tcp.init(pg);
}

static void count_failure(void *failures, const Collective *collective, CollectiveState state)
{
    (void)collective;
    *(atomic_int *)failures += state == COLLECTIVE_FAILED;
}

/* Rank 2 ends, with hundreds of calls of the others in the queue: each of them returns, all later
 * ones do so at once, and the others form a group of their own. */
static void survivors_body(Rank *rank)
{
    enum { CALLS = 300 }; // more than the backend's queue holds
    atomic_int failures = 0; // which the thread that drives counts
    Observer observer = { .see = count_failure, .context = &failures };
    Work work[CALLS];
    ProcessGroup pg = { 0 };
    form(rank, &pg, 1, 3);
    process_group_observe(&pg, &observer);
    CHECK(all_reduce_scalar(&pg, 1, REDUCE_SUM) == 3 && !pg.revoked, "the group does not work");
    if (rank->rank == 2) { // not before the others have their sums, or their first call fails, too
        while (store_add(&rank->store, "have summed", 0) < 2)
            usleep(1000);
        _exit(EXIT_SUCCESS);
    }
    store_add(&rank->store, "have summed", 1);
    for (int i = 0; i < CALLS; i++)
        work[i] = all_reduce_async(&pg, data, i % 2 == 0 ? LARGE : 10, FLOAT32, REDUCE_SUM);
    work_wait(work[7]);
    CHECK(pg.revoked && pg.missing == NOBODY && failures == 1, "%d calls have failed", failures);
    const double begin = seconds_now();
    barrier(&pg);
    CHECK(seconds_now() < begin + TIMEOUT / 2 && failures == 1, "a revoked group still works");
    backend_tcp.destroy(pg.state, &pg);

    for (int number = 2; number < 4; number++) { // a ticket is the index of the call in the job
        form(rank, &pg, number, 2);
        CHECK(all_reduce_scalar(&pg, 1, REDUCE_SUM) == 2, "the survivors cannot go on");
        process_group_destroy(&pg);
    }
    log_info("went on");
}

static void test_survivors_go_on(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, survivors_body, NULL, end);
    for (int rank = 0; rank < 2; rank++) {
        if (end[rank].status != 0 || strstr(end[rank].errors, "went on\n") == NULL)
            fail_msg("rank %d: %d, %s", rank, end[rank].status, end[rank].errors);
        assert_non_null(strstr(end[rank].errors, "rank 2 is gone: connection closed during "));
        assert_non_null(strstr(end[rank].errors, ": this rank leaves the group\n"));
    }
}

/* Rank 1 does not come to the first group, and comes to the second but makes no call. */
static void missing_body(Rank *rank)
{
    static const int late = 2; // the second group's number
    ProcessGroup pg = { 0 };
    rank->args.timeout = 0.3;
    if (rank->rank == 0) {
        const double begin = seconds_now();
        form(rank, &pg, 1, 2);
        CHECK(pg.revoked && seconds_now() >= begin + 0.3, "rank 1 has come");
        backend_tcp.destroy(pg.state, &pg);
    }
    rank->args.timeout = 2;
    form(rank, &pg, late, 2);
    if (rank->rank == 1)
        raise(SIGSTOP);
    if (pg.revoked) // the machine is busy
        return;
    barrier(&pg);
    CHECK(pg.revoked && pg.missing == 1, "rank %d is blamed", pg.missing);
    backend_tcp.destroy(pg.state, &pg);
}

static void test_the_missing_rank_is_known(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, missing_body, NULL, end);
    if (end[0].status != 0)
        fail_msg("%s", end[0].errors);
}

/* Only rank 0 is there: the others' addresses are not in the store. */
static void alone_body(Rank *rank)
{
    ProcessGroup pg = { .world_size = 2, .rank = 1, .store = &rank->store, .survivor = rank };
    const double begin = seconds_now();
    CHECK(mesh_call(&pg, &rank->store, 0, seconds_awake() + 0.2) == -1 && errno == ETIMEDOUT,
          "an address that nobody has set");
    CHECK(seconds_now() >= begin + 0.2, "too soon");
    const double late = seconds_now();
    for (int i = 0; i < 20; i++)
        CHECK(mesh_call(&pg, &rank->store, 0, seconds_awake() - 1) == -1, "after the deadline");
    CHECK(seconds_now() < late + 15, "it waits though the deadline is over");
    pg.timeout = 3;
    CHECK(mesh_connect_timeout(&pg) == 3, "%g s", mesh_connect_timeout(&pg));
    pg.timeout = 300;
    CHECK(mesh_connect_timeout(&pg) == FORM_SECONDS, "%g s", mesh_connect_timeout(&pg));
    pg.survivor = NULL;
    CHECK(mesh_connect_timeout(&pg) == 300, "%g s", mesh_connect_timeout(&pg));
    Store lost = { .fd = -1, .may_fail = true, .failed = true, .timeout = 1 };
    CHECK(mesh_call(&pg, &lost, 0, seconds_awake() + 1) == -1, "over a store that is gone");
}

static void test_forming_has_its_own_timeout(void **state)
{
    (void)state;
    ranks_run_well(1, alone_body, NULL);
}

static int num_replaced; // all-reduces that the group's own algorithm has done

static void replaced(Mesh *mesh, const Collective *collective)
{
    (void)mesh, (void)collective;
    num_replaced++;
}

static void replaced_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    pg.tcp_all_reduce = replaced;
    broadcast(&pg, data, 10, FLOAT32, 1);
    all_gather(&pg, data, data + 100, 10, FLOAT32);
    CHECK(num_replaced == 0, "another call is replaced");
    all_reduce(&pg, data, 10, FLOAT32, REDUCE_SUM);
    all_reduce(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    barrier(&pg);
    CHECK(num_replaced == 3, "%d calls are replaced", num_replaced);
    pg.tcp_all_reduce = NULL;
    process_group_destroy(&pg);
}

static void test_all_reduce_can_be_replaced(void **state)
{
    (void)state;
    ranks_run_well(2, replaced_body, NULL);
}

/* How many messages a rank sends: by doubling for short arrays, and for long ones whose blocks
 * would be short, by the ring for others. */
static void messages_body(Rank *rank)
{
    const int n = rank->world_size;
    int power = 1, steps = 0;
    for (; 2 * power <= n; power *= 2)
        steps++;
    const bool is_extra = rank->rank >= power, has_extra = rank->rank < n - power;
    const uint64_t by_doubling = is_extra ? 1 : (uint64_t)(steps + has_extra),
                   by_ring = 2 * (uint64_t)(n - 1);
    const struct {
        size_t count; // floats
        uint64_t messages;
    } cases[] = { { 1, by_doubling },
                  { 8192, by_doubling }, // 32 KiB
                  { 8193, n > 8 ? by_doubling : by_ring },
                  { 1024 * (size_t)n - 1, by_doubling }, // 4 KiB a rank
                  { n > 8 ? 1024 * (size_t)n : LARGE, by_ring } };
    ProcessGroup pg;
    rank_join(rank, &pg);
    const Mesh *mesh = pg.state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t count = cases[i].count;
        const uint64_t before = mesh->moved.sent_messages;
        for (size_t k = 0; k < count; k++)
            data[k] = (float)(1 << pg.rank);
        all_reduce(&pg, data, count, FLOAT32, REDUCE_SUM);
        CHECK(mesh->moved.sent_messages == before + cases[i].messages, "%d ranks, %zu: %d messages",
              n, count, (int)(mesh->moved.sent_messages - before));
        CHECK(data[0] == (float)((1 << n) - 1) && data[count - 1] == data[0], "%g",
              (double)data[0]);
    }
    process_group_destroy(&pg);
}

static void test_how_many_messages(void **state)
{
    (void)state;
    for (int world_size = 2; world_size <= 9; world_size++)
        ranks_run_well(world_size, messages_body, NULL);
}

/* Ranks 0 and 1 exchange a message while rank 2 waits for them in a barrier, for so long that it
 * tells them; and rank 2 may leave first, without being missed. */
static void apart_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 1) {
        usleep(250 * 1000);
        pg_send(&pg, data, 10, FLOAT32, 0);
    } else if (rank->rank == 0) {
        pg_recv(&pg, data, 10, FLOAT32, 1);
    }
    barrier(&pg);
    if (rank->rank == 1) {
        store_wait(&rank->store, "rank 2 leaves");
        usleep(20 * 1000);
        pg_send(&pg, data, 10, FLOAT32, 0);
    } else if (rank->rank == 0) {
        pg_recv(&pg, data, 10, FLOAT32, 1);
    } else {
        store_set(&rank->store, "rank 2 leaves", "", 0);
        store_ping(&rank->store);
    }
    backend_tcp.destroy(pg.state, &pg); // without a barrier
}

static void test_two_ranks_of_three(void **state)
{
    (void)state;
    ranks_run_well(3, apart_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_survivors_go_on),
        cmocka_unit_test(test_the_missing_rank_is_known),
        cmocka_unit_test(test_forming_has_its_own_timeout),
        cmocka_unit_test(test_all_reduce_can_be_replaced),
        cmocka_unit_test(test_how_many_messages),
        cmocka_unit_test(test_two_ranks_of_three),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
