/* What a process group does on bad days: who is named, by whom, and how soon. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/dist/backend.h"
#include "common/dist/net.h"
#include "tests/ranks.h"

#define LARGE 300000 // floats; more than the kernel keeps for a rank that does not read
#define AT_ONCE 3.0 // seconds: far from the timeout of 20, and busy machines are slow

static float data[LARGE], more[MAX_RANKS * 1000];

static void expect_error(const RankEnd *end, int rank, const char *text)
{
    if (end[rank].status != EXIT_FAILURE || strstr(end[rank].errors, text) == NULL)
        fail_msg("rank %d ended with %d and \"%s\", not with \"%s\"", rank, end[rank].status,
                 end[rank].errors, text);
}

static void expect_error_at_once(const RankEnd *end, int rank, const char *text)
{
    expect_error(end, rank, text);
    if (end[rank].seconds > AT_ONCE)
        fail_msg("rank %d needed %.1f s to say \"%s\"", rank, end[rank].seconds, text);
}

/* ---- calls that do not fit together ---- */

/* Rank `culprit` makes another call than the others. */
typedef struct {
    int culprit;
    void (*call)(ProcessGroup *pg);
    const char *text;
    void (*other_call)(ProcessGroup *pg);
    const char *other_text;
} Mismatch;

static void sum(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, FLOAT32, REDUCE_SUM);
}

static void sum_of_fewer(ProcessGroup *pg)
{
    all_reduce(pg, data, 10, FLOAT32, REDUCE_SUM);
}

static void sum_of_ints(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, INT32, REDUCE_SUM);
}

static void largest(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, FLOAT32, REDUCE_MAX);
}

static void broadcast_from_0(ProcessGroup *pg)
{
    broadcast(pg, data, 10, INT32, 0);
}

static void broadcast_from_1(ProcessGroup *pg)
{
    broadcast(pg, data, 10, INT32, 1);
}

static void long_broadcast_from_0(ProcessGroup *pg)
{
    broadcast(pg, data, LARGE, FLOAT32, 0);
}

static void long_broadcast_from_1(ProcessGroup *pg)
{
    broadcast(pg, data, LARGE, FLOAT32, 1);
}

static void reduce_to_0(ProcessGroup *pg)
{
    reduce(pg, data, 10, FLOAT64, REDUCE_MIN, 0);
}

static void reduce_to_1(ProcessGroup *pg)
{
    reduce(pg, data, 10, FLOAT64, REDUCE_MIN, 1);
}

static void gather_to_0(ProcessGroup *pg)
{
    gather(pg, data, more, 10, UINT8, 0);
}

static void scatter_from_0(ProcessGroup *pg)
{
    scatter(pg, more, data, 10, UINT8, 0);
}

static void nothing(ProcessGroup *pg)
{
    (void)pg;
}

static void mismatch_body(Rank *rank)
{
    const Mismatch *mismatch = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    (rank->rank == mismatch->culprit ? mismatch->other_call : mismatch->call)(&pg);
    all_reduce(&pg, data, 7, INT64, REDUCE_SUM);
    process_group_destroy(&pg);
}

#define SUM "all_reduce #1 of 18432 float32 (sum)"

static void test_mismatches(void **state)
{
    (void)state;
    const Mismatch mismatches[] = {
        { 1, sum, SUM, broadcast_from_0, "broadcast #1 of 10 int32 from rank 0" },
        { 1, sum, SUM, sum_of_fewer, "all_reduce #1 of 10 float32 (sum)" },
        { 1, sum, SUM, sum_of_ints, "all_reduce #1 of 18432 int32 (sum)" },
        { 0, sum, SUM, largest, "all_reduce #1 of 18432 float32 (max)" },
        { 1, sum, SUM, nothing, "all_reduce #1 of 7 int64 (sum)" },
        { 1, sum, SUM, barrier, "barrier #1" },
        { 0, broadcast_from_0, "broadcast #1 of 10 int32 from rank 0", broadcast_from_1,
          "broadcast #1 of 10 int32 from rank 1" }, // both wait
        { 1, broadcast_from_0, "broadcast #1 of 10 int32 from rank 0", broadcast_from_1,
          "broadcast #1 of 10 int32 from rank 1" }, // both send
        { 0, long_broadcast_from_0, "broadcast #1 of 300000 float32 from rank 0",
          long_broadcast_from_1, "broadcast #1 of 300000 float32 from rank 1" },
        { 1, reduce_to_0, "reduce #1 of 10 float64 (min) to rank 0", reduce_to_1,
          "reduce #1 of 10 float64 (min) to rank 1" },
        { 1, gather_to_0, "gather #1 of 10 uint8 to rank 0", scatter_from_0,
          "scatter #1 of 10 uint8 from rank 0" },
    };
    for (size_t i = 0; i < sizeof mismatches / sizeof mismatches[0]; i++) {
        const Mismatch *mismatch = &mismatches[i];
        for (int world_size = 2; world_size <= 4; world_size += 2) {
            RankEnd end[MAX_RANKS];
            ranks_run(world_size, 15, mismatch_body, (void *)mismatch, end);
            char text[128];
            snprintf(text, sizeof text, "rank %d calls %s", mismatch->culprit,
                     mismatch->other_text);
            for (int rank = 0; rank < world_size; rank++) {
                expect_error_at_once(end, rank, text);
                expect_error(end, rank, mismatch->text);
            }
        }
    }
}

static void send_recv_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 0)
        pg_send(&pg, data, 10, FLOAT32, 1);
    else
        pg_recv(&pg, data, 11, FLOAT32, 0);
    barrier(&pg);
}

static void test_send_and_recv_of_other_counts(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, 15, send_recv_body, NULL, end);
    for (int rank = 0; rank < 2; rank++)
        expect_error_at_once(end, rank,
                             "rank 1 calls recv #0 of 11 float32 from rank 0, rank 0 calls send #0 "
                             "of 10 float32 to rank 1");
}

static void late_call_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 0)
        sum(&pg);
    process_group_destroy(&pg);
}

static void test_one_call_more_than_the_others(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, 15, late_call_body, NULL, end);
    for (int rank = 0; rank < 3; rank++) {
        expect_error_at_once(end, rank, "rank 0 calls all_reduce #0 of 18432 float32 (sum)");
        expect_error(end, rank, "calls barrier #0");
    }
}

/* ---- ranks that die or stay away ---- */

typedef struct {
    void (*call)(ProcessGroup *pg);
    const char *text;
    int culprit;
} Loss;

static void long_sum(ProcessGroup *pg)
{
    all_reduce(pg, data, LARGE, FLOAT32, REDUCE_SUM);
}

static void long_all_gather(ProcessGroup *pg)
{
    all_gather(pg, data, more, 1000, FLOAT32);
}

static const Loss losses[] = {
    { long_sum, "all_reduce #1 of 300000 float32 (sum)", 3 },
    { barrier, "barrier #1", 2 },
    { long_all_gather, "all_gather #1 of 1000 float32", 1 },
    { long_broadcast_from_0, "broadcast #1 of 300000 float32 from rank 0", 1 },
};

static void killed_body(Rank *rank)
{
    const Loss *loss = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == loss->culprit) {
        usleep(100 * 1000); // the others are waiting in the call by now
        raise(SIGKILL);
    }
    loss->call(&pg);
    barrier(&pg);
}

static void test_killed_rank_is_named_by_all_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(4, 15, killed_body, (void *)&losses[i], end);
        char text[128];
        snprintf(text, sizeof text, "rank %d is gone: connection closed during ",
                 losses[i].culprit);
        for (int rank = 0; rank < 4; rank++)
            if (rank != losses[i].culprit)
                expect_error_at_once(end, rank, text);
    }
}

static void stopped_body(Rank *rank)
{
    const Loss *loss = rank->context;
    rank->args.timeout = 0.8;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == loss->culprit)
        raise(SIGSTOP);
    loss->call(&pg);
    barrier(&pg);
}

static void test_stopped_rank_is_named_by_all_in_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i += 3) { // the first and the last
        RankEnd end[MAX_RANKS];
        ranks_run(4, 15, stopped_body, (void *)&losses[i], end);
        char text[128];
        snprintf(text, sizeof text, "rank %d is missing in ", losses[i].culprit);
        for (int rank = 0; rank < 4; rank++) {
            if (rank == losses[i].culprit)
                continue;
            expect_error(end, rank, text);
            expect_error(end, rank, "after 0.8 s");
            assert_true(end[rank].seconds >= 0.7 && end[rank].seconds < 0.8 + AT_ONCE);
        }
    }
}

/* Two ranks deal with each other, one of them waits for a third that does not come. */
static void chain_body(Rank *rank)
{
    rank->args.timeout = 0.6;
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 2)
        raise(SIGSTOP);
    pg_recv(&pg, data, 10, FLOAT32, rank->rank + 1);
}

static void test_the_end_of_a_chain_is_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, 15, chain_body, NULL, end);
    expect_error(end, 0, "rank 2 is missing in ");
    expect_error(end, 1, "rank 2 is missing in ");
}

static void embrace_body(Rank *rank)
{
    rank->args.timeout = 0.6;
    ProcessGroup pg;
    rank_join(rank, &pg);
    pg_recv(&pg, data, 10, FLOAT32, 1 - rank->rank);
}

static void test_deadly_embrace(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, 15, embrace_body, NULL, end);
    for (int rank = 0; rank < 2; rank++)
        expect_error(end, rank, "did not end within 0.6 s: rank");
}

/* ---- forming the group ---- */

static void missing_body(Rank *rank)
{
    rank->args.timeout = 0.6;
    ProcessGroup pg;
    if (rank->rank < 2)
        rank_join(rank, &pg);
}

static void test_missing_ranks_are_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(4, 15, missing_body, NULL, end);
    expect_error_at_once(end, 0, "ranks 2 and 3 of 4 did not come within 0.6 s");
    expect_error_at_once(end, 1, "ranks 2 and 3 of 4 did not come within 0.6 s");
}

static void disagreeing_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.check_collectives = rank->rank == 2;
    rank_join(rank, &pg);
}

static void other_size_body(Rank *rank)
{
    ProcessGroup pg;
    rank->world_size += rank->rank == 1;
    rank_join(rank, &pg);
}

/* Rank 1 pretends to be of another backend, since this build may have only one. */
static void other_backend_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 1) {
        const char line[] = "--backend mpi, --device cpu, 2 ranks, --check-collectives off";
        store_set(&rank->store, "group 1/line of rank 1", line, strlen(line));
        store_wait(&rank->store, "group 1/leaving 0"); // it has been found out
    } else {
        rank_join(rank, &pg);
    }
}

/* The store dies with rank 0, but not before all know why. */
static void served_by_rank_0_body(Rank *rank)
{
    char text[16] = "";
    int port = 0;
    if (rank->rank == 0) {
        close(net_listen("127.0.0.1", &port)); // finds a free one
        snprintf(text, sizeof text, "%d", port);
        store_set(&rank->store, "port", text, sizeof text);
    }
    store_get(&rank->store, "port", text, sizeof text);
    store_free(&rank->store);
    store_init(&rank->store, "127.0.0.1", atoi(text), rank->rank == 0, rank->world_size, 10);
    if (rank->rank == 3)
        usleep(200 * 1000);
    disagreeing_body(rank);
}

static void test_disagreeing_ranks_are_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, 15, disagreeing_body, NULL, end);
    for (int rank = 0; rank < 3; rank++) {
        expect_error_at_once(end, rank, "the ranks disagree: rank ");
        expect_error(end, rank,
                     "rank 2 has --backend tcp, --device cpu, 3 ranks, "
                     "--check-collectives on");
    }
    ranks_run(4, 15, served_by_rank_0_body, NULL, end);
    for (int rank = 0; rank < 4; rank++)
        expect_error_at_once(end, rank, "rank 2 has --backend tcp, --device cpu, 4 ranks");

    ranks_run(2, 15, other_size_body, NULL, end);
    expect_error_at_once(end, 0, "rank 1 has --backend tcp, --device cpu, 3 ranks");
    expect_error_at_once(end, 1, "rank 0 has --backend tcp, --device cpu, 2 ranks");

    ranks_run(2, 15, other_backend_body, NULL, end);
    expect_error_at_once(end, 0, "rank 1 has --backend mpi, --device cpu, 2 ranks");
}

typedef struct {
    const char *backend;
    bool on_gpu;
    const char *text;
} Unusable;

static void unusable_body(Rank *rank)
{
    const Unusable *unusable = rank->context;
    ProcessGroup pg;
    rank->args.backend = unusable->backend;
    process_group_init_store(&pg, &rank->args, &rank->store, 0, 1,
                             (Place){ .on_gpu = unusable->on_gpu });
}

static void test_unusable_backends(void **state)
{
    (void)state;
    const Unusable cases[] = {
        { "gloo", false, "--backend gloo: there are auto, nccl, mpi and tcp" },
        { "mpi", false, "built without mpi: install Open MPI" },
        { "nccl", false, backend_nccl.available ? "needs --device cuda" : "built without nccl" },
        { "tcp", true, "--backend tcp does not reach GPU memory" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].backend, "mpi") == 0 && backend_mpi.available)
            continue;
        RankEnd end[MAX_RANKS];
        ranks_run(1, 15, unusable_body, (void *)&cases[i], end);
        assert_int_equal(end[0].status, 2);
        assert_non_null(strstr(end[0].errors, cases[i].text));
    }
}

/* Calls rank 0's port; true if it is shown the door. */
static bool is_turned_away(Store *store, const void *hello, size_t bytes)
{
    char address[160] = "", host[128];
    int port = 0;
    store_get(store, "group 1/tcp address 0", address, sizeof address - 1);
    CHECK(sscanf(address, "%127s %d", host, &port) == 2, "\"%s\" is no address", address);
    const double deadline = seconds_now() + 10;
    const int fd = net_connect(host, port, deadline);
    SYS_CHECK(fd);
    net_send(fd, hello, bytes, deadline);
    char answer;
    const bool closed = net_recv(fd, &answer, 1, deadline) < 0 && errno == ECONNRESET;
    close(fd);
    return closed;
}

/* Rank 1 lets strangers go first: rank 0 waits for it alone once it has seen its line. */
static void strangers_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 1) {
        char line[160];
        const size_t bytes = store_get(&rank->store, "group 1/line of rank 0", line, sizeof line);
        store_set(&rank->store, "group 1/line of rank 1", line, bytes);

        struct {
            char magic[8];
            unsigned char token[16];
            int32_t rank, channel;
        } stale = { "ddp.tcp", { 1, 2, 3 }, 1, 0 };
        stale.magic[7] = '1';
        char garbage[4096];
        memset(garbage, 0xff, sizeof garbage);
        CHECK(is_turned_away(&rank->store, "GET / HTTP/1.0\r\n\r\n                    ", 32),
              "a browser was let in");
        CHECK(is_turned_away(&rank->store, garbage, sizeof garbage), "garbage was let in");
        CHECK(is_turned_away(&rank->store, &stale, sizeof stale), "an old token was let in");
        CHECK(is_turned_away(&rank->store, "", 0), "silence was let in");
    }
    rank_join(rank, &pg);
    CHECK(all_reduce_scalar(&pg, rank->rank + 1, REDUCE_SUM) == 3, "wrong sum");
    process_group_destroy(&pg);
    if (rank->rank == 0)
        die("done");
}

static void test_strangers_are_turned_away(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, 15, strangers_body, NULL, end);
    assert_string_equal(end[1].errors, "");
    expect_error(end, 0, "done");
    int num_warnings = 0;
    for (const char *at = end[0].errors; (at = strstr(at, "turned away a connection")); at++)
        num_warnings++;
    assert_int_equal(num_warnings, 4);
}

static void two_groups_body(Rank *rank)
{
    for (int i = 0; i < 2; i++) {
        ProcessGroup pg;
        rank_join(rank, &pg);
        CHECK(all_reduce_scalar(&pg, 1, REDUCE_SUM) == rank->world_size, "wrong sum");
        process_group_destroy(&pg);
    }
}

static void test_two_groups_after_each_other(void **state)
{
    (void)state;
    ranks_run_well(3, 15, two_groups_body, NULL);
}

/* ---- calls that make no sense; what calls cost ---- */

static void send_to_self(ProcessGroup *pg)
{
    pg_send(pg, data, 1, FLOAT32, pg->rank);
}

static void broadcast_from_7(ProcessGroup *pg)
{
    broadcast(pg, data, 1, FLOAT32, 7);
}

static void sum_of_everything(ProcessGroup *pg)
{
    all_reduce(pg, data, SIZE_MAX / 4, FLOAT32, REDUCE_SUM);
}

static void senseless_body(Rank *rank)
{
    const Loss *loss = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    loss->call(&pg);
}

static void test_senseless_calls(void **state)
{
    (void)state;
    const Loss cases[] = {
        { send_to_self, "send #0 of 1 float32 to rank 0: that is this rank itself", 0 },
        { broadcast_from_7, "broadcast #0 of 1 float32 from rank 7: ranks are numbered", 0 },
        { sum_of_everything, "float32 (sum): no memory is that large", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, 15, senseless_body, (void *)&cases[i], end);
        expect_error(end, 0, cases[i].text);
    }
}

static void traffic_body(Rank *rank)
{
    const size_t n = (size_t)rank->world_size, count = 12 * 5000; // divisible by 2, 3 and 4
    ProcessGroup pg;
    rank_join(rank, &pg);
    uint64_t sent, received;
    all_reduce(&pg, data, count, FLOAT32, REDUCE_MEAN);
    tcp_payload_bytes(&pg, &sent, &received);
    CHECK(sent == 2 * (n - 1) * count * sizeof(float) / n, "sent %zu bytes", (size_t)sent);
    CHECK(received == sent, "received %zu bytes", (size_t)received);
    process_group_destroy(&pg);
}

static void test_the_ring_sends_no_byte_too_many(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, 15, traffic_body, NULL);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void patient_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    const double before = cpu_seconds();
    if (rank->rank == 1)
        usleep(500 * 1000);
    long_sum(&pg);
    long_broadcast_from_0(&pg);
    const double used = cpu_seconds() - before;
    CHECK(used < 0.2, "used %g s of the processor to wait for 0.5 s", used);
    process_group_destroy(&pg);
}

static void test_waiting_costs_nothing(void **state)
{
    (void)state;
    ranks_run_well(3, 15, patient_body, NULL);
}

/* Groups end in any order, again and again, without a false alarm. */
static void ending_body(Rank *rank)
{
    for (int i = 0; i < 20; i++) {
        ProcessGroup pg;
        rank_join(rank, &pg);
        if (i % rank->world_size == rank->rank)
            usleep(5000);
        process_group_destroy(&pg);
    }
}

static void test_no_false_alarms_at_the_end(void **state)
{
    (void)state;
    ranks_run_well(4, 15, ending_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatches),
        cmocka_unit_test(test_send_and_recv_of_other_counts),
        cmocka_unit_test(test_one_call_more_than_the_others),
        cmocka_unit_test(test_killed_rank_is_named_by_all_at_once),
        cmocka_unit_test(test_stopped_rank_is_named_by_all_in_time),
        cmocka_unit_test(test_the_end_of_a_chain_is_named),
        cmocka_unit_test(test_deadly_embrace),
        cmocka_unit_test(test_missing_ranks_are_named),
        cmocka_unit_test(test_disagreeing_ranks_are_named),
        cmocka_unit_test(test_unusable_backends),
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_two_groups_after_each_other),
        cmocka_unit_test(test_senseless_calls),
        cmocka_unit_test(test_the_ring_sends_no_byte_too_many),
        cmocka_unit_test(test_waiting_costs_nothing),
        cmocka_unit_test(test_no_false_alarms_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
