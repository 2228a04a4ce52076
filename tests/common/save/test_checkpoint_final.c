/* The end of a run: when it is reached, the line it prints, the file it leaves, and its owner. */
#include <sys/stat.h>

#include "tests/common/save/checkpoint_run.h"

static void save_three(const void *context)
{
    Run *run = (Run *)context;
    run->args.epochs = 0;
    checkpoint_save_final(&run->checkpoint);
    run->args.epochs = 10;
    run->sampler.epoch = 1;
    checkpoint_save(&run->checkpoint);
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
    assert_int_equal(child_run(save_three, &run), 0);
    snprintf(expected, sizeof expected,
             "Epoch 0 | Training checkpoint saved at %s/epoch_0.safetensors\n"
             "Epoch 0 | Training checkpoint saved at %s/epoch_1.safetensors\n"
             "Epoch 2 | Training checkpoint saved at %s/linear_random.safetensors\n",
             folder, folder, folder);
    assert_string_equal(out, expected);
    run_free(&run);
}

/* A rank's last row ends the epoch, before the sampler begins the next one. */
static void test_next(void **state)
{
    (void)state;
    Run run;
    run_init(&run, "linear", "sgd", 0, 5);
    run.sampler.epoch = 2;
    for (size_t left = 0; left < 2; left++) {
        run.sampler.position = run.sampler.size - left;
        const Position next = checkpoint_next(&run.checkpoint);
        assert_int_equal(next.epoch, left == 0 ? 3 : 2);
        assert_int_equal(next.samples, left == 0 ? 0 : 2048 - 4);
    }
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

/* What extras are told, in place of those. */
static char told[256];

void __wrap_watch_save(uint64_t step, const char *path);
void __wrap_comfort_announce(const Args *args, int world_size, const char *device);

void __wrap_watch_save(uint64_t step, const char *path)
{
    const char *name = strrchr(path, '/');
    snprintf(told + strlen(told), sizeof told - strlen(told), "step %d to %s;", (int)step, name);
}

void __wrap_comfort_announce(const Args *args, int world_size, const char *device)
{
    snprintf(told, sizeof told, "batch %d of %d ranks on %s;", args->batch_size, world_size,
             device);
}

/* Which number is not finite, and at which place, from the end if it is negative. */
typedef struct {
    float value;
    int place;
    bool is_state; // of the optimizer
} Diverged;

static void save_diverged(const void *context)
{
    const Diverged *diverged = context;
    Run run;
    run_init(&run, "linear", "adam", 0, 5);
    run_step(&run);
    const size_t numel = run.model.numel;
    float *values = diverged->is_state ? run.optim.state[0] : run.model.params;
    values[diverged->place < 0 ? numel - 1 : 0] = diverged->value;
    run.sampler.epoch = 3;
    checkpoint_save(&run.checkpoint);
    run_free(&run);
    fprintf(stderr, "%s", told);
}

/* A checkpoint with weights that are not finite would be of no use, so none replaces a good one. */
static void test_diverged_weights(void **state)
{
    (void)state;
    static const Diverged cases[] = {
        { NAN, 0, false }, { INFINITY, -1, false }, { -INFINITY, -1, false }, { NAN, 0, true }
    };
    char path[64], line[128];
    snprintf(path, sizeof path, "%s/epoch_3.safetensors", folder);
    snprintf(line, sizeof line, "warning: %s is not written: weights are nan or infinite\n", path);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(child_run(save_diverged, &cases[i]), 0);
        assert_int_equal(strstr(err, line) != NULL, !cases[i].is_state);
        assert_int_equal(access(path, F_OK), cases[i].is_state ? 0 : -1);
        assert_int_equal(out[0] == '\0', !cases[i].is_state);
        assert_has(err, "batch 8 of 4 ranks on cpu;step 1 to /epoch_3.safetensors;");
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_short_runs),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_done),
        cmocka_unit_test(test_diverged_weights),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
