/*
 * Many ranks on few cores: sums by formula, and the numbers of bytes and messages from theory.
 *
 * RANKS="8 12 64" selects the world sizes; make test uses 8, make check-ranks up to 64.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "beyond/usage.h"
#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

/* A rank's total of sent bytes and messages. */
typedef struct {
    uint64_t bytes, messages;
} Sent;

static Sent sent_by(const ProcessGroup *pg)
{
    Sent sent = { .messages = ((const Mesh *)pg->state)->moved.sent_messages };
    uint64_t received;
    tcp_payload_bytes(pg, &sent.bytes, &received);
    return sent;
}

/* Element i of rank r is (r + 1) (i % 7 + 1): the sum over n ranks is n (n + 1) / 2 (i % 7 + 1), a
 * whole number that float32 holds exactly. */
static Sent sum_up(ProcessGroup *pg, size_t count)
{
    const int n = pg->world_size;
    float *data = mem_calloc(count, sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((pg->rank + 1) * (int)(i % 7 + 1));
    const Sent before = sent_by(pg);
    all_reduce(pg, data, count, FLOAT32, REDUCE_SUM);
    const Sent after = sent_by(pg);
    for (size_t i = 0; i < count; i++) {
        const float sum = (float)(n * (n + 1) / 2 * (int)(i % 7 + 1));
        CHECK(data[i] == sum, "%zu floats: element %zu is %g, not %g", count, i, data[i], sum);
    }
    free(data);
    return (Sent){ after.bytes - before.bytes, after.messages - before.messages };
}

/* Returns a block's size; the first count % n of n blocks are one element longer. */
static uint64_t block_bytes(size_t count, int n, int block)
{
    return sizeof(float) * (count / (size_t)n + ((size_t)(block % n) < count % (size_t)n));
}

/* A rank sends every block but its neighbour's own, then every one but the block it receives last:
 * 2 (n - 1) messages, and 2 (n - 1) / n of the bytes where n divides them. All ranks together send
 * 2 (n - 1) times the array. */
static void expect_ring(ProcessGroup *pg, size_t count)
{
    const int n = pg->world_size, rank = pg->rank;
    const Sent sent = sum_up(pg, count);
    const uint64_t bytes =
        2 * count * sizeof(float) - block_bytes(count, n, rank) - block_bytes(count, n, rank + 1);
    CHECK(sent.bytes == bytes, "%zu floats: sent %" PRIu64 " bytes, not %" PRIu64, count,
          sent.bytes, bytes);
    CHECK(sent.messages == 2 * (uint64_t)(n - 1), "%zu floats: %" PRIu64 " messages", count,
          sent.messages);
    int64_t total = (int64_t)sent.bytes;
    all_reduce(pg, &total, 1, INT64, REDUCE_SUM);
    CHECK(total == 2 * (n - 1) * (int64_t)(count * sizeof(float)),
          "%zu floats: all together sent %" PRId64 " bytes", count, total);
}

/* Expects log2(n) messages of all bytes. Ranks beyond the largest power of two send theirs to a
 * lower one, which sends them the sum. */
static void expect_doubling(ProcessGroup *pg, size_t count)
{
    const int n = pg->world_size, rank = pg->rank, steps = ilogb(n), power = 1 << steps;
    const int messages = rank >= power ? 1 : steps + (rank + power < n);
    const Sent sent = sum_up(pg, count);
    CHECK(sent.messages == (uint64_t)messages, "%zu floats: %" PRIu64 " messages, not %d", count,
          sent.messages, messages);
    CHECK(sent.bytes == (uint64_t)messages * count * sizeof(float),
          "%zu floats: sent %" PRIu64 " bytes in %d messages", count, sent.bytes, messages);
}

static void many_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    const size_t n = (size_t)pg.world_size, few[] = { 1, 7, 1001, 8192, 1024 * n - 1 };
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        expect_doubling(&pg, few[i]);
    // The first is the shortest for more than 8 ranks, the last 2 (n - 1) / n exactly.
    const size_t many[] = { 1024 * n + (n <= 8) * 8192, 1024 * n + 300007, 16384 * n };
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        expect_ring(&pg, many[i]);
    process_group_destroy(&pg);
}

static void test_sums_bytes_and_messages_are_those_of_the_formula(void **state)
{
    (void)state;
    const char *next = getenv("RANKS") != NULL ? getenv("RANKS") : "8";
    for (char *end; *next != '\0'; next = end) {
        const long n = strtol(next, &end, 10);
        if (end == next || n < 1 || n > MAX_RANKS)
            fail_msg("RANKS is \"%s\", not numbers from 1 to %d", getenv("RANKS"), MAX_RANKS);
        ranks_run_well((int)n, many_body, NULL);
        print_message("# %ld ranks: as the formula says\n", n);
    }
}

/* Sets the soft and hard limits as ulimit -n in a login shell would. */
static void limited_body(Rank *rank)
{
    const struct rlimit *limit = rank->context;
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, limit));
    ProcessGroup pg;
    rank_join(rank, &pg);
    const Mesh *mesh = pg.state; // the backend's state begins with the mesh
    for (int peer = 0; peer < pg.world_size; peer++)
        CHECK(mesh->peer[peer].data < 0 || !has_extras || mesh->peer[peer].pipe != NULL,
              "no memory shared with %d", peer);
    process_group_destroy(&pg);
}

static void test_too_few_descriptors_are_raised_or_named(void **state)
{
    (void)state;
    struct rlimit soft = { .rlim_cur = 20, .rlim_max = 1024 }, hard = { 20, 20 };
    ranks_run_well(MAX_RANKS, limited_body, &soft);
    RankEnd end[MAX_RANKS];
    ranks_run(8, limited_body, &hard, end);
    // Three for each peer: a rank of eight has four neighbors (extras/on_demand), or all the
    // others.
    const bool has_all = !has_extras;
    for (int rank = 0; rank < 8; rank++)
        expect_error(end, rank,
                     has_all ? "8 ranks take 85 descriptors here, and a process may open 20: raise "
                               "that (ulimit -n 85)"
                             : "8 ranks take 76 descriptors here, and a process may open 20: raise "
                               "that (ulimit -n 76)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_bytes_and_messages_are_those_of_the_formula),
        cmocka_unit_test(test_too_few_descriptors_are_raised_or_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
