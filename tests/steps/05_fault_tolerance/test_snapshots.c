/*
 * Snapshots are written in the background: from a copy, one at a time, without harm if writing
 * fails or ends in the middle.
 */
#include <dirent.h>
#include <fnmatch.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "05_fault_tolerance/snapshot_folder.h"
#include "05_fault_tolerance/snapshots.h"
#include "05_fault_tolerance/stop.h"
#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "tests/common/save/checkpoint_run.h"
#include "tests/helpers/ranks.h"

enum { NUM_KILLS = 12, TIMEOUT = 300 };

static ProcessGroup alone = { .world_size = 1 }; // only its rank is used
static FlightRecorder no_record;

static int count_files(const char *pattern)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += fnmatch(pattern, entry->d_name, FNM_PERIOD) == 0; // without the lock
    closedir(dir);
    return count;
}

static void start(Run *run, Snapshots *snapshots, const char *model)
{
    run_init(run, model, "sgd", 0.9, 1);
    run->args.save_every_steps = 1;
    run->args.save_every = 1;
    run->args.keep = 2;
    snapshots_init(snapshots, &run->args, &run->checkpoint, &alone, &no_record);
}

/* A file restores the state when its snapshot was due, though the training continued at once. */
static void test_a_copy(void **state)
{
    (void)state;
    Run run, expected;
    Snapshots snapshots;
    char path[PATH_MAX];
    start(&run, &snapshots, "cnn");
    run_init(&expected, "cnn", "sgd", 0.9, 1);
    const int saved = mute(STDOUT_FILENO);
    for (int step = 1; step <= 5; step++) {
        run_step(&run);
        snapshots_step(&snapshots);
        if (step == 4) {
            memset(run.model.params, 0, run.model.numel * sizeof(float));
            memset(run.optim.state[0], 0, run.model.numel * sizeof(float));
        } else {
            run_step(&expected);
        }
    }
    snapshots_free(&snapshots);
    unmute(STDOUT_FILENO, saved);
    assert_int_equal(count_files("snapshot_*"), 2);

    snprintf(path, sizeof path, "%s/snapshot_e0_s4.safetensors", folder);
    Run found;
    run_init(&found, "cnn", "sgd", 0.9, 2);
    found.args.seed = 1;
    found.args.resume = path;
    run_free(&run);
    run_init(&run, "cnn", "sgd", 0.9, 1);
    for (int step = 1; step <= 4; step++)
        run_step(&run);
    checkpoint_load(&found.checkpoint);
    assert_same(&run, &found);
    run_free(&found);
    run_free(&expected);
    run_free(&run);
}

/* Snapshots are written every N steps and epochs, and only on rank 0. */
static void test_when(void **state)
{
    (void)state;
    Run run;
    Snapshots snapshots;
    start(&run, &snapshots, "linear");
    const int saved = mute(STDOUT_FILENO);
    run.args.save_every_steps = 3;
    run.args.save_every = 2;
    run.args.keep = 100;
    for (int step = 1; step <= 10; step++) {
        run_step(&run);
        snapshots_step(&snapshots);
    }
    for (int epoch = 0; epoch < 5; epoch++) {
        run.sampler.epoch = epoch + 1;
        snapshots_epoch(&snapshots, epoch);
    }
    snapshots_free(&snapshots);
    assert_int_equal(count_files("snapshot_e0_s[369].safetensors"), 3);
    assert_int_equal(count_files("epoch_[135].safetensors"), 3);
    assert_int_equal(count_files("*"), 3 + 3);

    clear_folder(NULL);
    run.args.save_every_steps = run.args.save_every = 0;
    snapshots_step(&snapshots);
    snapshots_epoch(&snapshots, 0);
    run.args.save_every_steps = run.args.save_every = 1;
    ProcessGroup other = { .rank = 1, .world_size = 2 };
    snapshots_init(&snapshots, &run.args, &run.checkpoint, &other, &no_record);
    snapshots_step(&snapshots);
    snapshots_epoch(&snapshots, 0);
    snapshots_stop(&snapshots);
    snapshots_free(&snapshots);
    unmute(STDOUT_FILENO, saved);
    assert_int_equal(count_files("*"), 0);
    run_free(&run);
}

static void resume_training(const void *context)
{
    Run run;
    Snapshots snapshots;
    start(&run, &snapshots, "linear");
    run_step(&run);
    snapshots_step(&snapshots);
    snapshots_free(&snapshots); // waits until it is written
    signal(SIGXFSZ, SIG_IGN);
    if (context != NULL)
        limit_file_size(400);
    else if (chmod(folder, 0555) != 0 || setuid(65534) != 0) // because root may still write to it
        _exit(99);
    for (int step = 2; step <= 3; step++) {
        run_step(&run);
        snapshots_step(&snapshots);
    }
    snapshots_free(&snapshots);
    printf("went on\n");
    fflush(stdout);
    snapshots_stop(&snapshots);
}

/* A full disk and a folder that has become read-only cost snapshots, one line each, but not the
 * training; but a run that stops to be resumed must not exit without one. */
static void test_cannot_write(void **state)
{
    (void)state;
    static const char *const reasons[] = { "Permission denied", "File too large" };
    for (int i = getuid() == 0 ? 0 : 1; i < 2; i++) {
        chmod(folder, 0777);
        assert_int_equal(child_run(resume_training, i == 0 ? NULL : ""), 1);
        chmod(folder, 0700);
        assert_non_null(strstr(out, "snapshot_e0_s1.safetensors\nwent on\n"));
        const char *warning = err;
        for (int step = 2; step <= 3; step++) {
            warning = strstr(warning, "warning: cannot write ");
            assert_non_null(warning);
            assert_non_null(strstr(warning, reasons[i]));
            warning++;
        }
        assert_non_null(strstr(warning, "fatal: cannot write "));
        assert_int_equal(count_files("snapshot_e0_s1.safetensors"), 1);
        assert_int_equal(count_files("*"), 1);
        clear_folder(NULL);
    }
}

static void lose_folder(const void *context)
{
    (void)context;
    Run run;
    Snapshots snapshots;
    char path[PATH_MAX];
    start(&run, &snapshots, "linear");
    snprintf(path, sizeof path, "%s/taken", folder);
    run.args.checkpoint_dir = path;
    fclose(fopen(path, "w"));
    run_step(&run);
    snapshots_step(&snapshots);
    snapshots_epoch(&snapshots, 0);
    snapshots_free(&snapshots);
    printf("went on\n");
    fflush(stdout);
    snapshots_stop(&snapshots);
}

/* A folder that cannot be created again only costs snapshots, too. */
static void test_no_folder(void **state)
{
    (void)state;
    assert_int_equal(child_run(lose_folder, NULL), 1);
    assert_string_equal(out, "went on\n");
    const char *warning = strstr(err, "warning: cannot create the folder ");
    assert_non_null(warning); // for the snapshot and for the epoch's checkpoint
    assert_non_null(strstr(warning + 1, "warning: cannot create the folder "));
    assert_non_null(strstr(err, "fatal: cannot create the folder "));
}

static void train_forever(const void *context)
{
    (void)context;
    Run run;
    Snapshots snapshots;
    start(&run, &snapshots, "cnn");
    for (;;) {
        run_step(&run);
        snapshots_step(&snapshots);
    }
}

static void wait_for(const char *pattern, int count)
{
    for (const double end = seconds_now() + TIMEOUT; count_files(pattern) < count; usleep(200))
        assert_true(seconds_now() < end);
}

/* Killed at any moment, every second time while a file is being written: the state found is one
 * that the run once had, and no unfinished file is left. */
static void test_killed(void **state)
{
    (void)state;
    int unfinished = 0;
    for (int i = 0; i < NUM_KILLS; i++) {
        const int nowhere = open("/dev/null", O_WRONLY);
        const pid_t child = child_start(train_forever, NULL, nowhere, nowhere);
        close(nowhere);
        wait_for("snapshot_*.safetensors", 1 + i % 2);
        if (i % 2 == 0)
            wait_for("*.tmp", 1);
        usleep(1500 * (unsigned)(i / 2));
        kill(child, SIGKILL);
        assert_int_equal(child_wait(child), 128 + SIGKILL);
        unfinished += count_files("*.tmp");

        Run expected, found;
        Snapshots snapshots;
        run_init(&expected, "cnn", "sgd", 0.9, 1);
        start(&found, &snapshots, "cnn");
        assert_true(count_files("*.tmp") == 0 || !has_extras);
        const int saved = mute(STDERR_FILENO);
        assert_true(snapshot_folder_resume(&found.checkpoint));
        unmute(STDERR_FILENO, saved);
        while (expected.model.step < found.model.step)
            run_step(&expected);
        assert_same(&expected, &found);
        run_free(&expected);
        run_free(&found);
        clear_folder(NULL);
    }
    printf("# %d of %d times in the middle of a file\n", unfinished, NUM_KILLS);
}

/* What a launcher has set (NULL: nothing), and whether its SIGCONT brings a snapshot. */
static const struct {
    const char *name;
    bool is_early;
} warnings[] = { { NULL, false }, { "OMPI_COMM_WORLD_RANK", true } };

static void train_on(const void *context)
{
    (void)context;
    Run run;
    Snapshots snapshots;
    start(&run, &snapshots, "linear");
    run.args.save_every_steps = 0;
    stop_listen();
    for (int step = 1; step <= 4; step++) {
        run_step(&run);
        if (step == 2)
            raise(SIGCONT);
        snapshots_step(&snapshots);
    }
    snapshots_free(&snapshots);
    run.model.params[0] = NAN; // a diverged state is not worth keeping
    run_step(&run);
    raise(SIGCONT);
    snapshots_step(&snapshots);
    snapshots_free(&snapshots);
}

/* The first signal of Open MPI's mpirun brings a snapshot at once, and stops nothing. */
static void test_early(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(warnings); i++) {
        if (warnings[i].name != NULL)
            setenv(warnings[i].name, "0", 1);
        assert_int_equal(child_run(train_on, NULL), 0);
        assert_int_equal(count_files("snapshot_e0_s2.safetensors"), warnings[i].is_early);
        assert_int_equal(count_files("*"), warnings[i].is_early);
        clear_folder(NULL);
    }
    unsetenv(warnings[1].name);
}

static void take_seconds(const void *variable)
{
    Run run;
    Snapshots snapshots;
    setenv(variable, "0", 1);
    start(&run, &snapshots, "linear");
    snapshots.stepped = seconds_awake();
    for (int step = 1; step <= 3; step++) {
        usleep(step == 1 ? 0 : 500000);
        run_step(&run);
        snapshots_step(&snapshots);
    }
    snapshots_free(&snapshots);
}

/* Steps that mpirun would not wait for are reported, once; restart.sh's mpirun gets no SIGTERM. */
static void test_haste(void **state)
{
    (void)state;
    static const char line[] = "s until a snapshot is on disk, but Open MPI's mpirun kills";
    assert_int_equal(child_run(take_seconds, "OMPI_COMM_WORLD_RANK"), 0);
    const char *warning = strstr(err, line);
    assert_non_null(warning);
    assert_null(strstr(warning + 1, line));
    assert_int_equal(child_run(take_seconds, "PMI_RANK"), 0);
    assert_null(strstr(err, line));
    setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
    assert_int_equal(child_run(take_seconds, "OMPI_COMM_WORLD_RANK"), 0);
    assert_null(strstr(err, line));
    unsetenv("TORCHELASTIC_RESTART_COUNT");
}

static void resume_scale(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    Run run;
    Snapshots snapshots;
    LossScale scale = { .scale = 65536 };
    run_init(&run, "linear", "sgd", 0.9, 1);
    run.device.loss_scale = &scale; // as on a GPU with --amp fp16
    run.args.resume_auto = true;
    snapshots_init(&snapshots, &run.args, &run.checkpoint, &pg, &no_record);
    snapshots_resume(&snapshots);
    CHECK(run.model.step == 5 && scale.scale == 1024 && scale.good_steps == 7 && scale.skipped == 2,
          "step %d with scale %g", (int)run.model.step, (double)scale.scale);
    snapshots_free(&snapshots);
    process_group_destroy(&pg);
    run_free(&run);
}

/* Only rank 0 reads; with a different scale a rank would take steps that others skip. */
static void test_loss_scale(void **state)
{
    (void)state;
    Run run;
    Snapshots snapshots;
    LossScale scale = { .scale = 1024, .good_steps = 7, .skipped = 2 };
    start(&run, &snapshots, "linear");
    run.device.loss_scale = &scale; // as a GPU has with --amp fp16
    if (!loss_scale_save(&run.device, (char[LOSS_SCALE_TEXT_BYTES]){ "" })) {
        snapshots_free(&snapshots);
        run_free(&run);
        skip(); // a build without CUDA
    }
    run.model.step = 5;
    snapshots_step(&snapshots);
    snapshots_free(&snapshots);
    ranks_run_well(3, resume_scale, NULL);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_copy, clear_folder),
        cmocka_unit_test_teardown(test_when, clear_folder),
        cmocka_unit_test_teardown(test_cannot_write, clear_folder),
        cmocka_unit_test_teardown(test_no_folder, clear_folder),
        cmocka_unit_test_teardown(test_killed, clear_folder),
        cmocka_unit_test_teardown(test_early, clear_folder),
        cmocka_unit_test_teardown(test_haste, clear_folder),
        cmocka_unit_test_teardown(test_loss_scale, clear_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
