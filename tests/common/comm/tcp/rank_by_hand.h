/* rank_by_hand.h - for tests of tcp_watch.c and tcp_exchange.c: one rank of four on a clock that
 * only the test moves, with the others' ends of all connections in the test's hands. */
#ifndef TESTS_COMMON_COMM_TCP_RANK_BY_HAND_H
#define TESTS_COMMON_COMM_TCP_RANK_BY_HAND_H

#include <math.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"

enum { N = 4, OWN = 1 }; // ranks, and which of them waits
#define TIMEOUT 100.0

static Mesh *mesh;
static ProcessGroup pg;
static Collective call;
static int notices[N], data[N]; // what the others have: their ends
static bool data_first; // rank 0's data, not its notices, has descriptor 0
static int num_failed; // calls that observers were told have failed

/* ---- in place of the program's own (tests/rules.mk) ---- */

static double clock_now, clock_step; // the time, and what reading it takes
static int num_reads; // of the clock
static int num_polls, num_polled; // calls, and descriptors of the latest
static double slept; // what the longest was to take
static int num_yields, num_reports, reported, num_queries, queried;
static bool has_answer, may_poll; // what on_demand_query and pipes_sleep return
static int gone; // what pipes_wake returns
static ssize_t most; // bytes that a call of send takes
static char said[1024]; // the latest line of the log
static const void *late; // what another rank sends as soon as this one sleeps; or NULL
static size_t late_bytes;
static int late_to; // its end of the connection

double __wrap_seconds_awake(void), __wrap_seconds_now(void), __wrap_seconds_awake_at_tick(void);
int __wrap_poll_awake(struct pollfd *polled, nfds_t count, double seconds);
int __wrap_sched_yield(void);
void __wrap_group_extras_waits_for(const Mesh *m, int rank);
bool __wrap_on_demand_query(Mesh *m, int waits_for);
void __wrap_on_demand_receive(Mesh *m, const Notice *notice);
bool __wrap_pipes_sleep(Mesh *m, const int peer[2], struct pollfd watched[2]);
int __wrap_pipes_wake(Mesh *m, const int peer[2]);
void __wrap_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

double __wrap_seconds_awake(void)
{
    if (++num_reads > 10000)
        _exit(99); // it looks at the clock again and again
    return clock_now += clock_step;
}

double __wrap_seconds_now(void)
{
    return clock_now;
}

double __wrap_seconds_awake_at_tick(void)
{
    return clock_now;
}

int __wrap_poll_awake(struct pollfd *polled, nfds_t count, double seconds)
{
    num_polls++;
    if (late != NULL) // comes now
        assert_int_equal(write(late_to, late, late_bytes), late_bytes);
    late = NULL;
    num_polled = (int)count;
    slept = fmax(slept, seconds);
    const int ready = poll(polled, count, 0);
    clock_now += ready > 0 ? 0 : fmax(0, seconds);
    return ready;
}

int __wrap_sched_yield(void)
{
    return num_yields++, 0;
}

void __wrap_group_extras_waits_for(const Mesh *m, int rank)
{
    assert_ptr_equal(m, mesh);
    reported = rank;
    num_reports++;
}

bool __wrap_on_demand_query(Mesh *m, int waits_for)
{
    assert_ptr_equal(m, mesh);
    queried = waits_for;
    num_queries++;
    return has_answer;
}

static int num_received; // notices that extras/on_demand was given

void __wrap_on_demand_receive(Mesh *m, const Notice *notice)
{
    assert_true(m == mesh && notice->waits_for == NOBODY);
    num_received++;
}

bool __wrap_pipes_sleep(Mesh *m, const int peer[2], struct pollfd watched[2])
{
    assert_true(m == mesh && peer != NULL && watched == mesh->watched + N);
    return may_poll;
}

int __wrap_pipes_wake(Mesh *m, const int peer[2])
{
    assert_true(m == mesh && peer != NULL);
    return gone;
}

void __wrap_log_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    if (mesh->survivor == NULL) // in a process of its own
        fprintf(stderr, "%s\n", said);
}

ssize_t send(int fd, const void *bytes, size_t count, int flags) // the C library's
{
    assert_int_equal(flags & MSG_DONTWAIT, MSG_DONTWAIT);
    return sendto(fd, bytes, most < (ssize_t)count ? (size_t)most : count, flags, NULL, 0);
}

/* ---- a rank by hand ---- */

static inline void count_failure(void *context, const Collective *collective, CollectiveState state)
{
    (void)context;
    num_failed += state == COLLECTIVE_FAILED && collective == &call;
}

static inline int set_up(void **state)
{
    (void)state;
    static Observer observer = { .see = count_failure };
    clock_now = 1000;
    clock_step = num_reads = num_polls = num_yields = num_reports = num_queries = num_received = 0;
    num_failed = 0;
    late = NULL;
    slept = 0, has_answer = false, may_poll = true, gone = NOBODY, most = sizeof(Notice);
    pg = (ProcessGroup){ .rank = OWN, .world_size = N, .missing = -2, .survivor = &pg };
    pg.calls.observers = &observer;
    pg.calls.error_suffix = "";
    mesh = mem_calloc(1, sizeof *mesh);
    close(STDIN_FILENO); // the first connection gets its number
    *mesh = (Mesh){ .rank = OWN, .world_size = N, .timeout = TIMEOUT, .survivor = &pg };
    mesh->peer = mem_calloc(N, sizeof *mesh->peer);
    mesh->watched = mem_calloc(N + 2, sizeof *mesh->watched);
    memset(mesh->recent, 0xff, sizeof mesh->recent);
    for (int rank = 0; rank < N; rank++) {
        int pair[2][2] = { { -1, -1 }, { -1, -1 } }, *notice_pair = pair[data_first],
            *data_pair = pair[!data_first];
        for (int i = 0; rank != OWN && i < 2; i++)
            SYS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]));
        notices[rank] = notice_pair[1], data[rank] = data_pair[1];
        mesh->peer[rank] = (Peer){ data_pair[0], notice_pair[0], .reported_at = -1e9 };
        mesh->watched[rank] = (struct pollfd){ notice_pair[0], POLLIN | POLLRDHUP, 0 };
    }
    call =
        (Collective){ .pg = &pg, .kind = ALL_REDUCE, .type = FLOAT32, .sequence = 7, .count = 5 };
    mesh_begin(mesh, &call);
    num_polls = 0;
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (int rank = 0; rank < N; rank++)
        if (rank != OWN) {
            close(notices[rank]), close(data[rank]);
            close(mesh->peer[rank].notices), close(mesh->peer[rank].data);
        }
    free(mesh->peer);
    free(mesh->watched);
    free(mesh);
    return 0;
}

static inline void tell(int rank, NoticeKind kind, int waits_for, const CollectiveId *id)
{
    const Notice notice = { .kind = (int32_t)kind, .waits_for = waits_for, .call = *id };
    assert_int_equal(write(notices[rank], &notice, sizeof notice), sizeof notice);
}

/* Reads the next notice that this rank was sent. Returns false if there is none. */
static inline bool told(int rank, Notice *notice)
{
    return recv(notices[rank], notice, sizeof *notice, MSG_DONTWAIT) == sizeof *notice;
}

static inline void expect_told(int rank, NoticeKind kind, int waits_for)
{
    Notice notice;
    assert_true(told(rank, &notice));
    assert_int_equal(notice.kind, kind);
    assert_int_equal(notice.waits_for, waits_for);
    assert_memory_equal(&notice.call, &mesh->call, sizeof notice.call);
}

static inline void expect_silence(void)
{
    Notice notice;
    for (int rank = 0; rank < N; rank++)
        assert_true(rank == OWN || !told(rank, &notice));
}

/* Returns true if the wait has ended the group. */
static inline bool ends(int to, int from)
{
    slept = 0;
    if (setjmp(mesh->unwind) != 0)
        return true;
    mesh_wait(mesh, to, from);
    return false;
}

/* Expects that all others were told that the group ends, why, and which rank is missing. */
static inline void expect_end(int missing, const char *text)
{
    assert_true(pg.revoked && num_failed == 1);
    assert_int_equal(pg.missing, missing);
    assert_true(strncmp(said, text, strlen(text)) == 0);
    assert_string_equal(said + strlen(text), ": this rank leaves the group");
    for (int rank = 0; rank < N; rank++) {
        Notice notice = { .kind = NOTICE_WAITING };
        while (rank != OWN && notice.kind != NOTICE_ABORT)
            assert_true(told(rank, &notice));
        if (rank != OWN)
            assert_string_equal(notice.text, text);
        if (rank != OWN)
            assert_int_equal(notice.waits_for, missing);
    }
}

static inline void sleep_until_notice(int from)
{
    mesh->wait.next_notice_time = clock_now + 10;
    assert_false(ends(NOBODY, from));
}

#define BY_HAND(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
