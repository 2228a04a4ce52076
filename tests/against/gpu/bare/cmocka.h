/* cmocka.h - the few parts of cmocka that the tests of a device use, for GPU machines without
 * cmocka: a failed check ends its test by a jump, and the output is TAP. */
#ifndef TESTS_AGAINST_GPU_BARE_CMOCKA_H
#define TESTS_AGAINST_GPU_BARE_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*body)(void **state);
    int (*setup)(void **state);
    int (*teardown)(void **state);
};

#define cmocka_unit_test_setup_teardown(test, setup, teardown) \
    { \
#test, test, setup, teardown \
    }
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)
#define cmocka_unit_test_setup(test, setup) cmocka_unit_test_setup_teardown(test, setup, NULL)
#define cmocka_unit_test_teardown(test, teardown) \
    cmocka_unit_test_setup_teardown(test, NULL, teardown)

static jmp_buf cmocka_failed;

#define fail_msg(...) \
    do { \
        printf("# %s:%d: ", __FILE__, __LINE__); \
        printf(__VA_ARGS__); \
        printf("\n"); \
        longjmp(cmocka_failed, 1); \
    } while (0)
#define assert_true(condition) \
    do { \
        if (!(condition)) \
            fail_msg("%s", #condition); \
    } while (0)
#define assert_false(condition) assert_true(!(condition))
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_int_equal(a, b) \
    do { \
        const intmax_t left = (intmax_t)(a), right = (intmax_t)(b); \
        if (left != right) \
            fail_msg("%s is %jd, and %s %jd", #a, left, #b, right); \
    } while (0)
#define assert_int_not_equal(a, b) assert_true((intmax_t)(a) != (intmax_t)(b))
#define assert_in_range(value, low, high) \
    assert_true((intmax_t)(value) >= (intmax_t)(low) && (intmax_t)(value) <= (intmax_t)(high))
#define assert_memory_equal(a, b, size) assert_true(memcmp(a, b, size) == 0)
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)

static inline int cmocka_run(const struct CMUnitTest *tests, int count, int (*setup)(void **),
                             int (*teardown)(void **))
{
    void *state = NULL;
    volatile int failures = 0;
    printf("1..%d\n", count);
    if (setup != NULL)
        setup(&state);
    for (volatile int i = 0; i < count; i++) {
        if (setjmp(cmocka_failed) == 0) {
            if (tests[i].setup != NULL)
                tests[i].setup(&state);
            tests[i].body(&state);
            printf("ok %d %s\n", i + 1, tests[i].name);
        } else {
            failures++;
            printf("not ok %d %s\n", i + 1, tests[i].name);
        }
        if (tests[i].teardown != NULL)
            tests[i].teardown(&state);
        fflush(stdout);
    }
    if (teardown != NULL)
        teardown(&state);
    return failures;
}

#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run(tests, (int)(sizeof(tests) / sizeof((tests)[0])), setup, teardown)

#endif
