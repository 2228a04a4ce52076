/*
 * --simulate-network: the same bits as without it, never faster than the rate, one limit for all
 * ranks of a node and none inside it; and what is refused.
 *
 * Times have a lower bound only: a busy machine makes everything slower, and nothing faster.
 */
#include <errno.h>
#include <math.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "tests/common/base/args_child.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/helpers/ranks.h"

enum { COUNT = 250000 }; // 1 MB
#define RATE "80mbit" // 10 MB a second

static double seconds_of_all_reduce(ProcessGroup *pg, size_t count)
{
    float *data = mem_calloc(count, sizeof *data);
    const double begin = seconds_now(); // before any rank sends its first byte
    barrier(pg);
    all_reduce(pg, data, count, FLOAT32, REDUCE_SUM);
    const double seconds = seconds_now() - begin;
    free(data);
    return seconds;
}

/* A rank receives 2 (n - 1) / n of the array, over its own line. */
static void rate_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.simulate_network = RATE;
    rank_join(rank, &pg);
    const double share = 2.0 * (pg.world_size - 1) / pg.world_size;
    const double least = share * COUNT * sizeof(float) / 10e6;
    for (int i = 0; i < 3; i++) {
        const double seconds = seconds_of_all_reduce(&pg, COUNT);
        CHECK(seconds >= least, "%.4f s, and the line takes %.4f", seconds, least);
    }
    process_group_destroy(&pg);
}

static void test_never_faster(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        setenv("DDP_SHM_DISABLE", shared ? "0" : "1", 1);
        ranks_run_well(2, rate_body, NULL);
        ranks_run_well(3, rate_body, NULL);
    }
}

/* Short messages wait for the line, too. */
static void short_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.simulate_network = "100kbit";
    rank_join(rank, &pg);
    const double seconds = seconds_of_all_reduce(&pg, 250);
    CHECK(seconds >= 0.08, "1000 bytes at 12,500 a second take 0.08 s, and not %.4f", seconds);
    process_group_destroy(&pg);
}

static void test_short_messages(void **state)
{
    (void)state;
    ranks_run_well(2, short_body, NULL);
}

static void send_between(ProcessGroup *pg, int from, int to, float *data)
{
    if (pg->rank == from)
        pg_send(pg, data, COUNT, FLOAT32, to);
    else if (pg->rank == to)
        pg_recv(pg, data, COUNT, FLOAT32, from);
}

/* Four ranks on two nodes. Ranks 0 and 1 share node 0's line, so 2 MB take 0.2 s; the messages of
 * one node's ranks to each other do not use it. */
static void nodes_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.simulate_network = RATE;
    rank_join(rank, &pg);
    process_group_set_nodes(&pg, &rank->args, rank->rank / 2);
    float *data = mem_calloc(COUNT, sizeof *data);
    double begin = seconds_now();
    barrier(&pg);
    for (int local = 0; local < 2; local++)
        send_between(&pg, local, 2 + local, data);
    barrier(&pg);
    const double across = seconds_now() - begin;
    CHECK(across >= 0.2, "two ranks share a line: 0.2 s, and not %.4f", across);

    double fastest = INFINITY; // 0.4 s if the line carried them
    for (int i = 0; i < 20; i++) {
        barrier(&pg);
        begin = seconds_now();
        for (int j = 0; j < 4; j++) {
            send_between(&pg, 0, 1, data);
            send_between(&pg, 2, 3, data);
        }
        fastest = fmin(fastest, seconds_now() - begin);
    }
    CHECK(fastest < 0.4, "inside a node: %.4f s, as if they took the line", fastest);
    free(data);
    process_group_destroy(&pg);
}

static void test_ranks_share_their_nodes_line(void **state)
{
    (void)state;
    ranks_run_well(4, nodes_body, NULL);
}

static void cases_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.simulate_network = "1gbit";
    rank_join(rank, &pg);
    collective_cases_run(&pg);
    process_group_destroy(&pg);
}

static void test_collectives(void **state)
{
    (void)state;
    ranks_run_well(3, cases_body, NULL);
}

/* Sums that depend on the order have the same bits as without the option. */
static void same_bits_body(Rank *rank)
{
    static const char *const rates[] = { NULL, "100mbit" };
    float *sum[2];
    for (int i = 0; i < 2; i++) {
        ProcessGroup pg;
        rank->args.simulate_network = rates[i];
        rank_join(rank, &pg);
        sum[i] = mem_calloc(COUNT, sizeof(float));
        for (size_t j = 0; j < COUNT; j++)
            sum[i][j] = (float)((j * 7919 + (size_t)rank->rank * 104729) % 10007) / 3e3f;
        all_reduce(&pg, sum[i], COUNT, FLOAT32, REDUCE_MEAN);
        process_group_destroy(&pg);
    }
    CHECK(memcmp(sum[0], sum[1], COUNT * sizeof(float)) == 0, "other bits");
    free(sum[0]);
    free(sum[1]);
}

static void test_same_bits(void **state)
{
    (void)state;
    ranks_run_well(3, same_bits_body, NULL);
}

/* ---- what is refused ---- */

static void disagree_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.simulate_network = rank->rank == 0 ? "3gbit" : NULL;
    rank_join(rank, &pg);
}

static void test_ranks_disagree(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, disagree_body, NULL, end);
    expect_error_at_once(end, 0,
                         "the ranks disagree: rank 0 has --simulate-network 3gbit, rank 1 ");
    expect_error_at_once(end, 1, ", rank 1 has --simulate-network off\n");
}

static void too_slow_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.simulate_network = "100kbit";
    rank->args.timeout = 30;
    rank_join(rank, &pg);
    seconds_of_all_reduce(&pg, COUNT);
}

static void test_slower_than_the_timeout(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, too_slow_body, NULL, end);
    expect_error_at_once(end, 0, "after the --timeout of 30 s: raise one of the two");
    expect_error_at_once(end, 1, "at --simulate-network 100kbit 0.5 MB from rank ");
}

static void test_values(void **state)
{
    (void)state;
    assert_true(parse_rate("2.5Gbit") == 2.5e9 && parse_rate("500kbit") == 5e5);
    static const char *const right[] = { "2.5Gbit", "500kbit", "off" };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "--simulate-network %s", right[i]);
        assert_int_equal(run(STEP_SPAWN, line), 0);
        snprintf(line, sizeof line, "simulate_network %s", i < 2 ? right[i] : "(null)");
        assert_value(line);
    }
    static const char *const wrong[] = { "3",      "gbit",    "3gbyte",  "0gbit",
                                         "-3gbit", "1e3mbit", "0x3gbit", "nangbit",
                                         "3gbit,", "99kbit",  "1001gbit" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[64], text[128];
        snprintf(line, sizeof line, "--simulate-network %s", wrong[i]);
        snprintf(text, sizeof text,
                 "%s: it is a rate from 100kbit to 1000gbit, as in 3gbit, or off", line);
        assert_refused(run(STEP_SPAWN, line), text);
    }
    assert_refused(run(STEP_SINGLE, "--simulate-network 3gbit"), "--simulate-network");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),         cmocka_unit_test(test_never_faster),
        cmocka_unit_test(test_short_messages), cmocka_unit_test(test_ranks_share_their_nodes_line),
        cmocka_unit_test(test_collectives),    cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_ranks_disagree), cmocka_unit_test(test_slower_than_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
