/* The rank to blame: from reports of all kinds, and among ranks that stop reporting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/nccl/rank_watch.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define SUM "all_reduce #7 of 10 float32 (sum)"

/* A case seen by rank 0 of three, in its eighth call, with the other ranks' reports. */
typedef struct {
    CollectiveKind kind;
    const char *busy[2]; // calls that ranks 1 and 2 are in
    uint64_t num_calls[2];
    const char *line;
} Blame;

static const Blame blames[] = {
    { ALL_REDUCE,
      { "", SUM },
      { 7, 8 },
      "rank 1 is missing in " SUM " after 5 s: it does not make this call" },
    { ALL_REDUCE,
      { SUM, "recv #6 of 1 float32 from rank 0" },
      { 8, 6 },
      "rank 2 is missing in " SUM " after 5 s: it is in recv #6 of 1 float32 from rank 0" },
    { ALL_REDUCE,
      { SUM, "broadcast #7 of 10 int32 from rank 1" },
      { 8, 8 },
      SUM " did not end within 5 s: rank 2 is in broadcast #7 of 10 int32 from rank 1" },
    { ALL_REDUCE,
      { SUM, SUM },
      { 8, 8 },
      SUM " did not end within 5 s, though no rank is missing: NCCL_DEBUG=INFO shows" },
    // Of two ranks only the other one can be missing.
    { RECV,
      { "", "" },
      { 0, 0 },
      "rank 2 is missing in recv #7 of 10 float32 from rank 2 after 5 s: it does not make" },
    { RECV,
      { "", SUM },
      { 0, 0 },
      "recv #7 of 10 float32 from rank 2 did not end within 5 s: rank 2 is in " SUM },
};

static void test_blame(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof blames / sizeof blames[0]; i++) {
        const Blame *blame = &blames[i];
        RankReport reports[3] = { 0 };
        for (int rank = 1; rank < 3; rank++) {
            strcpy(reports[rank].busy, blame->busy[rank - 1]);
            reports[rank].num_calls = blame->num_calls[rank - 1];
        }
        const ProcessGroup pg = { .world_size = 3, .timeout = 5 };
        const RankWatch watch = { .pg = &pg, .reports = reports };
        const Collective call = {
            .pg = &pg, .sequence = 7, .kind = blame->kind, .count = 10, .root = 2
        };
        char what[DESCRIPTION_BYTES], line[BLAME_BYTES];
        rank_watch_blame(&watch, &call, collective_describe(&call, what), line);
        if (strstr(line, blame->line) == NULL)
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, line, blame->line);
    }
}

/* Publishes reports for some time, or until another rank ends the group. */
static void tell(RankWatch *watch, double seconds)
{
    for (const double end = seconds_now() + seconds; seconds_now() < end;) {
        rank_watch_publish(watch, &(RankReport){ .busy = SUM });
        usleep((useconds_t)(watch->period * 1e6));
    }
}

/* Rank 1 stops reporting; rank 0 looks for the rank to blame; rank 2 only reports. */
static void silent_body(Rank *rank)
{
    rank->args.timeout = 28; // a rank counts as silent after a quarter of it
    strcpy(rank->store.prefix, "this attempt/");
    ProcessGroup pg;
    rank_join(rank, &pg);
    RankWatch watch;
    rank_watch_init(&watch, &pg);
    char key[STORE_KEY_BYTES]; // has this attempt's prefix, not an earlier one's
    CHECK(store_check(pg.store, process_group_key(&pg, "report of rank", 0, key)), "no %s", key);
    if (rank->rank == 1) {
        tell(&watch, 1);
        store_wait(pg.store, process_group_key(&pg, "verdict", 0, key));
        rank_watch_publish(&watch, &(RankReport){ 0 }); // receives the verdict
    }
    int silent = -1;
    for (const double end = seconds_now() + 60; silent < 0 && seconds_now() < end;) {
        tell(&watch, watch.period);
        silent = rank->rank == 0 ? rank_watch_poll(&watch) : -1;
    }
    if (rank->rank == 0)
        CHECK(strcmp(watch.reports[2].busy, SUM) == 0, "rank 2 says \"%s\"", watch.reports[2].busy);
    char line[BLAME_BYTES];
    snprintf(line, sizeof line, "rank %d is gone, see?", silent);
    rank_watch_end(&watch, line);
}

static void test_silence(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, silent_body, NULL, end);
    for (int rank = 0; rank < 3; rank++) {
        expect_error(end, rank,
                     rank != 1
                         ? "fatal: rank 1 is gone, see?"
                         : "fatal: the others gave up waiting for this rank, which was gone, see?");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blame),
        cmocka_unit_test(test_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
