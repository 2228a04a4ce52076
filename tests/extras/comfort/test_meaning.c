/* Values with a common meaning for all options: off, and a path in HOME. */
#include "tests/common/base/args_child.h"

static void test_meaning(void **state)
{
    (void)state;
    static const struct {
        Step step;
        const char *line, *first, *second;
    } cases[] = {
        // All words for off in YAML and Python, for options that can be off.
        { 1, "--metrics-dir no --max-steps null", "metrics_dir (null)",
          "max_steps 18446744073709551615" },
        { 1, "--init-from ~ --num-samples off", "init_from (null)", "num_samples 0" },
        { 1, "--dropout False --resume NONE", "dropout 0", "resume (null)" },
        { 1, "--global-batch-size null --init-from ./no", "global_batch_size 0", "init_from ./no" },
        { 5, "--resume no --inject false", "resume_auto 0", "resume (null)" },
        { 5, "--save-every-steps none --check-sync off", "save_every_steps 0", "check_sync 0" },
        // Paths in HOME that the shell has not expanded.
        { 1, "--checkpoint-dir=~/c --data-dir ~/d/e", "checkpoint_dir /a/home/c",
          "data_dir /a/home/d/e" },
        { 1, "--resume=~/c --metrics-dir=~m", "resume /a/home/c", "metrics_dir ~m" },
        { 5, "--inject=kill:1:2 --resume=~/", "inject kill:1:2", "resume /a/home/" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(run(cases[i].step, cases[i].line), 0);
        assert_string_equal(err, "");
        assert_value(cases[i].first);
        assert_value(cases[i].second);
    }
}

static void test_refused(void **state)
{
    (void)state;
    assert_refused(run(STEP_SINGLE, "--checkpoint-dir none"),
                   "--checkpoint-dir cannot be off: name a path, or leave it out (./none for");
    assert_refused(run(STEP_SINGLE, "--data-dir ~"), "--data-dir cannot be off");
    assert_refused(run(STEP_SINGLE, "--lr off"), "--lr must be a number from 0 to 1000, not ");
    unsetenv("HOME");
    assert_refused(run(STEP_SINGLE, "--checkpoint-dir=~/c"),
                   "--checkpoint-dir ~/c: HOME is not set, so write the whole path");
    setenv("HOME", "", 1);
    assert_refused(run(STEP_SINGLE, "--checkpoint-dir=~/c"), "HOME is not set");
    setenv("HOME", "/a/home", 1);
}

int main(void)
{
    unsetenv("LOCAL_RANK");
    setenv("HOME", "/a/home", 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_meaning),
                                        cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
