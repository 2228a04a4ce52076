/* The watchdog of library calls: a call that ends in time, one that does not, and no watchdog. */
#include <dlfcn.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "common/base/log.h"
#include "common/comm/library_calls.h"
#include "tests/helpers/child.h"

static int num_joined; // threads that have been waited for

/* In place of libc's. */
int pthread_join(pthread_t thread, void **result)
{
    int (*next)(pthread_t, void **) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_join");
    num_joined++;
    return next(thread, result);
}

static const char *missing = ""; // which of the next two fails

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return strcmp(missing, "thread") == 0 ? EAGAIN : next(thread, attributes, body, argument);
}

int eventfd(unsigned value, int flags)
{
    int (*next)(unsigned, int) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "eventfd");
    return strcmp(missing, "descriptor") == 0 ? (errno = EMFILE, -1) : next(value, flags);
}

int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "ppoll");
    CHECK(count == 1, "it waits for %d descriptors", (int)count);
    return next(polled, count, time, mask);
}

/* Stops the watchdog in time, or too late. */
static void keep_waiting(const void *context)
{
    const double *seconds = context;
    Watchdog watchdog;
    const int next = dup(STDOUT_FILENO); // the first free descriptor
    close(next);
    watchdog_start(&watchdog, seconds[0], "the call", "start the others");
    usleep((useconds_t)(seconds[1] * 1e6));
    watchdog_stop(&watchdog);
    assert_int_equal(num_joined, 1);
    assert_int_equal(dup(STDOUT_FILENO), next);
}

static void test_watchdog(void **state)
{
    (void)state;
    assert_int_equal(child_run(keep_waiting, (double[]){ 1000, 0 }), 0);
    assert_int_equal(child_run(keep_waiting, (double[]){ 1000, 0.01 }), 0);
    assert_string_equal(err, "");
    assert_int_equal(child_run(keep_waiting, (double[]){ 0.05, 300 }), 1);
    assert_non_null(strstr(err, "the call did not end within 0.05 s: start the others\n"));
}

static void start_without(const void *what)
{
    Watchdog watchdog;
    missing = what;
    watchdog_start(&watchdog, 1000, "the call", "start the others");
}

static void test_no_watchdog(void **state)
{
    (void)state;
    assert_dies_saying(start_without, "descriptor", 1, "Too many open files");
    assert_dies_saying(start_without, "thread", 1, "cannot start a thread that watches the time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_no_watchdog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
