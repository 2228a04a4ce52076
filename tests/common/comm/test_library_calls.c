/* The watchdog of library calls: a call that ends in time, and one that does not. */
#include <dlfcn.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watchdog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
