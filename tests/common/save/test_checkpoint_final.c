/* The end of a run: when it is reached, the line it prints, the file it leaves, and its owner. */
#include <sys/stat.h>

#include "tests/common/save/checkpoint_run.h"

static void save_two(const void *context)
{
    Run *run = (Run *)context;
    run->args.epochs = 0;
    checkpoint_save_final(&run->checkpoint);
    run->args.epochs = 10;
    run->sampler.epoch = 2;
    sampler_seek(&run->sampler, 64);
    checkpoint_save_final(&run->checkpoint);
}

/* A run of 0 epochs saves its initial state; --max-steps ends in the middle of an epoch. */
static void test_lines_of_short_runs(void **state)
{
    (void)state;
    char expected[512];
    Run run;
    run_init(&run, "linear", "sgd", 0, 5);
    assert_int_equal(child_run(save_two, &run), 0);
    snprintf(expected, sizeof expected,
             "Epoch 0 | Training checkpoint saved at %s/epoch_0.safetensors\n"
             "Epoch 2 | Training checkpoint saved at %s/linear_random.safetensors\n",
             folder, folder);
    assert_string_equal(out, expected);
    run_free(&run);
}

/* Saves the run's result and returns the file's inode. */
static ino_t saved(Run *run, const char *path)
{
    struct stat status;
    const int terminal = mute(STDOUT_FILENO);
    checkpoint_save_final(&run->checkpoint);
    unmute(STDOUT_FILENO, terminal);
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

/* A finished run does not rewrite its result if that is undamaged and its own. */
static void test_done(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/linear_random.safetensors", folder);
    Run run;
    run_init(&run, "linear", "sgd", 0, 5);
    run_step(&run);
    run.sampler.epoch = 9;
    run.args.max_steps = 2;
    sampler_seek(&run.sampler, run.sampler.total); // the last epoch is complete

    assert_false(run.checkpoint.done);
    run.checkpoint.done = true; // as checkpoint_load would set it
    ino_t file = saved(&run, path), before = file;
    assert_int_equal(saved(&run, path), before);
    assert_int_equal(truncate(path, 300), 0);
    assert_int_not_equal(file = saved(&run, path), before);
    const int fd = open(path, O_WRONLY);
    assert_true(lseek(fd, -1, SEEK_END) > 0 && write(fd, "x", 1) == 1); // its last weight
    close(fd);
    before = file;
    assert_int_not_equal(file = saved(&run, path), before);
    run_step(&run); // now the file is from an earlier step
    before = file;
    assert_int_not_equal(file = saved(&run, path), before);
    run.args.seed = 6; // and now from another run
    before = file;
    assert_int_not_equal(file = saved(&run, path), before);
    run.checkpoint.done = false;
    assert_int_not_equal(saved(&run, path), file);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_short_runs),
        cmocka_unit_test(test_done),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
