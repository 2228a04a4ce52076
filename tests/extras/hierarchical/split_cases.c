/* Every rank knows all others' colors, so a plain loop determines the members of each subgroup. */
#include "tests/extras/hierarchical/split_cases.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "extras/hierarchical/split.h"
#include "tests/common/comm/collective_cases.h"

#define MAX_MEMBERS 16
#define NUM_ROUNDS 20
#define LARGE 20000 // floats; not a short message for tcp

typedef int Coloring(int rank, int world_size);

static int all_together(int rank, int world_size)
{
    (void)rank, (void)world_size;
    return 7;
}

static int all_alone(int rank, int world_size)
{
    return 1000 * (world_size - rank); // descending, but ranks keep their order
}

static int halves(int rank, int world_size)
{
    return rank >= world_size / 2;
}

static int by_turns(int rank, int world_size)
{
    (void)world_size;
    return rank % 2;
}

static int all_but_one(int rank, int world_size)
{
    return rank == world_size - 1;
}

static int without_the_first(int rank, int world_size)
{
    (void)world_size;
    return rank == 0 ? -1 : 3;
}

/* Checks the sum of the members' ranks in the whole group against a plain loop. */
static void expect_members(ProcessGroup *sub, const ProcessGroup *pg, Coloring *color)
{
    int members[MAX_MEMBERS] = { 0 }, own = 0;
    int num_members = 0, due[MAX_MEMBERS];
    const int n = pg->world_size, own_color = color(pg->rank, n);
    for (int rank = 0; rank < n && own_color >= 0; rank++)
        if (color(rank, n) == own_color)
            due[num_members++] = process_group_global_rank(pg, rank);
    CHECK(sub->world_size == num_members, "%s has %d ranks, not %d", sub->name, sub->world_size,
          num_members);
    if (num_members == 0)
        return;

    own = process_group_global_rank(pg, pg->rank);
    CHECK(due[sub->rank] == own, "%s: this rank is %d in it", sub->name, sub->rank);
    all_gather(sub, &own, members, 1, INT32);
    for (int i = 0; i < num_members; i++)
        CHECK(members[i] == due[i] && process_group_global_rank(sub, i) == due[i],
              "%s: its rank %d is %d, not %d", sub->name, i, members[i], due[i]);
}

/* Has calls on the subgroup and on the group in flight at the same time. */
static void run_at_the_same_time(ProcessGroup *sub, ProcessGroup *pg)
{
    float *in_group = mem_calloc(LARGE, sizeof(float)), *in_part = mem_calloc(LARGE, sizeof(float));
    const int n = pg->world_size, m = sub->world_size;
    for (int round = 0; round < NUM_ROUNDS; round++) {
        const size_t count = round % 2 == 0 ? LARGE : 10;
        for (size_t i = 0; i < count; i++) {
            in_group[i] = (float)(pg->rank + round);
            in_part[i] = (float)(sub->rank * 3);
        }
        Work work[2] = { 0 };
        work[0] = all_reduce_async(pg, in_group, count, FLOAT32, REDUCE_SUM);
        if (m > 0)
            work[1] = all_reduce_async(sub, in_part, count, FLOAT32, REDUCE_MEAN);
        if (m > 0)
            work_wait(work[1]);
        work_wait(work[0]);
        for (size_t i = 0; i < count; i++) {
            const float sum = (float)(n * (n - 1) / 2 + n * round);
            const float mean = m > 0 ? (float)(m * (m - 1) / 2 * 3) / (float)m : in_part[i];
            CHECK(in_group[i] == sum, "%g in the group of %d, not %g", in_group[i], n, sum);
            CHECK(in_part[i] == mean, "%g in %s, not %g", in_part[i], sub->name, mean);
        }
    }
    free(in_group);
    free(in_part);
}

/* Splits pg, checks the subgroup, and returns it. */
static void split(ProcessGroup *sub, ProcessGroup *pg, Coloring *color)
{
    process_group_split(sub, pg, color(pg->rank, pg->world_size));
    expect_members(sub, pg, color);
    run_at_the_same_time(sub, pg);
}

void split_cases_run(ProcessGroup *pg)
{
    Coloring *const colorings[] = { all_together, all_alone,   halves,
                                    by_turns,     all_but_one, without_the_first };
    enum { NUM_COLORINGS = sizeof colorings / sizeof colorings[0] };
    ProcessGroup part[NUM_COLORINGS], nested;
    for (int i = 0; i < NUM_COLORINGS; i++)
        split(&part[i], pg, colorings[i]);

    // Subgroups of several splits side by side, and subgroups of subgroups.
    for (int i = 0; i < NUM_COLORINGS; i++)
        expect_members(&part[i], pg, colorings[i]);
    split(&nested, &part[2], by_turns);
    barrier(&part[0]);
    subgroup_free(&nested);
    for (int i = 0; i < NUM_COLORINGS; i++)
        subgroup_free(&part[i]);

    // A subgroup is a group like any other; two of them work at the same time here.
    split(&part[0], pg, halves);
    if (pg->world_size == 4)
        collective_cases_run(&part[0]);
    subgroup_free(&part[0]);
}
