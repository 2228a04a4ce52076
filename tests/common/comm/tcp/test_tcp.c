/* The tcp backend's own guarantees: no unknown peers, no extra bytes, and idle waiting. */
#include <dirent.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "beyond/usage.h"
#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 200.0 // seconds
#define NUM_CONNECTIONS 300 // connections
#define LARGE 300000 // floats; more than the kernel buffers for a rank that does not read

static float data[LARGE];

/* What rank 0 stores for the others in a job without a secret (tcp_mesh.c). */
typedef struct {
    char version[8];
    Key256 key;
} Offer;

static int call_rank_0(Store *store)
{
    char address[160] = "", host[128];
    int port = 0;
    store_get(store, "group 1/tcp address 0", address, sizeof address - 1);
    CHECK(sscanf(address, "%127s %d", host, &port) == 2, "\"%s\" is no address", address);
    const int fd = net_connect(host, port, seconds_now() + TIMEOUT);
    SYS_CHECK(fd);
    return fd;
}

/* Connects to rank 0's port. Returns true if rank 0 closes the connection. */
static bool is_turned_away(Store *store, const void *hello, size_t bytes)
{
    const double deadline = seconds_now() + TIMEOUT;
    const int fd = call_rank_0(store);
    net_send(fd, hello, bytes, deadline);
    char answer;
    const bool closed = net_recv(fd, &answer, 1, deadline) < 0 && errno == ECONNRESET;
    close(fd);
    return closed;
}

/* Pretends that rank 1 has come: rank 0 forms the group, and waits for it there. */
static void let_rank_0_go_on(Rank *rank)
{
    store_set(&rank->store, "group 1/agreement 0", "", 0);
}

/* Rank 1 lets unknown peers connect first. */
static void strangers_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 1) {
        let_rank_0_go_on(rank);
        Offer offer;
        char garbage[4096];
        memset(garbage, 0xff, sizeof garbage);
        CHECK(is_turned_away(&rank->store, "GET / HTTP/1.0\r\n\r\n                    ", 32),
              "a browser was let in");
        CHECK(is_turned_away(&rank->store, garbage, sizeof garbage), "garbage was let in");
        CHECK(is_turned_away(&rank->store, "", 0), "silence was let in");
        store_get(&rank->store, "group 1/tcp version 0", &offer, sizeof offer);
        const Opening others[] = {
            { { "guessed" }, 1, 0, 0 }, // a rank of another group, or of an earlier attempt
            { offer.key, 0, 0, 0 }, // these have the key, but no rank has this number
            { offer.key, 2, 0, 0 },     { offer.key, -1, 0, 0 }, { offer.key, 1, 0, 2 },
            { offer.key, 1, 0, -1 },    { offer.key, 1, 1, 0 }, // for another rank
        };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            CHECK(is_turned_away(&rank->store, &others[i], sizeof others[i]),
                  "rank %d, channel %d got in", others[i].caller, others[i].channel);
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
    ranks_run(2, strangers_body, NULL, end);
    assert_string_equal(end[1].errors, "");
    expect_error(end, 0, "done");
    int num_warnings = 0;
    for (const char *at = end[0].errors; (at = strstr(at, "turned away a connection")); at++)
        num_warnings++;
    assert_int_equal(num_warnings, has_extras ? 8 : 10); // 8 are logged, or all
}

/* Rank 0 appears to the others as the build that `context` names. */
static void version_body(Rank *rank)
{
    const char *token = rank->context;
    ProcessGroup pg;
    if (rank->rank == 1)
        rank_join(rank, &pg);
    store_set(&rank->store, "group 1/tcp version 0", token, strlen(token));
    store_set(&rank->store, "group 1/agreement 0", "", 0);
    store_ping(&rank->store); // the store has them now
}

static void test_a_rank_of_another_version_is_told_so(void **state)
{
    (void)state;
    char *const tokens[] = { "16 random bytes.", "ddp.tcp2 0123456789abcdef0123456789abcde" };
    for (int i = 0; i < 2; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, version_body, tokens[i], end);
        expect_error_at_once(end, 1, "rank 0 runs another version of this program");
    }
}

/* As above, but rank 1 opens many connections that send nothing or half a hello, and stay open. */
static void crowd_body(Rank *rank)
{
    ProcessGroup pg;
    int connection[NUM_CONNECTIONS];
    if (rank->rank == 1) {
        char address[160] = "", host[128];
        int port = 0;
        let_rank_0_go_on(rank);
        store_get(&rank->store, "group 1/tcp address 0", address, sizeof address - 1);
        CHECK(sscanf(address, "%127s %d", host, &port) == 2, "\"%s\" is no address", address);
        for (int i = 0; i < NUM_CONNECTIONS; i++) {
            connection[i] = net_connect(host, port, seconds_now() + TIMEOUT);
            SYS_CHECK(connection[i]);
            if (i % 2 == 0)
                net_send(connection[i], "\xdd\1\2 half", 8, seconds_now() + TIMEOUT);
        }
    }
    rank_join(rank, &pg);
    CHECK(all_reduce_scalar(&pg, rank->rank + 1, REDUCE_SUM) == 3, "wrong sum");
    process_group_destroy(&pg);
    for (int i = 0; i < NUM_CONNECTIONS && rank->rank == 1; i++)
        close(connection[i]);
    if (rank->rank == 0)
        die("done");
}

static void test_a_crowd_keeps_nobody_out(void **state)
{
    (void)state;
    if (!has_extras)
        skip(); // without the extra, connections are read one after the other
    RankEnd end[MAX_RANKS];
    ranks_run(2, crowd_body, NULL, end);
    assert_string_equal(end[1].errors, "");
    expect_error(end, 0, "done");
    expect_error(end, 0, "(and says no more of such)");
    assert_true(strlen(end[0].errors) < 1500);
}

static void sum(ProcessGroup *pg, size_t count)
{
    all_reduce(pg, data, count, FLOAT32, REDUCE_MEAN);
}

static void from_0(ProcessGroup *pg, size_t count)
{
    broadcast(pg, data, count, FLOAT32, 0);
}

static void gather_all(ProcessGroup *pg, size_t count)
{
    all_gather(pg, data, data + LARGE / 2, count, FLOAT32);
}

static void scatter_all(ProcessGroup *pg, size_t count)
{
    reduce_scatter(pg, data, data + LARGE / 2, count, FLOAT32, REDUCE_SUM);
}

static void to_0(ProcessGroup *pg, size_t count)
{
    reduce(pg, data, count, FLOAT32, REDUCE_SUM, 0);
}

static void to_1(ProcessGroup *pg, size_t count)
{
    gather(pg, data, data + LARGE / 2, count, FLOAT32, 1);
}

/* The bytes and messages that rank 0 of four sends in each call: which algorithm is used, and that
 * it sends nothing in vain. S is a share of the long array. */
enum { S = 3 * 5000 };

static const struct {
    void (*call)(ProcessGroup *pg, size_t count);
    size_t count, floats, messages;
} traffic[] = {
    { sum, 4 * S, 2 * 3 * S, 6 }, // the ring
    { sum, 8192, 2 * 8192, 2 }, // 32 KiB: recursive doubling
    { sum, 8193, 2049 + 5 * 2048, 6 }, // shares of 2049, 2048, 2048 and 2048
    { from_0, 8192, 2 * 8192, 2 }, // the tree
    { from_0, 3 * S, 3 * S, 1 }, // the chain, in one chunk
    { from_0, 65536 + 1, 65536 + 1, 2 },
    { from_0, 2 * 65536, 2 * 65536, 2 },
    { gather_all, S, 3 * S, 3 },
    { scatter_all, S, 3 * S, 3 },
    { to_0, S, 0, 0 },
    { to_1, S, S, 1 },
};

static void traffic_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    const Mesh *mesh = pg.state;
    uint64_t bytes = 0, received, messages = 0;
    for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++) {
        traffic[i].call(&pg, traffic[i].count);
        bytes += traffic[i].floats * sizeof(float);
        messages += traffic[i].messages;
        uint64_t sent;
        tcp_payload_bytes(&pg, &sent, &received);
        CHECK(rank->rank > 0 || (sent == bytes && mesh->moved.sent_messages == messages),
              "call %zu: %zu bytes in %zu messages, not %zu in %zu", i, (size_t)sent,
              (size_t)mesh->moved.sent_messages, (size_t)bytes, (size_t)messages);
    }
    const size_t length = CHUNK_BYTES + 1; // the chain's last chunk has one byte
    data[CHUNK_BYTES / sizeof *data] = rank->rank == 0;
    broadcast(&pg, (uint8_t *)data + 3, length, UINT8, 0);
    CHECK(data[CHUNK_BYTES / sizeof *data] == 1, "the last byte does not come");
    const size_t taken = mesh->scratch_bytes;
    reduce_scatter(&pg, data, data + rank->rank * (S + 1), S + 1, FLOAT32, REDUCE_SUM); // in place
    CHECK(mesh->scratch_bytes == taken, "%zu bytes of memory", mesh->scratch_bytes);
    const double all = all_reduce_scalar(&pg, (double)mesh->moved.sent_bytes, REDUCE_SUM);
    const double got = all_reduce_scalar(&pg, (double)mesh->moved.received_bytes, REDUCE_SUM);
    CHECK(got == all + 4 * 2 * sizeof(double), "%g bytes are sent, %g received", all, got);
    process_group_destroy(&pg);
}

static void test_no_byte_is_sent_in_vain(void **state)
{
    (void)state;
    ranks_run_well(4, traffic_body, NULL);
}

static int num_descriptors(void)
{
    int count = 0;
    DIR *open_ones = opendir("/proc/self/fd");
    while (readdir(open_ones) != NULL)
        count++;
    closedir(open_ones);
    return count;
}

/* The second group takes what the first one has given back. */
static void clean_body(Rank *rank)
{
    int descriptors[3];
    size_t bytes[3];
    for (int i = 0; i < 3; i++) {
        ProcessGroup pg;
        rank_join(rank, &pg);
        for (size_t count = 10; count <= 1000; count *= 10) // each needs more memory
            all_reduce(&pg, data, count, FLOAT32, REDUCE_SUM);
        process_group_destroy(&pg);
        descriptors[i] = num_descriptors();
        bytes[i] = mallinfo2().uordblks + mallinfo2().hblkhd;
    }
    CHECK(descriptors[1] == descriptors[0], "%d are left", descriptors[1] - descriptors[0]);
    CHECK(bytes[2] == bytes[1], "%zu bytes, and then %zu", bytes[1], bytes[2]);
}

static void test_a_group_leaves_nothing(void **state)
{
    (void)state;
    ranks_run_well(3, clean_body, NULL);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Rank 1 is late, and half a notice of it is on its way meanwhile. */
static void patient_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    const double before = cpu_seconds();
    if (rank->rank == 1) {
        const Notice notice = { .kind = NOTICE_ALIVE, .waits_for = NOBODY };
        const int fd = ((Mesh *)pg.state)->peer[0].notices;
        const size_t half = sizeof notice / 2;
        SYS_CHECK(net_send(fd, &notice, half, seconds_now() + TIMEOUT));
        usleep(1000 * 1000);
        SYS_CHECK(net_send(fd, (char *)&notice + half, half, seconds_now() + TIMEOUT));
    }
    all_reduce(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    broadcast(&pg, data, LARGE, FLOAT32, 0);
    const double used = cpu_seconds() - before;
    CHECK(used < 0.5, "used %g s of the processor to wait for a second", used);
    process_group_destroy(&pg);
}

static void test_waiting_costs_nothing(void **state)
{
    (void)state;
    ranks_run_well(3, patient_body, NULL);
}

/* The thread that began the latest call, and the number of completed calls. */
typedef struct {
    pthread_t driver;
    atomic_int num_completed;
} Seen;

static void see(void *context, const Collective *collective, CollectiveState state)
{
    (void)collective;
    Seen *seen = context;
    if (state == COLLECTIVE_STARTED)
        seen->driver = pthread_self();
    if (state == COLLECTIVE_COMPLETED)
        atomic_fetch_add(&seen->num_completed, 1);
}

static void driver_body(Rank *rank)
{
    Seen seen = { .num_completed = 0 };
    Observer observer = { .see = see, .context = &seen };
    ProcessGroup pg;
    rank_join(rank, &pg);
    process_group_observe(&pg, &observer);
    int num_driven = 0; // a thread that has just been started may be first, now and then
    for (int i = 0; i < 100; i++) {
        all_reduce(&pg, data, 100, FLOAT32, REDUCE_SUM);
        num_driven += pthread_equal(seen.driver, pthread_self()) != 0;
    }
    CHECK(num_driven > 50, "the caller slept in %d calls of 100", 100 - num_driven);
    const double deadline = seconds_now() + TIMEOUT;
    const Work work = all_reduce_async(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    while (atomic_load(&seen.num_completed) == 100)
        CHECK(seconds_now() < deadline, "nobody carries out what nobody waits for");
    CHECK(!pthread_equal(seen.driver, pthread_self()), "the caller was busy");
    work_wait(work);

    // A thread that has waited for a call leaves those after it to the progress thread.
    const Work first = all_reduce_async(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    const Work second = all_reduce_async(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    work_wait(first);
    while (atomic_load(&seen.num_completed) < 103)
        CHECK(seconds_now() < deadline, "the second call waits for somebody to wait for it");
    work_wait(second);
    process_group_destroy(&pg);
}

static void test_who_waits_drives(void **state)
{
    (void)state;
    ranks_run_well(2, driver_body, NULL);
}

/* Recursive doubling adds neighbours first: in another order these sums of float32 are 0. */
static void pairs_body(Rank *rank)
{
    ProcessGroup pg;
    float sums[128];
    for (int i = 0; i < 128; i++)
        sums[i] = ((const float[]){ 1e8f, -1e8f, 1, 1 })[rank->rank];
    rank->args.simulate_network = rank->context;
    rank_join(rank, &pg);
    const double begin = seconds_now(); // before any rank sends its first byte
    barrier(&pg);
    all_reduce(&pg, sums, 128, FLOAT32, REDUCE_SUM);
    const double least = rank->context != NULL ? 2 * 8 * sizeof sums / 100e3 : 0; // two messages
    CHECK(seconds_now() - begin >= least, "two messages took less than %g s", least);
    CHECK(sums[0] == 2 && sums[127] == 2, "the sums are %g", (double)sums[0]);
    process_group_destroy(&pg);
}

static void test_doubling(void **state)
{
    (void)state;
    ranks_run_well(4, pairs_body, NULL);
    if (has_extras)
        ranks_run_well(4, pairs_body, "100kbit");
}

static void test_local_address_is_numeric(void **state)
{
    (void)state;
    int port = 0;
    const int listener = net_listen("", &port); // "::" on most machines
    const int fd = net_connect("127.0.0.1", port, seconds_now() + TIMEOUT);
    const int accepted = net_accept(listener, seconds_now() + TIMEOUT);
    char address[NI_MAXHOST];
    assert_int_equal(mesh_local_address(fd, address, sizeof address), 0);
    assert_string_equal(address, "127.0.0.1");
    assert_int_equal(mesh_local_address(accepted, address, sizeof address), 0);
    assert_string_equal(address, "127.0.0.1"); // and not ::ffff:127.0.0.1
    assert_int_equal(mesh_local_address(fd, address, 9), -1);
    close(accepted);
    close(fd);
    close(listener);
}

int main(int argc, char **argv)
{
    (void)argc; // without caches for each thread, the heap's size is exact
    static const char exact[] = "glibc.malloc.tcache_count=0";
    const char *tunables = getenv("GLIBC_TUNABLES");
    if ((tunables == NULL || strcmp(tunables, exact) != 0) && !setenv("GLIBC_TUNABLES", exact, 1))
        execv("/proc/self/exe", argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_a_rank_of_another_version_is_told_so),
        cmocka_unit_test(test_a_crowd_keeps_nobody_out),
        cmocka_unit_test(test_no_byte_is_sent_in_vain),
        cmocka_unit_test(test_a_group_leaves_nothing),
        cmocka_unit_test(test_waiting_costs_nothing),
        cmocka_unit_test(test_who_waits_drives),
        cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_local_address_is_numeric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
