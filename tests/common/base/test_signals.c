/* Names of signals, threads that receive none, and the clock that stands still while the process is
 * stopped: the real one, and one that is set by hand. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "tests/helpers/child.h"

// A clock that is set by hand and is LAG behind at its ticks, as the kernel's coarse one; or NAN.
#define LAG 0.125
static double by_hand = NAN;
static int locks_held, looks; // mutexes, and calls of ppoll
static double asked[8]; // seconds that each was asked to wait

/* In place of libc's. */
int clock_gettime(clockid_t id, struct timespec *time)
{
    if (isnan(by_hand))
        return (int)syscall(SYS_clock_gettime, id, time);
    CHECK(locks_held == (id == CLOCK_MONOTONIC), "%d locks for clock %d", locks_held, (int)id);
    const double now = by_hand - (id == CLOCK_MONOTONIC ? 0 : LAG);
    *time = (struct timespec){ (time_t)now, (long)(1e9 * fmod(now, 1)) };
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    (void)mutex;
    locks_held++;
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    (void)mutex;
    locks_held--;
    return 0;
}

int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    if (isnan(by_hand))
        return (int)syscall(SYS_ppoll, polled, count, time, mask, (size_t)8);
    CHECK(looks < 8, "too many looks");
    asked[looks] = (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
    by_hand += asked[looks++] + 1e-6; // never wakes early
    return polled != NULL && looks == 3 ? 1 : 0; // the third finds something
}

static void expect(double seconds, double expected, const char *what)
{
    CHECK(fabs(seconds - expected) < 1e-5, "%s: %g, not %g", what, seconds, expected);
}

/* A second between two readings counts, more than a second counts as the time of a look. */
static void read_by_hand(const void *context)
{
    const double begin = *(const double *)context;
    by_hand = begin;
    expect(seconds_awake(), begin, "first"); // whenever that is
    by_hand = begin + 1.25;
    expect(seconds_awake(), begin + AWAKE_LOOK_SECONDS, "stopped");
    double away = 1.25 - AWAKE_LOOK_SECONDS;
    by_hand = begin + 2.25;
    expect(seconds_awake(), by_hand - away, "a second later");
    by_hand = begin + 3.25;
    expect(seconds_awake(), by_hand - away, "goes on");
    by_hand = begin + 3.25 + LAG + 0.375;
    expect(seconds_awake_at_tick(), by_hand - LAG - away, "at a tick");
    by_hand = begin + 3.25 + LAG + 0.5; // half a second counts as long: that looks at the clock
    expect(seconds_awake_at_tick(), by_hand - away, "after half a second");
    by_hand += 10;
    away += 10 - AWAKE_LOOK_SECONDS;
    expect(seconds_awake_at_tick(), by_hand - away, "stopped before a tick");
}

static void test_clock_by_hand(void **state)
{
    (void)state;
    static const double begins[] = { 0.75, 1, 5000.25 }; // just after the machine's start, and long
    for (size_t i = 0; i < LENGTH(begins); i++)
        if (child_run(read_by_hand, &begins[i]) != 0)
            fail_msg("%s", err);
}

/* A wait of so many seconds, and how long each of its looks may wait. */
typedef struct {
    double seconds;
    bool finds; // something is ready at the third look
    int looks;
    double asked[4];
} Wait;

static void wait_by_hand(const void *context)
{
    const Wait *wait = context;
    struct pollfd polled = { .fd = -1 };
    by_hand = 100;
    const int ready = poll_awake(wait->finds ? &polled : NULL, wait->finds, wait->seconds);
    CHECK(ready == wait->finds && looks == wait->looks, "%d ready after %d", ready, looks);
    for (int i = 0; i < looks; i++)
        expect(asked[i], wait->asked[i], "asked to wait");
}

static void test_waits_by_hand(void **state)
{
    (void)state;
    static const Wait waits[] = {
        { 0, false, 1, { 0 } },
        { -1, false, 1, { 0 } },
        { 0.05, false, 2, { 0.05, 0 } },
        { 0.5, false, 4, { 0.2, 0.2, 0.1, 0 } },
        { 0.5, true, 3, { 0.2, 0.2, 0.1 } },
        { INFINITY, true, 3, { 0.2, 0.2, 0.2 } },
    };
    for (size_t i = 0; i < LENGTH(waits); i++)
        if (child_run(wait_by_hand, &waits[i]) != 0)
            fail_msg("wait %zu: %s", i, err);
}

/* A thread gets no signals: those are for the thread that started it, whose mask stays. */
static void *blocked_signals(void *mask)
{
    pthread_sigmask(SIG_BLOCK, NULL, mask);
    return mask;
}

static void test_threads_block_signals(void **state)
{
    (void)state;
    pthread_t thread;
    sigset_t before, after, inside;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(thread_start(&thread, blocked_signals, &inside), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD };
    for (size_t i = 0; i < LENGTH(signals); i++) {
        assert_true(sigismember(&inside, signals[i]));
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
}

/* The numbers are from POSIX (kill -l), where it defines them. */
static void test_signal_names(void **state)
{
    (void)state;
    assert_string_equal(signal_name(1), "SIGHUP");
    assert_string_equal(signal_name(2), "SIGINT");
    assert_string_equal(signal_name(6), "SIGABRT");
    assert_string_equal(signal_name(9), "SIGKILL");
    assert_string_equal(signal_name(14), "SIGALRM");
    assert_string_equal(signal_name(15), "SIGTERM");
    assert_string_equal(signal_name(0), "signal 0");
    assert_string_equal(signal_name(-1), "signal -1");
    assert_string_equal(signal_name(40), "signal 40");
    assert_string_equal(signal_name(1000), "signal 1000");
}

#define STOP_SECONDS 2.0
#define WAIT_SECONDS 1.5

static void wait_asleep(void)
{
    poll_awake(NULL, 0, WAIT_SECONDS);
}

static void wait_busy(void)
{
    for (const double end = seconds_awake() + WAIT_SECONDS; seconds_awake() < end;)
        sched_yield();
}

static void wait_by_ticks(void)
{
    const double end = seconds_awake_at_tick() + WAIT_SECONDS;
    while (seconds_awake_at_tick() < end)
        sched_yield();
}

static void wait_and_report(void (*wait)(void), int ready, int report)
{
    const double begun = seconds_now();
    write_all(ready, "", 1);
    alarm(120);
    wait();
    const double seconds = seconds_now() - begun;
    write_all(report, &seconds, sizeof seconds);
    _exit(0);
}

/* Time spent stopped does not count: the wait lasts its own time plus the stop. */
static void test_stopped_waits(void **state)
{
    (void)state;
    void (*const waits[])(void) = { wait_asleep, wait_busy, wait_by_ticks };
    pid_t child[LENGTH(waits)];
    int report[LENGTH(waits)][2], ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    for (size_t i = 0; i < LENGTH(waits); i++) {
        assert_int_equal(pipe(report[i]), 0);
        child[i] = fork();
        if (child[i] == 0)
            wait_and_report(waits[i], ready[1], report[i][1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
    }
    usleep(300 * 1000); // they wait by now; a child that does not yet wait misses the stop
    for (size_t i = 0; i < LENGTH(waits); i++)
        kill(child[i], SIGSTOP);
    usleep((useconds_t)(1e6 * STOP_SECONDS));
    for (size_t i = 0; i < LENGTH(waits); i++)
        kill(child[i], SIGCONT);
    for (size_t i = 0; i < LENGTH(waits); i++) {
        double seconds = 0;
        assert_int_equal(read(report[i][0], &seconds, sizeof seconds), sizeof seconds);
        assert_true(seconds > WAIT_SECONDS + STOP_SECONDS - 0.5);
        waitpid(child[i], NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_by_hand),         cmocka_unit_test(test_waits_by_hand),
        cmocka_unit_test(test_threads_block_signals), cmocka_unit_test(test_signal_names),
        cmocka_unit_test(test_stopped_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
