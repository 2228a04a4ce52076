/* Observers see every call on the group and its subgroups, in every state and in order. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/backend.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define MAX_SEEN 64

/* What an observer has seen, in that order. */
typedef struct {
    atomic_int count;
    struct {
        uint64_t op_id, sequence, count;
        CollectiveKind kind;
        CollectiveState state;
        bool of_part;
    } seen[MAX_SEEN];
} Notes;

static void take_note(void *context, const Collective *c, CollectiveState state)
{
    Notes *notes = context;
    const int i = atomic_fetch_add(&notes->count, 1);
    CHECK(i < MAX_SEEN, "more is seen than was done");
    notes->seen[i].op_id = c->op_id;
    notes->seen[i].sequence = c->sequence;
    notes->seen[i].count = c->count;
    notes->seen[i].kind = c->kind;
    notes->seen[i].state = state;
    notes->seen[i].of_part = c->pg->parent != NULL;
}

/* Checks that each state appears once, after the states that precede it; the calling thread and the
 * executing thread report theirs independently of each other. */
static void check_states(const Notes *notes, int num_calls)
{
    static const struct {
        CollectiveState state, after;
    } order[] = {
        { COLLECTIVE_STARTED, COLLECTIVE_SCHEDULED }, { COLLECTIVE_COMPLETED, COLLECTIVE_STARTED },
        { COLLECTIVE_QUEUED, COLLECTIVE_SCHEDULED },  { COLLECTIVE_AWAITED, COLLECTIVE_QUEUED },
        { COLLECTIVE_RETURNED, COLLECTIVE_AWAITED },  { COLLECTIVE_RETURNED, COLLECTIVE_COMPLETED },
    };
    CHECK(notes->count == 6 * num_calls, "%d states of %d calls", notes->count, num_calls);
    for (int call = 0; call < num_calls; call++) {
        int place[COLLECTIVE_RETURNED + 1] = { 0 }; // counted from 1 (0 if not seen)
        for (int i = 0; i < notes->count; i++)
            if (notes->seen[i].op_id == (uint64_t)call)
                place[notes->seen[i].state] = i + 1;
        CHECK(place[COLLECTIVE_SCHEDULED] > 0, "call %d is not scheduled", call);
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
            CHECK(place[order[i].state] > place[order[i].after],
                  "call %d: states %d and %d are out of order", call, order[i].after,
                  order[i].state);
    }
}

/* Returns the index of the call with this op_id in the notes. */
static int index_of(const Notes *notes, uint64_t op_id)
{
    int i = 0;
    while (notes->seen[i].op_id != op_id)
        i++;
    return i;
}

static void check_call(const Notes *notes, uint64_t op_id, CollectiveKind kind, uint64_t sequence,
                       uint64_t count, bool of_part)
{
    const int i = index_of(notes, op_id);
    CHECK(notes->seen[i].kind == kind && notes->seen[i].sequence == sequence &&
              notes->seen[i].count == count && notes->seen[i].of_part == of_part,
          "call %d is not the one that was made", (int)op_id);
}

static void all_calls_body(Rank *rank)
{
    static Notes notes[2];
    float data[8] = { 0 }, more[16] = { 0 };
    Observer observer[2] = { { .see = take_note, .context = &notes[0] },
                             { .see = take_note, .context = &notes[1] } };
    ProcessGroup pg;
    rank_join(rank, &pg);
    process_group_observe(&pg, &observer[0]);
    process_group_observe(&pg, &observer[1]);
    Work work = all_reduce_async(&pg, data, 8, FLOAT32, REDUCE_SUM);
    broadcast(&pg, data, 7, FLOAT32, 1);
    work_wait(work);
    if (rank->rank == 0)
        pg_send(&pg, data, 6, FLOAT32, 1);
    else
        pg_recv(&pg, data, 6, FLOAT32, 0);
    ProcessGroup part = pg; // a subgroup of all ranks, as extras/hierarchical makes them
    part.parent = &pg;
    part.sequence = 0;
    strcpy(part.name, "part");
    all_gather(&part, data, more, 5, FLOAT32);
    process_group_destroy(&pg); // ends with a barrier

    for (int i = 0; i < 2; i++) {
        check_states(&notes[i], 5);
        check_call(&notes[i], 0, ALL_REDUCE, 0, 8, false);
        check_call(&notes[i], 1, BROADCAST, 1, 7, false);
        check_call(&notes[i], 2, rank->rank == 0 ? SEND : RECV, 2, 6, false);
        check_call(&notes[i], 3, ALL_GATHER, 0, 5, true);
        check_call(&notes[i], 4, BARRIER, 2, 0, false);
    }
}

static void test_every_call_is_seen(void **state)
{
    (void)state;
    ranks_run_well(2, all_calls_body, NULL);
}

/* Prints the last call's states on standard error. */
static void tell(void *context, const Collective *c, CollectiveState state)
{
    (void)c;
    if (state == COLLECTIVE_FAILED)
        log_info("%s", (const char *)context);
}

static void failed_body(Rank *rank)
{
    Observer observer = { .see = tell, .context = "seen to fail" };
    ProcessGroup pg;
    rank_join(rank, &pg);
    process_group_observe(&pg, &observer);
    pg.calls.error_suffix = "; see the manual";
    if (rank->rank == 1)
        _exit(EXIT_FAILURE);
    barrier(&pg);
}

static void test_a_failed_call_is_seen_and_advice_is_given(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, failed_body, NULL, end);
    expect_error(end, 0, "seen to fail");
    expect_error(end, 0, "rank 1 is gone: connection closed during barrier #0; see the manual\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_seen),
        cmocka_unit_test(test_a_failed_call_is_seen_and_advice_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
