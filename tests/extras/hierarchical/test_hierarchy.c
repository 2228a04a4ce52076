/* All-reduce in stages: for any ranks per node flat's result, with fewer bytes between nodes. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/hierarchical/hierarchy.h"
#include "tests/common/comm/collective_case.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/unit.h"

#define COUNT 240000 // floats, divisible by all world sizes here

/* The node of each rank. */
typedef struct {
    int world_size;
    int node_of[MAX_RANKS];
} Layout;

static const Layout layouts[] = {
    { 4, { 0, 0, 1, 1 } },
    { 4, { 7, -2, 7, -2 } }, // any node numbers, in any order
    { 4, { 0, 0, 0, 1 } },
    { 4, { 5, 3, 3, 3 } },
    { 6, { 0, 0, 0, 1, 1, 1 } },
    { 6, { 0, 1, 2, 0, 1, 2 } },
    { 6, { 0, 0, 1, 1, 1, 1 } },
    { 8, { 0, 0, 0, 0, 1, 1, 1, 1 } },
    { 8, { 0, 0, 1, 1, 2, 2, 3, 3 } },
    { 8, { 0, 0, 0, 0, 0, 1, 1, 2 } },
};
enum { NUM_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void join(Rank *rank, ProcessGroup *pg, const Layout *layout, AllReduceKind all_reduce)
{
    rank->args.all_reduce = all_reduce;
    rank_join(rank, pg);
    process_group_set_nodes(pg, &rank->args, layout->node_of[rank->rank]);
}

/* The inputs are integers, whose means are exact in every algorithm, so the bits are the same. */
static void compare_with_flat(ProcessGroup *pg, size_t count)
{
    Case c = { .pg = pg, .name = "hook", .count = count, .type = FLOAT32, .op = REDUCE_MEAN };
    float *staged = array_new(&c, 1), *flat = array_new(&c, 1);
    work_wait(hierarchical_all_reduce(hierarchy_of(pg), staged, count));
    all_reduce(pg, flat, count, FLOAT32, REDUCE_MEAN);
    for (size_t i = 0; i < count; i++)
        if (staged[i] != flat[i])
            case_fail(&c, i, (double)staged[i], (double)flat[i]);
    if (pg->world_size <= 5)
        expect_reduced(&c, staged, 0);
    array_free(&c, staged, 1);
    array_free(&c, flat, 1);
}

static void same_body(Rank *rank)
{
    const size_t counts[] = { 1, 2, 7, 8, 1001, LARGE }; // the last takes a ring between nodes
    ProcessGroup pg;
    join(rank, &pg, rank->context, ALL_REDUCE_HIERARCHICAL);
    CHECK(pg.nodes->comm_hook != NULL, "it is flat");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        compare_with_flat(&pg, counts[i]);
    process_group_destroy(&pg);
}

static void test_same_as_flat_on_nodes_of_any_shape(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_LAYOUTS; i++)
        ranks_run_well(layouts[i].world_size, same_body, (void *)&layouts[i]);
}

/* Returns numbers that no float holds exactly. */
static float number(int rank, size_t i)
{
    return sinf((float)i + 1) / (float)(rank + 3);
}

/* Averages a bucket with the hook; dies unless the result is near the true mean. */
static void average(ProcessGroup *pg, float *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = number(pg->rank, i);
    work_wait(pg->nodes->comm_hook(pg->nodes, data, count));
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int rank = 0; rank < pg->world_size; rank++)
            sum += (double)number(rank, i);
        const double mean = sum / pg->world_size;
        CHECK(fabs((double)data[i] - mean) < 1e-6, "element %zu is %g, not %g", i, (double)data[i],
              mean);
    }
}

/* The same bits on all ranks and every time, in stages or not, and among other calls. */
static void rounding_body(Rank *rank)
{
    static float data[LARGE], again[LARGE];
    const size_t counts[] = { 5, 8192, 8193, LARGE };
    ProcessGroup pg;
    join(rank, &pg, rank->context, ALL_REDUCE_HIERARCHICAL);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        average(&pg, data, counts[i]);
        average(&pg, again, counts[i]);
        CHECK(memcmp(data, again, counts[i] * sizeof *data) == 0, "other bits the second time");
        broadcast(&pg, again, counts[i], FLOAT32, pg.world_size - 1);
        CHECK(memcmp(data, again, counts[i] * sizeof *data) == 0, "the last rank has other bits");
    }
    const int in_stages = (int)hierarchy_of(&pg)->stages.num_calls;
    CHECK(in_stages == 4, "%d buckets of 8 went in stages", in_stages);
    Work work = hierarchical_all_reduce(hierarchy_of(&pg), data, LARGE);
    collective_order_run(&pg);
    work_wait(work);
    if (rank->context == &layouts[0] || rank->context == &layouts[2])
        collective_cases_run(&pg);
    process_group_destroy(&pg);
}

static void test_rounding_and_other_calls_in_between(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_LAYOUTS; i++)
        ranks_run_well(layouts[i].world_size, rounding_body, (void *)&layouts[i]);
}

static void reducer_body(Rank *rank)
{
    rank->args.all_reduce = ALL_REDUCE_HIERARCHICAL;
    const double caps[] = { 1e-9, 1e-3, 25 };
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        Training t;
        training_init(&t, rank, caps[c]);
        expect_means(&t);
        const int in_stages = (int)hierarchy_of(&t.pg)->stages.num_calls;
        CHECK(in_stages == 3, "%d buckets went in stages", in_stages);
        training_free(&t);
    }
}

static void test_gradients_of_the_reducer(void **state)
{
    (void)state;
    ranks_run_well(4, reducer_body, NULL);
    ranks_run_well(5, reducer_body, NULL); // 2, 2 and 1
}

/* Returns the bytes that a ring of num_ranks ranks sends in all, for n bytes in each. */
static uint64_t ring_bytes(int num_ranks, uint64_t n)
{
    return 2 * (uint64_t)(num_ranks - 1) * n;
}

/* Checks the formulas for m nodes of L ranks each. */
static void traffic_body(Rank *rank)
{
    static float data[COUNT];
    const Layout *layout = rank->context;
    const uint64_t n = sizeof data;
    ProcessGroup pg;
    join(rank, &pg, layout, ALL_REDUCE_HIERARCHICAL);
    Hierarchy *nodes = hierarchy_of(&pg);
    const int num_ranks = pg.world_size, m = pg.nodes->num_nodes, local = num_ranks / m;
    uint64_t far_neighbours = 0;
    for (int i = 0; i < num_ranks; i++)
        far_neighbours += layout->node_of[i] != layout->node_of[(i + 1) % num_ranks];

    work_wait(pg.nodes->comm_hook(nodes, data, COUNT));
    all_reduce(&pg, data, COUNT, FLOAT32, REDUCE_MEAN);
    int64_t sent[4] = { (int64_t)nodes->flat.between_nodes, (int64_t)nodes->flat.inside_nodes,
                        (int64_t)nodes->stages.between_nodes, (int64_t)nodes->stages.inside_nodes };
    if (nodes->equal)
        CHECK(nodes->stages.between_nodes == ring_bytes(m, n) / (uint64_t)(m * local),
              "this rank sent %ju bytes to other nodes", (uintmax_t)nodes->stages.between_nodes);
    reduce(&pg, sent, 4, INT64, REDUCE_SUM, 0);
    // Every node runs a ring of L ranks over everything, and L rings of m each over a share; or it
    // gathers from all but its first rank and broadcasts as much, and there is one ring of m.
    const uint64_t due[4] = {
        far_neighbours * ring_bytes(num_ranks, n) / (uint64_t)num_ranks,
        ((uint64_t)num_ranks - far_neighbours) * ring_bytes(num_ranks, n) / (uint64_t)num_ranks,
        ring_bytes(m, n),
        nodes->equal ? (uint64_t)m * ring_bytes(local, n) : 2 * (uint64_t)(num_ranks - m) * n,
    };
    for (int i = 0; i < 4 && pg.rank == 0; i++)
        CHECK((uint64_t)sent[i] == due[i], "kind %d: %ju bytes, not %ju", i, (uintmax_t)sent[i],
              (uintmax_t)due[i]);
    process_group_destroy(&pg);
}

static void test_bytes_between_and_inside_nodes(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_LAYOUTS; i++)
        ranks_run_well(layouts[i].world_size, traffic_body, (void *)&layouts[i]);

    RankEnd end[MAX_RANKS]; // 0.96 MB: a ring of 4 sends 6 times that, half of it between nodes
    ranks_run(4, traffic_body, (void *)&layouts[0], end);
    assert_non_null(strstr(end[0].errors,
                           "[rank 0/4] all_reduce flat: 2.9 MB between nodes, 2.9 MB inside, in 1 "
                           "call; hierarchical: 1.9 MB between nodes, 3.8 MB inside, in 1 call\n"));
    for (int rank = 1; rank < 4; rank++) // they may have logged a wait for a late rank
        assert_null(strstr(end[rank].errors, "all_reduce"));
}

/* Rank 3 takes part in the first stage, and is lost before the second. */
static void lost_body(Rank *rank)
{
    static float data[COUNT];
    const int *signal_of_rank_3 = rank->context;
    ProcessGroup pg;
    join(rank, &pg, &layouts[0], ALL_REDUCE_HIERARCHICAL);
    if (rank->rank == 3) {
        reduce_scatter(&hierarchy_of(&pg)->node, data, data + COUNT / 2, COUNT / 2, FLOAT32,
                       REDUCE_SUM);
        raise(*signal_of_rank_3);
    }
    work_wait(pg.nodes->comm_hook(pg.nodes, data, COUNT));
    barrier(&pg);
}

static void test_rank_lost_between_stages_is_named_by_all(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(4, lost_body, &(int){ SIGKILL }, end);
    for (int rank = 0; rank < 3; rank++)
        expect_error_at_once(end, rank, "rank 3 is gone: connection closed during ");
    char text[64];
    const double timeout =
        ranks_run_into_timeout(4, 4, lost_body, &(int){ SIGSTOP }, "rank 3 is missing in ", end);
    snprintf(text, sizeof text, "\" after %g s", timeout);
    for (int rank = 0; rank < 3; rank++) {
        expect_error(end, rank, " in group \"");
        expect_error(end, rank, text);
    }
}

static void line_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg, rank->context, ALL_REDUCE_HIERARCHICAL);
    CHECK(pg.nodes == NULL || pg.nodes->comm_hook == NULL, "it is not flat");
    CHECK(all_reduce_scalar(&pg, 1, REDUCE_SUM) == pg.world_size, "wrong sum");
    process_group_destroy(&pg);
}

static void expect_line(const Layout *layout, const char *line)
{
    RankEnd end[MAX_RANKS];
    ranks_run(layout->world_size, line_body, (void *)layout, end);
    for (int rank = 0; rank < layout->world_size; rank++)
        assert_int_equal(end[rank].status, 0);
    assert_non_null(strstr(end[0].errors, line));
    assert_null(strstr(end[1].errors, line));
}

static void disagreeing_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg, &layouts[0], rank->rank == 2 ? ALL_REDUCE_HIERARCHICAL : ALL_REDUCE_FLAT);
}

static void twice_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg, &layouts[0], ALL_REDUCE_FLAT);
    process_group_set_nodes(&pg, &rank->args, 0);
}

static void test_where_there_is_no_hierarchy(void **state)
{
    (void)state;
    expect_line(&(Layout){ 2, { 3, 3 } },
                "hierarchical: all ranks share one node, so it is flat\n");
    expect_line(&(Layout){ 3, { 3, 1, 2 } }, "each rank has its own node, so it is flat\n");

    RankEnd end[MAX_RANKS];
    ranks_run(4, disagreeing_body, NULL, end);
    for (int rank = 0; rank < 4; rank++)
        expect_error_at_once(end, rank, "rank 2 has --all-reduce hierarchical");
    ranks_run(4, twice_body, NULL, end);
    int num_refused = 0; // the others may only see that a refused rank has gone
    for (int rank = 0; rank < 4; rank++)
        num_refused +=
            strstr(end[rank].errors, "process_group_set_nodes is to be called once") != NULL;
    assert_true(num_refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_flat_on_nodes_of_any_shape),
        cmocka_unit_test(test_rounding_and_other_calls_in_between),
        cmocka_unit_test(test_gradients_of_the_reducer),
        cmocka_unit_test(test_bytes_between_and_inside_nodes),
        cmocka_unit_test(test_rank_lost_between_stages_is_named_by_all),
        cmocka_unit_test(test_where_there_is_no_hierarchy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
