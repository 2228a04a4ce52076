/*
 * Memory that ranks of one machine share: the same results as without it, no lost wake-ups, nothing
 * left behind, and no trust in what the other side has written there.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "extras/shared_memory/pipe.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

enum { MAX_COUNT = 3000001, NUM_TINY = 20000, TINY_SECONDS = 60 };

static void join(Rank *rank, ProcessGroup *pg, bool shared)
{
    setenv("DDP_SHM_DISABLE", shared ? "0" : "1", 1);
    rank_join(rank, pg);
}

/* Returns the connection to a rank; the backend's state begins with the mesh. */
static Peer *peer_of(const ProcessGroup *pg, int rank)
{
    return &((Mesh *)pg->state)->peer[rank];
}

static void some_cases_body(Rank *rank)
{
    ProcessGroup pg;
    const bool *shares = rank->context;
    join(rank, &pg, shares[rank->rank]);
    for (int peer = 0; peer < pg.world_size; peer++)
        CHECK((peer_of(&pg, peer)->pipe != NULL) ==
                  (peer != pg.rank && shares[peer] && shares[pg.rank]),
              "with rank %d it is the wrong way round", peer);
    collective_cases_run(&pg);
    process_group_destroy(&pg);
}

/* Without shared memory; tests/common/comm/test_collectives.c tests with it. */
static void test_ranks_do_without(void **state)
{
    (void)state;
    static bool nobody[3] = { false, false, false }, some[3] = { true, false, true };
    ranks_run_well(3, some_cases_body, nobody);
    ranks_run_well(3, some_cases_body, some);
}

/* Fills in numbers of very different sizes, so that every order of additions rounds differently. */
static void fill(float *array, size_t count, int rank)
{
    Rng rng;
    rng_seed(&rng, (uint64_t)rank);
    for (size_t i = 0; i < count; i++)
        array[i] = rng_uniform_between(&rng, -1, 1) * (float)(1 << rng_next(&rng) % 20);
}

static void same_bits_body(Rank *rank)
{
    static const size_t counts[] = { 1, 7, 255, 8191, 8193, 65537, 262143, MAX_COUNT };
    float *array[2] = { mem_calloc(MAX_COUNT, sizeof(float)),
                        mem_calloc(MAX_COUNT, sizeof(float)) };
    ProcessGroup pg[2];
    for (int shared = 0; shared < 2; shared++)
        join(rank, &pg[shared], shared);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (int shared = 0; shared < 2; shared++) {
            fill(array[shared], counts[i], rank->rank);
            all_reduce(&pg[shared], array[shared], counts[i], FLOAT32, REDUCE_SUM);
            reduce(&pg[shared], array[shared], counts[i], FLOAT32, REDUCE_MEAN, 0);
            broadcast(&pg[shared], array[shared], counts[i], FLOAT32, 0);
            // Unaligned bytes, and not a multiple of a cache line.
            all_reduce(&pg[shared], (char *)array[shared] + 1, counts[i] * 3, UINT8, REDUCE_SUM);
        }
        CHECK(memcmp(array[0], array[1], counts[i] * sizeof(float)) == 0,
              "%zu numbers differ with shared memory", counts[i]);
    }
    for (int shared = 0; shared < 2; shared++) {
        process_group_destroy(&pg[shared]);
        free(array[shared]);
    }
}

static void test_both_ways_give_the_same_bits(void **state)
{
    (void)state;
    for (int world_size = 2; world_size <= 4; world_size++)
        ranks_run_well(world_size, same_bits_body, NULL);
}

/* Ranks fall asleep, wake up and overtake each other at every possible moment. On busy cores each
 * message may wait for a core; the loop then stops early, after enough messages. */
static void tiny_body(Rank *rank)
{
    ProcessGroup pg;
    Rng rng;
    rng_seed(&rng, (uint64_t)rank->rank);
    join(rank, &pg, true);
    const double end = seconds_now() + TINY_SECONDS;
    for (int i = 0; i < NUM_TINY; i++) {
        const uint32_t chance = rng_next(&rng) % 1000;
        if (chance < 20)
            usleep(10 * chance);
        const int root = i % pg.world_size;
        const bool is_last = seconds_now() > end;
        int64_t sum = i + pg.rank, value = pg.rank != root ? 0 : is_last ? -i : i;
        all_reduce(&pg, &sum, 1, INT64, REDUCE_MAX);
        CHECK(sum == i + pg.world_size - 1, "a wrong maximum in round %d", i);
        if (i % 3 == 0)
            broadcast(&pg, &value, 1, INT64, root);
        CHECK(i % 3 > 0 || llabs(value) == i, "a wrong broadcast in round %d", i);
        if (i % 3 == 0 && value < 0)
            break;
    }
    process_group_destroy(&pg);
}

static void test_no_message_is_slept_through(void **state)
{
    (void)state;
    ranks_run_well(2, tiny_body, NULL); // ranks that busy-wait, on two cores
    ranks_run_well(3, tiny_body, NULL); // ranks that sleep
}

/* Counts this process's descriptors of target, or its mappings of files with that name. */
static int num_descriptors(const char *target)
{
    int found = 0;
    DIR *entries = opendir("/proc/self/fd");
    CHECK(entries != NULL, "no /proc/self/fd");
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char link[256] = "";
        if (readlinkat(dirfd(entries), entry->d_name, link, sizeof link - 1) > 0)
            found += strstr(link, target) != NULL;
    }
    closedir(entries);
    return found;
}

static int num_mappings(const char *name)
{
    int found = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no /proc/self/maps");
    while (fgets(line, sizeof line, maps) != NULL)
        found += strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

static void leaving_body(Rank *rank)
{
    const int before = num_descriptors("");
    for (int shared = 0; shared < 2; shared++) {
        ProcessGroup pg;
        join(rank, &pg, shared);
        process_group_destroy(&pg);
        CHECK(num_descriptors("") == before, "%d descriptors instead of %d", num_descriptors(""),
              before);
        CHECK(num_mappings("/memfd:") == 0, "the memory is still there");
    }
}

static void test_who_leaves_takes_everything_along(void **state)
{
    (void)state;
    ranks_run_well(3, leaving_body, NULL);
}

static void killed_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg, true);
    CHECK(peer_of(&pg, 1 - rank->rank)->pipe != NULL, "no shared memory");
    CHECK(num_descriptors("memfd:") == 0, "a descriptor of the memory is left");
    CHECK(num_mappings("/memfd:") > 0, "the memory is not where this test looks for it");
    CHECK(num_mappings("/dev/shm/") == 0,
          "the memory has a name, which a killed rank leaves behind");
    float *array = mem_calloc(MAX_COUNT, sizeof *array);
    barrier(&pg);
    if (rank->rank == 1) {
        usleep(50 * 1000); // rank 0 has filled the pipe, and sleeps
        raise(SIGKILL);
    }
    all_reduce(&pg, array, MAX_COUNT, FLOAT32, REDUCE_SUM);
}

static void test_a_killed_rank_leaves_nothing(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, killed_body, NULL, end);
    assert_int_equal(end[1].status, 128 + SIGKILL);
    expect_error_at_once(end, 0, "rank 1 is gone");
}

/* Corrupts what rank 1 writes to the memory that it shares with rank 0. */
static void spoil_written(PipeEnd *end)
{
    atomic_store(&end->written, UINT64_C(1) << 40);
}

static void spoil_read(PipeEnd *end)
{
    atomic_store(&end->read, UINT64_MAX / 2);
}

static void spoil_a_little(PipeEnd *end)
{
    atomic_fetch_add(&end->written, 1);
}

static void spoil_taken(PipeEnd *end)
{
    atomic_store(&end->taken, UINT64_C(1) << 40);
}

static void spoiled_body(Rank *rank)
{
    void (**spoil)(PipeEnd * end) = rank->context;
    static float array[MAX_COUNT]; // longer than a ring, so that `read` is used
    ProcessGroup pg;
    char yes = 0;
    join(rank, &pg, true);
    barrier(&pg);
    if (rank->rank == 1) {
        (*spoil)(peer_of(&pg, 0)->pipe->own);
        store_set(&rank->store, "spoilt", "", 0);
        raise(SIGSTOP);
    }
    store_get(&rank->store, "spoilt", &yes, sizeof yes);
    for (int i = 0; *spoil == spoil_taken && i <= NUM_SLOTS; i++) // `taken` is used then
        pg_send(&pg, array, 1, FLOAT32, 1);
    all_reduce(&pg, array, MAX_COUNT, FLOAT32, REDUCE_SUM);
}

static void test_damaged_memory_ends_with_a_line(void **state)
{
    (void)state;
    static void (*const spoils[])(PipeEnd * end) = { spoil_written, spoil_read, spoil_a_little,
                                                     spoil_taken };
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, spoiled_body, (void *)&spoils[i], end);
        expect_error(end, 0, "the memory of ranks 0 and 1 is damaged");
        const char *line = strstr(end[0].errors, "fatal: "); // after the line of a run's start
        assert_non_null(line);
        assert_ptr_equal(strchr(line, '\n'), strrchr(line, '\n'));
    }
}

/* Sends a message of 96 + `bytes`, the first of its bytes counting, in parts until the pipe is
 * full. Returns true if all of it is sent. */
static bool send_message(Pipe *pipe, const char *payload, size_t bytes, size_t *done)
{
    char header[96] = "header";
    for (ssize_t count = 1; *done < sizeof header + bytes; *done += (size_t)count) {
        const size_t header_rest = *done == 0 ? sizeof header : 0;
        const size_t payload_done = *done == 0 ? 0 : *done - sizeof header;
        count = pipe_send(
            pipe, (struct iovec[]){ { header, header_rest },
                                    { (char *)payload + payload_done, bytes - payload_done } });
        if (count < 0) {
            assert_int_equal(errno, EAGAIN);
            return false;
        }
    }
    return true;
}

/* Receives and compares one part of a message. */
static void receive_part(Pipe *pipe, const char *payload, size_t bytes, size_t *done)
{
    char header[96];
    const size_t header_rest = *done == 0 ? sizeof header : 0;
    const size_t payload_done = *done == 0 ? 0 : *done - sizeof header;
    struct iovec part[] = { { header, header_rest }, { NULL, bytes - payload_done } };
    const ssize_t count = pipe_receive(pipe, part);
    assert_true(count >= 0);
    *done += (size_t)count;
    assert_memory_equal(part[1].iov_base, payload + payload_done, (size_t)count - header_rest);
    pipe_release(pipe);
}

static void fill_payload(char *payload, int bytes)
{
    for (int i = 0; i < bytes; i++)
        payload[i] = (char)(i * 7 + i / 251);
}

/* Returns one side's view of this memory. */
static Pipe pipe_on(PipeMemory *memory, int side, int bell)
{
    return (Pipe){
        .memory = memory, .own = &memory->end[side], .theirs = &memory->end[!side], .bell = bell
    };
}

/* However far the reader lags behind, and for all sizes, what is written fits into the ring, though
 * ends of messages are rounded up. */
static void test_a_full_ring_is_never_overrun(void **state)
{
    (void)state;
    enum { LONG = 200 * 1024 };
    static char payload[LONG];
    fill_payload(payload, LONG);
    int bell[2];
    SYS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, bell));
    PipeMemory *memory = mem_calloc(1, sizeof *memory);
    for (size_t size = 304; size < 4096; size += 4) {
        memset(memory, 0, offsetof(PipeEnd, ring));
        memset(&memory->end[1], 0, offsetof(PipeEnd, ring));
        Pipe writer = pipe_on(memory, 0, bell[0]), reader = pipe_on(memory, 1, bell[1]);
        writer.far = size % 8 == 0 ? 4 : -4; // past the caches, or through them
        size_t sent = 0, received = 0;
        assert_true(send_message(&writer, payload, LONG, &sent));
        receive_part(&reader, payload, LONG, &received); // and then it lags behind
        int num_sent = -1, num_received = 0;
        do {
            sent = 0;
            num_sent++;
        } while (send_message(&writer, payload, size, &sent));
        assert_true(writer.written - memory->end[1].read <= PIPE_BYTES);
        while (received < 96 + LONG)
            receive_part(&reader, payload, LONG, &received);
        for (; num_received < num_sent; num_received++)
            for (received = 0; received < 96 + size;)
                receive_part(&reader, payload, size, &received);
    }
    free(memory);
    close(bell[0]);
    close(bell[1]);
}

static bool has_slow_clock;

double __real_seconds_now(void), __wrap_seconds_now(void);

/* Takes a microsecond, as where the kernel must be asked for the time. */
double __wrap_seconds_now(void)
{
    const double begin = __real_seconds_now();
    double now = begin;
    while (has_slow_clock && now < begin + 1e-6)
        now = __real_seconds_now();
    return now;
}

/* The other rank does not even look. */
static void test_a_slow_clock_moves_no_rank_away(void **state)
{
    (void)state;
    static PipeMemory memory;
    Pipe pipe = pipe_on(&memory, 0, -1);
    has_slow_clock = true;
    for (int i = 0; i < 8 * 1000; i++)
        pipe_publish(&pipe, PIPE_BYTES);
    has_slow_clock = false;
    assert_true(pipe.far < 0);
}

/* Whatever the sizes of messages, as many are sent as there are slots, each comes as it was sent,
 * also among long ones, and a writer that waits for a slot is woken. */
static void test_slots_keep_messages_apart(void **state)
{
    (void)state;
    enum { LONG = 500 };
    static char payload[LONG];
    fill_payload(payload, LONG);
    int bell[2];
    char byte;
    SYS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, bell));
    PipeMemory *memory = mem_calloc(1, sizeof *memory);
    Pipe writer = pipe_on(memory, 0, bell[0]), reader = pipe_on(memory, 1, bell[1]);
    for (size_t size = 0; size <= SLOT_BYTES - 96; size++) {
        size_t sent, received = 0;
        for (int i = 0; i < NUM_SLOTS; i++) {
            sent = 0;
            assert_true(send_message(&writer, payload + i, size, &sent));
        }
        sent = 0;
        assert_true(send_message(&writer, payload, LONG, &sent));
        sent = 0;
        assert_false(send_message(&writer, payload, size, &sent));
        assert_true(pipe_sleep(&writer, POLLOUT));
        for (int i = 0; i < NUM_SLOTS; i++, received = 0)
            receive_part(&reader, payload + i, size, &received);
        assert_int_equal(recv(bell[0], &byte, 1, MSG_DONTWAIT), 1);
        while (received < 96 + LONG)
            receive_part(&reader, payload, LONG, &received);
        assert_true(send_message(&writer, payload, size, &sent));
        received = 0;
        receive_part(&reader, payload, size, &received);
        assert_true(pipe_sleep(&reader, POLLIN)); // nothing more has come
        assert_true(pipe_wake(&reader, POLLIN));
    }
    free(memory);
    close(bell[0]);
    close(bell[1]);
}

/* One rank's message fits into a slot, the other's does not. */
static void different_body(Rank *rank)
{
    static float array[1000];
    ProcessGroup pg;
    join(rank, &pg, true);
    all_reduce(&pg, array, rank->rank == 0 ? 10 : 1000, FLOAT32, REDUCE_SUM);
}

static void test_a_short_call_beside_a_long_one_is_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, different_body, NULL, end);
    for (int rank = 0; rank < 2; rank++) {
        expect_error(end, rank, "all_reduce #0 of 10 float32 (sum)");
        expect_error(end, rank, "all_reduce #0 of 1000 float32 (sum)");
    }
}

/* The structure that sched_getattr(2) fills in. */
typedef struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice, deadline, period;
} Scheduling;

static Scheduling own_scheduling(void)
{
    Scheduling own = { 0 };
    SYS_CHECK(syscall(SYS_sched_getattr, 0, &own, sizeof own, 0));
    return own;
}

/* The calling thread's slice, for a rank with a core of its own and for one without. */
static void scheduled_body(Rank *rank)
{
    const bool *has_core = rank->context;
    SYS_CHECK(setpriority(PRIO_PROCESS, 0, 3));
    setenv("LOCAL_WORLD_SIZE", *has_core ? "1" : "1000000", 1);
    const uint64_t before = own_scheduling().slice; // 0 before Linux 6.12
    ProcessGroup pg;
    join(rank, &pg, true);
    const Scheduling own = own_scheduling();
    CHECK(own.nice == 3, "nice was 3, and is %d", own.nice);
    CHECK(before == 0 || (own.slice < before) == !*has_core, "a slice of %ju ns, and %ju before",
          (uintmax_t)own.slice, (uintmax_t)before);
    process_group_destroy(&pg);
}

static void test_a_caller_without_a_core_has_a_short_slice(void **state)
{
    (void)state;
    static bool has_core[2] = { false, true };
    ranks_run_well(2, scheduled_body, &has_core[0]);
    ranks_run_well(2, scheduled_body, &has_core[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_do_without),
        cmocka_unit_test(test_both_ways_give_the_same_bits),
        cmocka_unit_test(test_no_message_is_slept_through),
        cmocka_unit_test(test_who_leaves_takes_everything_along),
        cmocka_unit_test(test_a_killed_rank_leaves_nothing),
        cmocka_unit_test(test_damaged_memory_ends_with_a_line),
        cmocka_unit_test(test_a_full_ring_is_never_overrun),
        cmocka_unit_test(test_a_slow_clock_moves_no_rank_away),
        cmocka_unit_test(test_slots_keep_messages_apart),
        cmocka_unit_test(test_a_short_call_beside_a_long_one_is_named),
        cmocka_unit_test(test_a_caller_without_a_core_has_a_short_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
