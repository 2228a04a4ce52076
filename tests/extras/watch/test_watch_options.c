/* The options of extras/watch: every step has them, and --help lists them. */
#include "tests/common/base/args_child.h"

static void parse(const void *line)
{
    char *argv[8] = { "train" }, *rest = strdup(line);
    int argc = 1;
    while ((argv[argc] = strsep(&rest, " ")) != NULL)
        argc++;
    Args args;
    args_parse(&args, STEP_SINGLE, argc, argv);
    printf("trace %s, profile %s\n", or_null(args.trace), or_null(args.profile));
}

static void test_values(void **state)
{
    (void)state;
    assert_int_equal(child_run(parse, "--trace t.json --profile p.txt"), 0);
    assert_has(out, "trace t.json, profile p.txt\n");
    assert_int_equal(child_run(parse, "--trace off --epochs 1"), 0);
    assert_has(out, "trace (null), profile (null)\n");
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
