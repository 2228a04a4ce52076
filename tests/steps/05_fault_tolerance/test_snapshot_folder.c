/*
 * Which checkpoint a run resumes from, and which are removed. Damaged ones are skipped, whatever
 * byte is wrong, and the loaded state is one or the other, never a mixture.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "05_fault_tolerance/snapshot_folder.h"
#include "tests/common/save/checkpoint_run.h"

enum { EARLY = 3, LATE = 5, NUM_CUTS = 200 };

static Run early, late, found; // two saved states and the loaded one

static const char *path_to(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool exists(const char *name)
{
    return access(path_to(name), F_OK) == 0;
}

static void snapshot(Run *run, int epoch, size_t position)
{
    const int saved = mute(STDOUT_FILENO);
    run->sampler.epoch = epoch;
    sampler_seek(&run->sampler, position);
    CheckpointCopy copy;
    snapshot_copy(&run->checkpoint, &copy);
    assert_true(checkpoint_commit(&copy));
    unmute(STDOUT_FILENO, saved);
}

/* Saves snapshots of one run after EARLY and after LATE steps. */
static void save_two(const char *model, const char *optimizer)
{
    run_init(&early, model, optimizer, strcmp(optimizer, "sgd") == 0 ? 0.9 : 0, 1);
    run_init(&late, model, optimizer, early.optim.momentum, 1);
    run_init(&found, model, optimizer, early.optim.momentum, 1);
    for (int step = 0; step < LATE; step++) {
        if (step < EARLY)
            run_step(&early);
        run_step(&late);
    }
    snapshot(&early, 0, 96);
    snapshot(&late, 1, 32);
}

static void free_runs(void)
{
    run_free(&early);
    run_free(&late);
    run_free(&found);
    clear_folder(NULL);
}

/* Resumes from a wrong initial state, so that anything not overwritten is detected. */
static bool resume(void)
{
    const size_t bytes = found.model.numel * sizeof(float);
    memset(found.model.params, 0x11, bytes);
    for (int s = 0; s < found.optim.num_states; s++)
        memset(found.optim.state[s], 0x22, bytes);
    found.model.step = 99;
    found.sampler.epoch = 77;
    const int saved = mute(STDERR_FILENO);
    const bool resumed = snapshot_folder_resume(&found.checkpoint);
    unmute(STDERR_FILENO, saved);
    return resumed;
}

/* Returns true for the late state. Otherwise it must be the early one, bit for bit. */
static bool is_late(void)
{
    const bool is_late = found.model.step == LATE;
    assert_same(is_late ? &late : &early, &found);
    assert_int_equal(found.sampler.epoch, is_late ? 1 : 0);
    assert_int_equal(found.sampler.position, (is_late ? 32 : 96) / 4);
    return is_late;
}

static void test_any_byte(void **state)
{
    (void)state;
    save_two("linear", "sgd");
    size_t bytes;
    char *good = get_file(path_to("snapshot_e1_s5.safetensors"), &bytes);
    uint64_t header_bytes;
    memcpy(&header_bytes, good, 8);
    static const char flips[] = { 0x01, 0x10, (char)0xff };
    int harmless = 0;
    for (size_t at = 0; at < bytes; at++)
        for (size_t i = 0; i < LENGTH(flips); i++) {
            good[at] ^= flips[i];
            file_put(path_to("snapshot_e1_s5.safetensors"), good, bytes);
            assert_true(resume());
            if (is_late()) { // in the name of the metadata's checksum, which is then absent
                harmless++;
                assert_true(at >= 8 && at < 8 + header_bytes);
            }
            good[at] ^= flips[i];
        }
    assert_true(harmless <= 3 * (int)strlen("metadata_checksum"));
    file_put(path_to("snapshot_e1_s5.safetensors"), good, bytes);
    assert_true(resume() && is_late());
    free(good);
    free_runs();
}

static void test_truncated(void **state)
{
    (void)state;
    static const char *const models[][2] = { { "linear", "adam" }, { "cnn", "sgd" } };
    for (size_t m = 0; m < LENGTH(models); m++) {
        const size_t cuts = m == 0 ? NUM_CUTS : 10; // fewer, because a large file takes long
        save_two(models[m][0], models[m][1]);
        size_t bytes;
        char *good = get_file(path_to("snapshot_e1_s5.safetensors"), &bytes);
        for (size_t i = cuts; i-- > 0;) {
            assert_int_equal(
                truncate(path_to("snapshot_e1_s5.safetensors"), (off_t)((bytes - 1) * i / cuts)),
                0);
            assert_true(resume() && !is_late());
        }
        uint64_t header_bytes;
        memcpy(&header_bytes, good, 8);
        for (size_t at = 8 + header_bytes; at < bytes; at += bytes / cuts) { // in every tensor
            good[at] ^= 4;
            file_put(path_to("snapshot_e1_s5.safetensors"), good, bytes);
            assert_true(resume() && !is_late());
            good[at] ^= 4;
        }
        file_put(path_to("snapshot_e1_s5.safetensors"), good, bytes);
        assert_true(resume() && is_late());
        free(good);
        free_runs();
    }
}

static void resume_in_child(const void *context)
{
    (void)context;
    found.args.epochs = 10;
    printf("%s\n", snapshot_folder_resume(&found.checkpoint) ? "found" : "fresh");
}

static void assert_said(const char *result, int lines, ...)
{
    va_list args;
    va_start(args, lines);
    assert_int_equal(child_run(resume_in_child, NULL), 0);
    assert_non_null(strstr(out, result));
    int count = 0;
    for (const char *c = err; *c != '\0'; c++)
        count += *c == '\n';
    if (count != lines)
        fail_msg("%d lines instead of %d: %s", count, lines, err);
    for (int i = 0; i < lines; i++) {
        const char *words = va_arg(args, const char *);
        if (strstr(err, words) == NULL)
            fail_msg("\"%s\" is not in: %s", words, err);
    }
    va_end(args);
}

/* The messages: the file used, the reasons against others, and other runs in one line. */
static void test_lines(void **state)
{
    (void)state;
    save_two("linear", "sgd");
    assert_said("found", 1, "snapshot_e1_s5.safetensors: epoch 1, step 5\n");
    assert_int_equal(truncate(path_to("snapshot_e1_s5.safetensors"), 5), 0);
    assert_said("found", 2, "warning: skipped: ", "resumes from");
    assert_true(exists("snapshot_e1_s5.safetensors"));

    found.args.seed = 2;
    found.args.batch_size = 16;
    save(&late, 2, 0); // epoch_2
    assert_said("fresh", 3, "warning: skipped: ", "2 checkpoints of other runs: ",
                "nothing of this run in /tmp/ddp_test_");
    assert_non_null(strstr(err, "with seed 1, this run has 2\n"));
    found.args.seed = 1;
    assert_said("fresh", 3, "warning: skipped: ", "global_batch_size 32, this run has 64\n",
                "a fresh start");
    found.args.checkpoint_dir = "/nowhere/at/all";
    assert_said("fresh", 1, "nothing in /nowhere/at/all to resume from: a fresh start\n");
    free_runs();
}

/* The furthest checkpoint is used, whatever its name; of the same step the one that has finished
 * its epoch; and only files with a checkpoint's name. */
static void test_the_furthest(void **state)
{
    (void)state;
    save_two("linear", "sgd");
    save(&late, 1, 64); // MODEL_DATASET, after the same step, but further by its place
    assert_true(resume());
    assert_int_equal(found.model.step, LATE);
    unlink(path_to("linear_random.safetensors"));

    snapshot(&late, 1, late.sampler.total);
    save(&late, 2, 0); // the same, after the evaluation
    assert_true(resume());
    assert_int_equal(found.sampler.epoch, 2);
    unlink(path_to("epoch_2.safetensors"));
    snapshot(&late, 2, 0); // the same, by a name that comes last
    assert_true(resume());
    assert_int_equal(found.sampler.epoch, 2);
    unlink(path_to("snapshot_e2_s5.safetensors"));
    assert_true(resume());
    assert_int_equal(found.sampler.epoch, 1); // at its end, but not evaluated
    assert_int_equal(found.sampler.position, found.sampler.size);

    char from[PATH_MAX]; // because path_to has only one buffer
    strcpy(from, path_to("snapshot_e1_s5.safetensors"));
    static const char *const names[] = {
        "mine.safetensors",          "snapshot_e01_s5.safetensors", "snapshot_e1_s5.safetensors.1",
        "snapshot_e1_s.safetensors", "cnn_digits.safetensors",      "epoch_.safetensors"
    };
    for (size_t i = 0; i < LENGTH(names); i++) {
        assert_int_equal(rename(from, path_to(names[i])), 0);
        strcpy(from, path_to(names[i]));
        assert_true(resume() && !is_late());
    }
    free_runs();
}

/* Another number of ranks continues within the epoch: together with the first run's, every row is
 * visited exactly once. */
static void test_other_world_sizes(void **state)
{
    (void)state;
    enum { ROWS = 2048, DONE = 640 };
    static const int world_sizes[] = { 1, 2, 4, 8 };
    save_two("linear", "sgd"); // by four ranks
    snapshot(&late, 1, DONE);
    for (size_t w = 0; w < LENGTH(world_sizes); w++) {
        int visits[ROWS] = { 0 };
        for (int rank = 0; rank < world_sizes[w]; rank++) {
            sampler_free(&found.sampler);
            distributed_sampler_init(&found.sampler, ROWS, rank, world_sizes[w], true, false, 1);
            assert_true(resume());
            sampler_set_epoch(&found.sampler, found.sampler.epoch);
            assert_int_equal(found.sampler.size - found.sampler.position,
                             (ROWS - DONE) / world_sizes[w]);
            for (size_t row; sampler_next(&found.sampler, &row, 1) > 0;)
                visits[row]++;
        }
        sampler_set_epoch(&late.sampler, 1); // the order of all ranks
        for (int i = 0; i < DONE; i++)
            visits[late.sampler.order[i]]++;
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(visits[i], 1);
    }
    free_runs();
}

/* The newest of this run's own snapshots up to the step are kept. */
static void test_prune(void **state)
{
    (void)state;
    save_two("linear", "sgd");
    for (int step = 6; step <= 9; step++) {
        run_step(&late);
        snapshot(&late, 1, 32);
    }
    save(&late, 2, 0);
    Run other;
    run_init(&other, "linear", "sgd", 0.9, 7);
    other.model.step = 2;
    snapshot(&other, 0, 64);
    run_free(&other);
    file_put(path_to("snapshot_e0_s1.safetensors"), "torn", 4);
    file_put(path_to("snapshot_e1_s5.safetensors"), "torn", 4);

    snapshot_folder_prune(&late.checkpoint, 8, 2);
    assert_true(exists("snapshot_e1_s9.safetensors")); // beyond
    assert_true(exists("snapshot_e1_s8.safetensors"));
    assert_true(exists("snapshot_e1_s7.safetensors"));
    assert_false(exists("snapshot_e1_s6.safetensors"));
    assert_true(exists("snapshot_e1_s5.safetensors")); // damaged
    assert_false(exists("snapshot_e0_s3.safetensors"));
    assert_true(exists("snapshot_e0_s2.safetensors")); // another run's
    assert_true(exists("snapshot_e0_s1.safetensors"));
    assert_true(exists("epoch_2.safetensors"));
    free_runs();
}

static CheckpointClaim peeked(const Run *run, const char *path)
{
    CheckpointClaim claim;
    assert_true(checkpoint_peek(&run->checkpoint, path, &claim));
    return claim;
}

static void assert_another(const Run *run, const char *path, const char *key)
{
    const CheckpointClaim claim = peeked(run, path);
    assert_false(claim.is_this_run);
    char difference[64];
    snprintf(difference, sizeof difference, "was saved with %s", key);
    assert_non_null(strstr(claim.error, difference));
    assert_int_equal(claim.is_other_batch, strcmp(key, "global_batch_size") == 0);
}

/* A file's settings determine its run, one by one. */
static void test_whose_file(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/epoch_3.safetensors", folder);
    Run run;
    run_init(&run, "linear", "sgd", 0, 5);
    run_step(&run);
    save(&run, 3, 0);
    assert_true(peeked(&run, path).is_this_run && !peeked(&run, path).is_other_batch);
    assert_int_equal(peeked(&run, path).epoch, 3);
    assert_int_equal(peeked(&run, path).step, 1);
    run.args.batch_size = 16;
    assert_another(&run, path, "global_batch_size");
    run.args.batch_size = 8;
    run.args.seed = 6;
    assert_another(&run, path, "seed");
    run.args.seed = 5;
    run.dataset.size = 2047;
    assert_another(&run, path, "num_samples");
    run.dataset.size = 2048;
    run.dataset.name = "digits";
    assert_another(&run, path, "dataset");
    run.dataset.name = "random";
    run.optim.name = "adam";
    assert_another(&run, path, "optimizer");
    run.optim.name = "sgd";
    run.model.name = "cnn";
    assert_another(&run, path, "model");
    run.model.name = "linear";

    const char *nobodys = "tests/golden/losses/linear_sgd_w1.safetensors"; // has no settings
    assert_another(&run, nobodys, "model (none)");
    assert_int_equal(peeked(&run, nobodys).step, 0);
    run_free(&run);
}

/* Asserts that aside/ has only one file, with the state of `late`. */
static void assert_aside(const char *beginning)
{
    DIR *dir = opendir(path_to("aside"));
    assert_non_null(dir);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        assert_int_equal(strncmp(entry->d_name, beginning, strlen(beginning)), 0);
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/aside/%s", folder, entry->d_name);
        late.args.resume = path;
        assert_int_equal(child_run(load, &late), 0);
        late.args.resume = NULL;
        count++;
    }
    closedir(dir);
    assert_int_equal(count, 1);
}

/* A file of another run is moved aside; this run's, a damaged one and, with --resume none, any
 * other is replaced. */
static void test_set_aside(void **state)
{
    (void)state;
    static CheckpointCopy copy; // only its path matters
    save_two("linear", "sgd");
    found.args.resume_auto = true;
    for (int i = 0; i < 2; i++) { // the same file twice is kept once
        save(&late, 2, 0);
        strcpy(copy.file.path, path_to("epoch_2.safetensors"));
        found.args.batch_size = 8;
        assert_true(snapshot_folder_set_aside(&found.checkpoint, &copy));
        assert_true(exists("epoch_2.safetensors")); // this run's
        found.args.batch_size = 16;
        found.args.resume_auto = false;
        assert_true(snapshot_folder_set_aside(&found.checkpoint, &copy));
        assert_true(exists("epoch_2.safetensors"));
        found.args.resume_auto = true;
        const int saved = mute(STDERR_FILENO);
        assert_true(snapshot_folder_set_aside(&found.checkpoint, &copy));
        assert_true(snapshot_folder_set_aside(&found.checkpoint, &copy)); // there is no file
        unmute(STDERR_FILENO, saved);
        assert_false(exists("epoch_2.safetensors"));
        assert_aside("epoch_2.");
    }
    save(&late, 2, 0);
    assert_int_equal(truncate(copy.file.path, 100), 0);
    assert_true(snapshot_folder_set_aside(&found.checkpoint, &copy));
    assert_true(exists("epoch_2.safetensors"));

    // A file that cannot be moved is not replaced.
    char command[PATH_MAX + 64];
    snprintf(command, sizeof command, "rm -r %s/aside && touch %s/aside", folder, folder);
    assert_int_equal(system(command), 0);
    save(&late, 2, 0);
    assert_false(snapshot_folder_set_aside(&found.checkpoint, &copy));
    assert_non_null(
        strstr(copy.file.error, "epoch_2.safetensors: is of another run, and cannot be"));
    assert_true(exists("epoch_2.safetensors"));
    free_runs();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_any_byte, clear_folder),
        cmocka_unit_test_teardown(test_truncated, clear_folder),
        cmocka_unit_test_teardown(test_lines, clear_folder),
        cmocka_unit_test_teardown(test_the_furthest, clear_folder),
        cmocka_unit_test_teardown(test_other_world_sizes, clear_folder),
        cmocka_unit_test_teardown(test_prune, clear_folder),
        cmocka_unit_test_teardown(test_whose_file, clear_folder),
        cmocka_unit_test(test_set_aside),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
