/* The options of what watches a run: every step has them, and --help lists them. */
#include "extras/watch/recording.h"
#include "tests/common/base/args_child.h"

static void parse(const void *line)
{
    (void)run_command(&(Command){ STEP_SINGLE, "train", line });
    printf("trace %s, profile %s\n", or_null(watch_args.trace), or_null(watch_args.profile));
}

static void test_values(void **state)
{
    (void)state;
    assert_int_equal(child_run(parse, "--trace t.json --profile p.txt"), 0);
    assert_has(out, "\ntrace t.json, profile p.txt\n");
    assert_int_equal(child_run(parse, "--trace off --epochs 1"), 0);
    assert_has(out, "\ntrace (null), profile (null)\n");
}

static void test_steps(void **state)
{
    (void)state;
    for (Step step = STEP_SINGLE; step <= STEP_FAULT; step++) {
        assert_int_equal(run(step, "--help"), 0);
        assert_has(out, "\n  --trace FILE ");
        assert_has(out, "\n  --profile FILE ");
        assert_refused(run(step, "--trace="), "--trace must not be empty");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_values),
                                        cmocka_unit_test(test_steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
