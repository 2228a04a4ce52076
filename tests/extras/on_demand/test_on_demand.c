/*
 * Ranks that are not connected from the start: they connect when they need each other, even if one
 * of them computes; and all learn which rank is missing, as in small groups.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "extras/on_demand/on_demand.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

enum { FEW = 8, SEVERAL = 13, LARGE = 300000 }; // LARGE: floats, more than is buffered

static float data[LARGE];

/* Counts the connected peers; the backend's state begins with the mesh. */
static int num_connected(const ProcessGroup *pg)
{
    const Mesh *mesh = pg->state;
    int found = 0;
    for (int peer = 0; peer < pg->world_size; peer++) {
        CHECK((mesh->peer[peer].data >= 0) == (mesh->peer[peer].notices >= 0), "one channel");
        found += mesh->peer[peer].data >= 0;
    }
    return found;
}

static int num_neighbors(int rank, int world_size)
{
    const Mesh mesh = { .rank = rank, .world_size = world_size };
    int found = 0;
    for (int peer = 0; peer < world_size; peer++)
        found += peer != rank && on_demand_is_neighbor(&mesh, peer);
    return found;
}

/* At most two connections for each neighbor, 2 log2 n + 2 where n is a power of two. */
static void test_neighbors_are_few(void **state)
{
    (void)state;
    for (int world_size = 2, steps = 1; world_size <= 4096; world_size *= 2, steps++)
        for (int rank = 0; rank < world_size; rank += 1 + world_size / 64)
            assert_true(2 * num_neighbors(rank, world_size) <= 2 * steps + 2);
    for (int world_size = 2; world_size < 300; world_size++)
        for (int rank = 0; rank < world_size; rank++) {
            Mesh mesh = { .rank = rank, .world_size = world_size };
            Mesh other = { .rank = (rank * 7 + 1) % world_size, .world_size = world_size };
            assert_int_equal(on_demand_is_neighbor(&mesh, other.rank),
                             on_demand_is_neighbor(&other, rank));
            assert_true(on_demand_is_neighbor(&mesh, (rank + 1) % world_size));
        }
}

/* A training's calls need no further connection; a message to another rank needs one, on both. */
static void counted_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    const int n = pg.world_size, neighbors = num_neighbors(pg.rank, n);
    CHECK(num_connected(&pg) == neighbors, "%d at the start", num_connected(&pg));
    barrier(&pg);
    all_reduce(&pg, data, 10, FLOAT32, REDUCE_SUM);
    all_reduce(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    broadcast(&pg, data, 10, FLOAT32, 0);
    broadcast(&pg, data, LARGE, FLOAT32, 0);
    CHECK(num_connected(&pg) == neighbors, "%d after the collectives", num_connected(&pg));
    barrier(&pg); // no rank has called this one yet
    if (pg.rank == 0)
        pg_send(&pg, data, 10, FLOAT32, 3);
    if (pg.rank == 3)
        pg_recv(&pg, data, 10, FLOAT32, 0);
    CHECK(num_connected(&pg) == neighbors + (pg.rank == 0 || pg.rank == 3), "%d after a message",
          num_connected(&pg));
    process_group_destroy(&pg);
}

static void test_connections_on_first_use(void **state)
{
    (void)state;
    ranks_run_well(FEW, counted_body, NULL);
    ranks_run_well(SEVERAL, counted_body, NULL);
}

/* Each rank sends to all others before it receives from any, so that pairs connect to each other at
 * the same time, and a rank that waits for one answers another. */
static void all_to_all(ProcessGroup *pg)
{
    const int n = pg->world_size;
    for (int step = 1; step < n; step++) {
        const int sent = 1000 * pg->rank + (pg->rank + step) % n;
        pg_send(pg, (void *)&sent, 1, INT32, (pg->rank + step) % n);
    }
    for (int step = 1; step < n; step++) {
        const int from = (pg->rank + step) % n;
        int got = 0;
        pg_recv(pg, &got, 1, INT32, from);
        CHECK(got == 1000 * from + pg->rank, "%d from rank %d", got, from);
    }
}

static void crowded_body(Rank *rank)
{
    for (int round = 0; round < 3; round++) {
        ProcessGroup pg;
        rank_join(rank, &pg);
        all_to_all(&pg);
        CHECK(num_connected(&pg) == pg.world_size - 1, "not connected to all");
        all_to_all(&pg);
        process_group_destroy(&pg);
    }
}

static void test_all_pairs(void **state)
{
    (void)state;
    ranks_run_well(FEW, crowded_body, NULL);
    ranks_run_well(SEVERAL, crowded_body, NULL);
    setenv("DDP_SHM_DISABLE", "1", 1);
    ranks_run_well(SEVERAL, crowded_body, NULL);
    unsetenv("DDP_SHM_DISABLE");
}

static void test_all_pairs_with_a_secret(void **state)
{
    (void)state;
    char path[] = "/tmp/ddp_secret.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && fchmod(fd, 0600) == 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(write(fd, &(char){ (char)(i * 37) }, 1), 1);
    close(fd);
    setenv(SECRET_VARIABLE, path, 1);
    ranks_run_well(FEW, crowded_body, NULL);
    unsetenv(SECRET_VARIABLE);
    unlink(path);
}

/* Rank 3 is in no call: it waits for the key that rank 0 sets after it has sent. */
static void busy_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (pg.rank == 0) {
        pg_send(&pg, data, 10, FLOAT32, 3);
        store_set(&rank->store, "sent", "", 0);
    }
    if (pg.rank == 3) {
        store_wait(&rank->store, "sent");
        pg_recv(&pg, data, 10, FLOAT32, 0);
    }
    process_group_destroy(&pg);
}

static void test_a_rank_that_computes_is_reached(void **state)
{
    (void)state;
    ranks_run_well(FEW, busy_body, NULL);
}

static void killed_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (pg.rank == 5) {
        usleep(100 * 1000); // the others are waiting by now
        raise(SIGKILL);
    }
    all_reduce(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    barrier(&pg);
}

/* Rank 0 waits for a rank that has gone and was never connected to it. */
static void never_met_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (pg.rank == 5)
        raise(SIGKILL);
    if (pg.rank == 2)
        pg_recv(&pg, data, 10, FLOAT32, 5);
    barrier(&pg);
}

static void test_killed_rank_is_named_by_all_at_once(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    for (int run = 0; run < 2; run++) {
        ranks_run(SEVERAL, run == 0 ? killed_body : never_met_body, NULL, end);
        for (int rank = 0; rank < SEVERAL; rank++)
            if (rank != 5)
                expect_error_at_once(end, rank, "rank 5 is gone: connection closed during ");
    }
}

static void stopped_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (pg.rank == 5)
        raise(SIGSTOP);
    all_reduce(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
}

/* Each waits for a rank that it was not connected to, and the last ones for rank 0, which stops.
 * The rank at the other end of the chain has its timeout first, and asks. */
static void chain_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (pg.rank == 0)
        raise(SIGSTOP);
    if (pg.rank < SEVERAL - 1)
        usleep((useconds_t)(4e5 * rank->args.timeout));
    pg_recv(&pg, data, 10, FLOAT32, pg.rank < 3 ? 0 : pg.rank - 3);
}

static void test_stopped_rank_is_named_by_all_in_time(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_into_timeout(SEVERAL, 2, stopped_body, NULL, "rank 5 is missing in all_reduce #1",
                           end);
    ranks_run_into_timeout(SEVERAL, 2, chain_body, NULL, "rank 0 is missing in recv #1", end);
}

static void circle_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    pg_recv(&pg, data, 10, FLOAT32, (pg.rank + 3) % pg.world_size);
}

static void test_a_circle(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_into_timeout(SEVERAL, 2, circle_body, NULL, "did not end within ", end);
}

/* Rank 0 comes too late, but reports all the time that it is alive. */
static void late_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.timeout = 4;
    rank_join(rank, &pg);
    barrier(&pg);
    if (pg.rank == 0)
        for (const double end = seconds_now() + 1.5 * rank->args.timeout; seconds_now() < end;
             usleep(1000))
            process_group_keep_alive(&pg);
    barrier(&pg);
    process_group_destroy(&pg);
}

static void test_rank_that_is_late_but_alive(void **state)
{
    (void)state;
    ranks_run_well(SEVERAL, late_body, NULL);
}

static void sum(ProcessGroup *pg)
{
    all_reduce(pg, data, 100, FLOAT32, REDUCE_SUM);
}

static void mismatch_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    (rank->rank == 6 ? barrier : sum)(&pg);
    barrier(&pg);
}

static void test_a_mismatch_is_told_to_all(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(SEVERAL, mismatch_body, NULL, end);
    for (int rank = 0; rank < SEVERAL; rank++) {
        expect_error_at_once(end, rank, "rank 6 calls barrier #1");
        expect_error(end, rank, "calls all_reduce #1 of 100 float32 (sum)");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbors_are_few),
        cmocka_unit_test(test_connections_on_first_use),
        cmocka_unit_test(test_all_pairs),
        cmocka_unit_test(test_all_pairs_with_a_secret),
        cmocka_unit_test(test_a_rank_that_computes_is_reached),
        cmocka_unit_test(test_killed_rank_is_named_by_all_at_once),
        cmocka_unit_test(test_stopped_rank_is_named_by_all_in_time),
        cmocka_unit_test(test_a_circle),
        cmocka_unit_test(test_rank_that_is_late_but_alive),
        cmocka_unit_test(test_a_mismatch_is_told_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
