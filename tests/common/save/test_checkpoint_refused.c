/*
 * Checkpoints that must not be resumed, and those that may be, with a warning. Every refusal is one
 * line that names the difference; the files are good ones with their header edited.
 */
#include "common/base/log.h"
#include "tests/common/save/checkpoint_run.h"

#define SUM "its metadata do not have the checksum it names"

static char good[64], edited[64];

/* Edits the good file's header, and without `is_summed` renames its checksum. */
static void edit_header(Run *run, const char *from, const char *to, bool is_summed)
{
    size_t bytes;
    char *content = get_file(good, &bytes);
    uint64_t header_bytes;
    memcpy(&header_bytes, content, 8);
    static const char checksum[] = "metadata_checksum";
    if (!is_summed) // another name of the same length
        memset(memmem(content, bytes, checksum, strlen(checksum)), 'x', strlen(checksum));
    char *at = memmem(content + 8, header_bytes, from, strlen(from));
    if (at == NULL)
        fail_msg("there is no %s in the header", from);

    FILE *file = fopen(edited, "wb");
    const uint64_t new_bytes = header_bytes + strlen(to) - strlen(from);
    fwrite(&new_bytes, 1, 8, file);
    fwrite(content + 8, 1, (size_t)(at - content) - 8, file);
    fputs(to, file);
    at += strlen(from);
    fwrite(at, 1, bytes - (size_t)(at - content), file);
    fclose(file);
    free(content);
    run->args.resume = edited;
}

/* Saves a run of the linear model with momentum as `good`. */
static void save_good(Run *run)
{
    snprintf(good, sizeof good, "%s/epoch_3.safetensors", folder);
    snprintf(edited, sizeof edited, "%s/edited.safetensors", folder);
    run_init(run, "linear", "sgd", 0.9, 1);
    run_step(run);
    save(run, 3, 0);
}

static void test_edited(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *reason;
    } edits[] = {
        { "\"ddp_c_version\":\"1\",", "", "use --init-from" },
        { "\"ddp_c_version\":\"1\"", "\"ddp_c_version\":\"2\"", "format version 2" },
        { "\"model\":\"linear\"", "\"model\":\"cnn\"", "use --model cnn, not linear" },
        { "\"model\":\"linear\"", "\"model\":\"li\\nnear\"", "is of model li?near" },
        { "\"model\":\"linear\",", "", "no \"model\"" },
        { "\"optimizer\":\"sgd\"", "\"optimizer\":\"adam\"", "use --optimizer adam, not sgd" },
        { "\"epoch\":\"3\"", "\"epoch\":\"-3\"", "\"epoch\" in its metadata is \"-3\"" },
        { "\"epoch\":\"3\"", "\"epoch\":\"1e99\"", "\"epoch\" in its metadata is \"1e99\"" },
        { "\"epoch\":\"3\"", "\"epoch\":\"nan\"", "\"epoch\" in its metadata is \"nan\"" },
        { "\"seed\":\"1\",", "", "no \"seed\"" },
        { "\"epoch\":\"3\"", "\"epoch\":\"\"", "\"epoch\" in its metadata is \"\"" },
        { "\"epoch\":\"3\"", "\"epoch\":\" 3\"", "\"epoch\" in its metadata" },
        { "\"epoch\":\"3\"", "\"epoch\":\"3x\"", "\"epoch\" in its metadata" },
        { "\"epoch\":\"3\"", "\"epoch\":\"2147483647\"", "not a number from 0 to 2147483646" },
        { "\"epoch\":\"3\"", "\"epoch\":\"18446744073709551619\"", "\"epoch\" in its metadata" },
        { "\"epoch\":\"3\",", "", "\"epoch\" in its metadata is \"(none)\"" },
        { "\"position\":\"0\"", "\"position\":\"-1\"", "\"position\" in its metadata is" },
        { "\"position\":\"0\"", "\"position\":\"9007199254740993\"",
          "not a number from 0 to 9007199254740992" },
        { "\"position\":\"0\"", "\"position\":\"2056\"", SUM },
        { "\"epoch\":\"3\"", "\"epoch\":\"4\"", SUM },
        { "\"shape\":[1,20]", "\"shape\":[20,1]",
          "\"weight\" has shape [20, 1], model linear needs [1, 20]" },
        { "\"shape\":[1,20]", "\"shape\":[1,1,20]", "has shape [1, 1, 20]" },
        { "\"shape\":[1,20]", "\"shape\":[20]", "has shape [20]" },
        { "\"shape\":[1,20]", "\"shape\":[1,1,1,1,1,1,1,20]",
          "has shape [1, 1, 1, 1, 1, 1, 1, 20], model" },
        { "\"shape\":[1,20]", "\"shape\":[1,1,1,1,1,1,1,1,20]",
          "has shape [1, 1, 1, 1, 1, 1, 1, 1, ...], model" },
        { "\"weight\":{\"dtype\":\"F32\"", "\"weight\":{\"dtype\":\"I32\"",
          "\"weight\" is int32 instead of float32" },
        { "\"optimizer.weight.momentum_buffer\":{\"dtype\":\"F32\",\"shape\":[1,20]",
          "\"optimizer.weight.momentum_buffer\":{\"dtype\":\"BF16\",\"shape\":[2,20]",
          "momentum_buffer\" is bfloat16 instead of float32" },
        { "\"dtype\":\"I64\"", "\"dtype\":\"F64\"", "\"optimizer.step\" is not a step" },
        { "\"shape\":[]", "\"shape\":[1]", "\"optimizer.step\" is not a step" },
        { "\"weight\":", "\"Weight\":", "is damaged" },
    };
    Run run;
    save_good(&run);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        edit_header(&run, edits[i].from, edits[i].to, strcmp(edits[i].reason, SUM) == 0);
        assert_refused(&run, edits[i].reason);
    }
    static const char *const largest[][2] = {
        { "\"epoch\":\"3\"", "\"epoch\":\"2147483646\"" },
        { "\"position\":\"0\"", "\"position\":\"9007199254740992\"" },
    };
    for (size_t i = 0; i < LENGTH(largest); i++) {
        edit_header(&run, largest[i][0], largest[i][1], false);
        assert_int_equal(child_run(load, &run), 0);
    }
    run_free(&run);
}

static void test_other_files(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    run.args.resume = "tests/golden/losses/linear_sgd_w1.safetensors";
    assert_refused(&run, "use --init-from tests/golden");
    run.args.resume = "Makefile";
    assert_refused(&run, "no safetensors file");

    // Flips the last bit of the weights.
    size_t bytes;
    char *content = get_file(good, &bytes);
    content[bytes - 1] ^= 1;
    FILE *file = fopen(edited, "wb");
    fwrite(content, 1, bytes, file);
    fclose(file);
    free(content);
    run.args.resume = edited;
    assert_refused(&run, "is damaged");
    run.args.resume = NULL;
    run.args.init_from = edited;
    assert_refused(&run, "is damaged");
    run_free(&run);
}

static void test_other_runs(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    run_free(&run);

    run_init(&run, "linear", "sgd", 0, 1);
    run.args.resume = good;
    assert_refused(&run, "use the --momentum it was saved with");
    run_free(&run);
    run_init(&run, "linear", "adadelta", 0, 1);
    run.args.resume = good;
    assert_refused(&run, "use --optimizer sgd, not adadelta");
    run_free(&run);
    run_init(&run, "cnn", "sgd", 0.9, 1);
    run.args.resume = good;
    assert_refused(&run, "use --model linear, not cnn");
    run.args.resume = NULL;
    run.args.init_from = good;
    assert_refused(&run, "has no tensor \"conv1.weight\", which model cnn needs");
    run_free(&run);
}

static void test_step_too_large(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    run.args.resume = good;
    run.model.step = 1ull << 53;
    save(&run, 3, 0);
    assert_int_equal(child_run(load, &run), 0);
    run.model.step = (1ull << 53) + 1;
    save(&run, 3, 0);
    assert_refused(&run, "not a step from 0 to 9007199254740992");
    run_free(&run);
}

/* Another world size with the same global batch gives no warning; another seed does. */
static void test_warnings(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    run.args.resume = good;
    run.checkpoint.world_size = 2;
    run.args.batch_size = 16;
    assert_int_equal(child_run(load, &run), 0);
    assert_string_equal(err, "");

    run.args.max_steps = 99; // ends a training without changing its course
    run.args.epochs = 20;
    run.args.threads = 2;
    assert_int_equal(child_run(load, &run), 0);
    assert_string_equal(err, "");

    run.args.seed = 2;
    run.args.batch_size = 32;
    run.dataset.name = "digits";
    assert_int_equal(child_run(load, &run), 0);
    assert_non_null(strstr(err, "seed 1, this run has 2\n"));
    assert_non_null(strstr(err, "global_batch_size 32, this run has 64\n"));
    assert_non_null(strstr(err, "dataset random, this run has digits\n"));
    run_free(&run);
}

/* Each setting that changes the training's course, alone. */
static void test_course(void **state)
{
    (void)state;
    static const char *const changes[][3] = {
        { "lr", "0.5", "lr 0.01, this run has 0.5\n" },
        { "lr-schedule", "step", "lr_schedule constant, this run has step\n" },
        { "warmup-steps", "7", "warmup_steps 0, this run has 7\n" },
        { "clip-norm", "1.5", "clip_norm 0, this run has 1.5\n" },
        { "weight-decay", "0.1", "weight_decay 0, this run has 0.1\n" },
        { "dropout", "off", "dropout on, this run has off\n" },
        { "amp", "bf16", "amp off, this run has bf16\n" },
        { "tf32", "on", "tf32 off, this run has on\n" },
    };
    for (size_t i = 0; i < LENGTH(changes); i++) {
        Run run;
        save_good(&run);
        run.args.resume = good;
        option_set(args_option(changes[i][0]), &run.args, changes[i][1], NULL);
        assert_int_equal(child_run(load, &run), 0);
        assert_non_null(strstr(err, changes[i][2]));
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); // and only one line
        run_free(&run);
    }
}

/* --epochs determines the end of a cosine, and does not change other schedules. */
static void test_epochs(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    run.args.lr_schedule = LR_COSINE;
    save(&run, 3, 0);
    run.args.resume = good;
    assert_int_equal(child_run(load, &run), 0);
    assert_string_equal(err, "");
    run.args.epochs = 20;
    assert_int_equal(child_run(load, &run), 0);
    assert_non_null(strstr(err, "was saved with epochs 10, this run has 20\n"));

    // A file of an older program lacks settings.
    edit_header(&run, "\"epochs\":\"10\",", "", false);
    assert_int_equal(child_run(load, &run), 0);
    assert_string_equal(err, "");
    run_free(&run);
}

static void load_as_rank_1(const void *run)
{
    log_set_rank(1, 4);
    load(run);
}

/* All ranks read the file, and only rank 0 warns. */
static void test_one_rank_warns(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    run.args.resume = good;
    run.args.seed = 2;
    run.args.epochs = 3;
    assert_int_equal(child_run(load, &run), 0);
    assert_non_null(strstr(err, "seed 1, this run has 2\n"));
    assert_non_null(strstr(err, "nothing left to do"));
    assert_int_equal(child_run(load_as_rank_1, &run), 0);
    assert_string_equal(err, "");
    run.args.epochs = 4;
    assert_int_equal(child_run(load, &run), 0);
    assert_null(strstr(err, "nothing left to do"));
    run.args.max_steps = 1;
    assert_int_equal(child_run(load, &run), 0);
    assert_non_null(strstr(err, "nothing left to do"));
    run_free(&run);
}

/* Saves as an older program would; the current one writes no file with such weights. */
static void save_not_finite(Run *run)
{
    CheckpointCopy copy;
    checkpoint_copy(&run->checkpoint, "epoch_3", checkpoint_next(&run->checkpoint), &copy);
    copy.num_weights = 0; // so that no weight is checked
    assert_true(checkpoint_commit(&copy));
}

/* Weights that are not finite are not saved, and refused for any use. An optimizer's state may
 * overflow. */
static void test_not_finite(void **state)
{
    (void)state;
    const float values[] = { NAN, INFINITY, -INFINITY };
    Run run;
    save_good(&run);
    const float weight = run.model.params[19];
    for (size_t i = 0; i < LENGTH(values); i++) {
        run.model.params[19] = values[i];
        run.args.resume = run.args.init_from = NULL;
        unlink(good);
        save(&run, 3, 0);
        assert_int_equal(access(good, F_OK), -1);
        save_not_finite(&run);
        run.args.resume = good;
        assert_dies_saying(load, &run, 2, good, "\"weight\" has values that are no numbers",
                           "use an earlier checkpoint");
        run.args.resume = NULL;
        run.args.init_from = good;
        assert_refused(&run, "\"weight\" has values that are no numbers");
    }
    run.model.params[19] = weight;
    run.optim.state[0][19] = INFINITY;
    save(&run, 3, 0);
    run.args.resume = good;
    assert_int_equal(child_run(load, &run), 0);
    run_free(&run);
}

static void save_in_child(const void *run)
{
    checkpoint_save(&((Run *)run)->checkpoint);
}

static void init_in_child(const void *context)
{
    Run *run = (Run *)context;
    checkpoint_init(&run->checkpoint, &run->args, &run->optim, &run->sampler, &run->dataset, 4);
}

static void init_as_rank_1(const void *run)
{
    log_set_rank(1, 4);
    init_in_child(run);
}

/* The state that --amp fp16 saves, here from host memory instead of a GPU's. */
static void test_loss_scale(void **state)
{
    (void)state;
    static const struct {
        LossScale scale;
        const char *reason;
    } bad[] = {
        { { .scale = INFINITY }, "is \"inf 0 0\", not a scale" },
        { { .scale = 0 }, "is \"0 0 0\"" },
        { { .scale = -1 }, "is \"-1 0 0\"" },
        { { .scale = 1, .good_steps = -1 }, "is \"1 -1 0\"" },
        { { .scale = 1, .skipped = 2 }, "is \"1 0 2\"" }, // skipped 2 of one step
    };
    LossScale scale = { .scale = 1 };
    Run run;
    save_good(&run);
    run.device.loss_scale = &scale; // as a GPU has with --amp fp16
    if (!loss_scale_save(&run.device, (char[LOSS_SCALE_TEXT_BYTES]){ "" })) {
        run_free(&run);
        skip(); // a build without CUDA
    }
    run.args.resume = good;
    for (size_t i = 0; i < LENGTH(bad); i++) {
        scale = bad[i].scale;
        save(&run, 3, 0);
        assert_refused(&run, bad[i].reason);
    }
    scale = (LossScale){ .scale = 1024, .good_steps = 7, .skipped = 1 };
    save(&run, 3, 0);
    scale = (LossScale){ .scale = 65536 };
    assert_int_equal(checkpoint_load(&run.checkpoint), 3);
    assert_true(scale.scale == 1024 && scale.good_steps == 7 && scale.skipped == 1);
    run_free(&run);
}

/* An impossible folder, under a file. Rank 0 reports it before the training. */
static void test_no_folder(void **state)
{
    (void)state;
    Run run;
    save_good(&run);
    char below[128];
    snprintf(below, sizeof below, "%s/below", good);
    run.args.checkpoint_dir = below;
    assert_dies_saying(save_in_child, &run, 1, "File exists", "--checkpoint-dir");
    assert_dies_saying(init_in_child, &run, 2, below, "Not a directory", "--checkpoint-dir");
    assert_int_equal(child_run(init_as_rank_1, &run), 0); // it saves nothing

    char dir[PATH_MAX]; // the longest path, which leaves no room for a temporary file's; too long
    const size_t longest = PATH_MAX - sizeof "/epoch_3.safetensors";
    memset(dir, '/', sizeof dir);
    memcpy(dir, folder, strlen(folder));
    run.args.checkpoint_dir = dir;
    dir[longest] = '\0';
    assert_dies_saying(save_in_child, &run, 1, "fatal: cannot write /tmp/");
    dir[longest] = '/';
    dir[longest + 1] = '\0';
    assert_dies_saying(save_in_child, &run, 1, "fatal: the path of --checkpoint-dir is too long");
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edited),     cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_other_runs), cmocka_unit_test(test_step_too_large),
        cmocka_unit_test(test_warnings),   cmocka_unit_test(test_one_rank_warns),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_loss_scale), cmocka_unit_test(test_course),
        cmocka_unit_test(test_epochs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
