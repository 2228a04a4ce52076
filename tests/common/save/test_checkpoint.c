/* Checkpoints: saved state is restored bit for bit, and the files match the design. */
#include "common/base/comfort.h"
#include "common/save/safetensors.h"
#include "tests/common/save/checkpoint_run.h"
#include "tests/helpers/leaves.h"

static const struct {
    const char *model, *optimizer;
    double momentum;
    int num_states;
} kinds[] = {
    { "linear", "sgd", 0, 0 },   { "linear", "sgd", 0.9, 1 },    { "linear", "adam", 0, 2 },
    { "linear", "adamw", 0, 2 }, { "linear", "adadelta", 0, 2 }, { "cnn", "sgd", 0.9, 1 },
    { "cnn", "adamw", 0, 2 },
};

/* The resumed run and the one that wrote the file stay identical, also in the next step. */
static void test_resume(void **state)
{
    (void)state;
    char path[64];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        snprintf(path, sizeof path, "%s/%s_%s.safetensors", folder, kinds[k].model,
                 strcmp(kinds[k].model, "cnn") == 0 ? "digits" : "random");
        Run run, resumed;
        run_init(&run, kinds[k].model, kinds[k].optimizer, kinds[k].momentum, 1);
        run_init(&resumed, kinds[k].model, kinds[k].optimizer, kinds[k].momentum, 2);
        assert_int_equal(run.optim.num_states, kinds[k].num_states);
        for (int i = 0; i < 3; i++)
            run_step(&run);
        save(&run, 3, 96);

        resumed.args.seed = 1; // the seed only affects the initial weights
        resumed.args.resume = path;
        resumed.args.init_from = "/nowhere"; // resume takes precedence
        assert_int_equal(checkpoint_load(&resumed.checkpoint), 3);
        assert_int_equal(resumed.sampler.epoch, 3);
        assert_int_equal(resumed.sampler.position, 96 / 4); // shared by four ranks
        assert_same(&run, &resumed);
        run_step(&run);
        run_step(&resumed);
        assert_same(&run, &resumed);
        run_free(&run);
        run_free(&resumed);
    }
}

static void test_fresh_start(void **state)
{
    (void)state;
    Run run, other;
    run_init(&run, "linear", "sgd", 0.9, 1);
    run_init(&other, "linear", "sgd", 0.9, 1);
    assert_int_equal(checkpoint_load(&run.checkpoint), 0);
    assert_int_equal(run.sampler.position, 0);
    assert_same(&run, &other);
    run_free(&run);
    run_free(&other);
}

/* A fresh run's file has the format's structure and PyTorch's names, layout and values. */
static void test_as_pytorch_has_it(void **state)
{
    (void)state;
    const char *const models[] = { "linear", "cnn" };
    for (int i = 0; i < 2; i++) {
        Run run;
        run_init(&run, models[i], "adam", 0, 0);
        save(&run, 0, 0);
        char command[128];
        snprintf(command, sizeof command,
                 "python3 tests/common/save/check_checkpoint.py %s/epoch_0.safetensors", folder);
        assert_int_equal(system(command), 0);
        run_free(&run);
    }
}

static void assert_metadata(const Safetensors *file, const char *key, const char *value)
{
    const char *found = safetensors_metadata(file, key);
    if (found == NULL || strcmp(found, value) != 0)
        fail_msg("%s is \"%s\" instead of \"%s\"", key, found == NULL ? "(none)" : found, value);
}

static void test_metadata(void **state)
{
    (void)state;
    static const char *const cnn[][2] = {
        { "format", "pt" },
        { "ddp_c_version", "1" },
        { "model", "cnn" },
        { "dataset", "digits" },
        { "num_samples", "1437" },
        { "seed", "18446744073709551615" },
        { "world_size", "4" },
        { "global_batch_size", "32" },
        { "optimizer", "sgd" },
        { "lr", "0.01" },
        { "momentum", "0.9" },
        { "weight_decay", "0" },
        { "dropout", "on" },
        { "lr_schedule", "constant" },
        { "warmup_steps", "0" },
        { "clip_norm", "0" },
        { "amp", "off" },
        { "tf32", "off" },
        { "input_shape", "1,28,28" },
        { "mean", "0.1307" },
        { "std", "0.3081" },
        { "class_labels", "0,1,2,3,4,5,6,7,8,9" },
        { "epoch", "7" },
        { "position", "64" },
        { "step", "1" },
    };
    char path[64], text[16];
    snprintf(path, sizeof path, "%s/cnn_digits.safetensors", folder);
    Run run;
    run_init(&run, "cnn", "sgd", 0.9, 0);
    run.args.seed = UINT64_MAX;
    run_step(&run);
    save(&run, 7, 64);
    run_free(&run);

    Safetensors file;
    assert_true(safetensors_open(&file, path, WITH_DATA));
    for (size_t i = 0; i < sizeof cnn / sizeof *cnn; i++)
        assert_metadata(&file, cnn[i][0], cnn[i][1]);
    snprintf(text, sizeof text, "%08x", safetensors_checksum(&file, false));
    assert_metadata(&file, "tensors_checksum", text);
    assert_string_equal(file.tensor[0].name, "optimizer.step");
    assert_string_equal(file.tensor[1].name, "conv1.weight");
    assert_string_equal(file.tensor[9].name, "optimizer.conv1.weight.momentum_buffer");
    assert_int_equal(file.num_tensors, 1 + 8 + 8);
    safetensors_free(&file);

    run_init(&run, "linear", "sgd", 0, 0);
    run.args.dropout = false;
    run.args.lr = 0.0123456789012345; // every digit is saved, or a resumed run's would differ
    save(&run, 7, 0);
    run_free(&run);
    snprintf(path, sizeof path, "%s/epoch_7.safetensors", folder);
    assert_true(safetensors_open(&file, path, WITH_DATA));
    assert_metadata(&file, "dropout", "off");
    assert_metadata(&file, "lr", "0.0123456789012345");
    assert_metadata(&file, "input_shape", "20");
    assert_metadata(&file, "class_labels", "");
    assert_metadata(&file, "mean", "0");
    assert_metadata(&file, "std", "1");
    safetensors_free(&file);
}

/* Saves, resumes, and meets files that are cut off, and one of another run. */
static void use_files(void *context)
{
    Run *runs = context, *run = &runs[0];
    char path[64], cut[64];
    snprintf(path, sizeof path, "%s/epoch_7.safetensors", folder);
    snprintf(cut, sizeof cut, "%s/cut", folder);
    save(run, 7, 0);
    size_t bytes;
    char *content = get_file(path, &bytes);
    Safetensors file;
    for (size_t kept = 0; kept < bytes; kept += bytes / 3) {
        FILE *part = fopen(cut, "wb");
        fwrite(content, 1, kept, part);
        fclose(part);
        assert_false(checkpoint_resume(&run->checkpoint, &file, cut));
        safetensors_free(&file);
    }
    free(content);
    assert_true(checkpoint_resume(&run->checkpoint, &file, path));
    safetensors_free(&file);
    run->args.resume = path;
    checkpoint_load(&run->checkpoint);
    assert_false(checkpoint_resume(&runs[1].checkpoint, &file, path));
    safetensors_free(&file);
}

static void test_files_leave_nothing(void **state)
{
    (void)state;
    Run runs[2];
    run_init(&runs[0], "linear", "adam", 0, 0);
    run_init(&runs[1], "linear", "sgd", 0, 0);
    assert_leaves_nothing(use_files, runs);
    run_free(&runs[0]);
    run_free(&runs[1]);
}

/* The lines, the files' names, and missing folders. The same run writes the same bytes into another
 * folder. */
static void test_lines_and_bytes(void **state)
{
    (void)state;
    const char *const dirs[] = { "one", "another/and/deeper/" };
    char dir[64], path[128], expected[512], output[512];
    char *content[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        Run run;
        run_init(&run, "linear", "adam", 0, 5);
        snprintf(dir, sizeof dir, "%s/%s", folder, dirs[i]);
        run.args.checkpoint_dir = dir;
        run_step(&run);

        int ends[2];
        assert_int_equal(pipe(ends), 0);
        const int terminal = dup(STDOUT_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        run.sampler.epoch = 4;
        checkpoint_save(&run.checkpoint);
        sampler_seek(&run.sampler, 64); // in mid-epoch only the end of the run is saved
        checkpoint_save(&run.checkpoint);
        sampler_seek(&run.sampler, run.sampler.total);
        checkpoint_save_final(&run.checkpoint);
        dup2(terminal, STDOUT_FILENO);
        close(terminal);
        close(ends[1]);
        const ssize_t length = read(ends[0], output, sizeof output - 1);
        close(ends[0]);
        assert_true(length > 0);
        output[length] = '\0';
        snprintf(expected, sizeof expected,
                 "Epoch 3 | Training checkpoint saved at %s/epoch_4.safetensors\n"
                 "Epoch 4 | Training checkpoint saved at %s/linear_random.safetensors\n",
                 dir, dir);
        assert_string_equal(output, expected);

        snprintf(path, sizeof path, "%s/linear_random.safetensors", dir);
        content[i] = get_file(path, &bytes[i]);
        run_free(&run);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(content[0], content[1], bytes[0]);
    free(content[0]);
    free(content[1]);
}

static void assert_weights(const Run *run, const float *weight, const float *bias)
{
    float found[20];
    model_export(&run->model, 0, run->model.params, found);
    assert_memory_equal(found, weight, sizeof found);
    model_export(&run->model, 1, run->model.params, found);
    assert_memory_equal(found, bias, sizeof *found);
}

/* A file written by the Python package: its 20 weights begin at byte 132, behind the bias. */
static void test_init_from_pytorch(void **state)
{
    (void)state;
    const char *golden = "tests/golden/losses/linear_sgd_w1.safetensors";
    size_t bytes;
    char *content = get_file(golden, &bytes);
    float weight[20], bias[1];
    memcpy(bias, content + 128, sizeof bias);
    memcpy(weight, content + 132, sizeof weight);
    free(content);

    Run run;
    run_init(&run, "linear", "adam", 0, 3);
    run.args.init_from = golden;
    assert_int_equal(checkpoint_load(&run.checkpoint), 0);
    assert_int_equal(run.model.step, 0);
    assert_weights(&run, weight, bias);
    run_free(&run);
}

/* Weights under a wrapper's names, among unrelated tensors. */
static void test_init_from_others(void **state)
{
    (void)state;
    if (!has_extras)
        skip(); // a build without extras/comfort/adopt.c
    float weight[20];
    for (int i = 0; i < 20; i++)
        weight[i] = 1.0f / (float)(i + 3);
    const float bias = -3;
    char path[64];
    snprintf(path, sizeof path, "%s/others.safetensors", folder);
    Safetensors file;
    safetensors_create(&file, path);
    safetensors_add(&file, "module.weight", FLOAT32, 2, (size_t[]){ 1, 20 }, weight);
    safetensors_add(&file, "module.bias", FLOAT32, 1, (size_t[]){ 1 }, &bias);
    safetensors_add(&file, "steps", INT32, 0, NULL, &bias);
    safetensors_add_metadata(&file, "checksum", "of another kind");
    assert_true(safetensors_commit(&file));

    Run run;
    run_init(&run, "linear", "sgd", 0, 3);
    run.args.init_from = path;
    assert_int_equal(child_run(load, &run), 0);
    assert_non_null(strstr(err, "are those of a wrapper (\"module.weight\"); taken without it\n"));
    const int saved = mute(STDERR_FILENO);
    checkpoint_load(&run.checkpoint);
    unmute(STDERR_FILENO, saved);
    assert_weights(&run, weight, &bias);

    weight[19] = NAN;
    assert_true(safetensors_commit(&file));
    safetensors_free(&file);
    assert_int_equal(child_run(load, &run), 2);
    assert_non_null(strstr(err, "\"weight\" has values that are no numbers"));

    run_free(&run);
}

/* Writes a file with one type of weights, under these names; bytes of weight and bias. */
static void put_weights(const char *path, const char *type, const char *weight, const char *bias,
                        const void *bytes, size_t size)
{
    char header[512];
    const int length =
        snprintf(header + 8, sizeof header - 8,
                 "{\"%s\":{\"dtype\":\"%s\",\"shape\":[1,20],\"data_offsets\":[0,%zu]},"
                 "\"%s\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}}",
                 weight, type, 20 * size, bias, type, 20 * size, 21 * size);
    memcpy(header, &(uint64_t){ (uint64_t)length }, 8);
    FILE *file = fopen(path, "wb");
    fwrite(header, 1, 8 + (size_t)length, file);
    fwrite(bytes, size, 21, file);
    assert_int_equal(fclose(file), 0);
}

/* Wrappers insert parts into the names, in any order; any other name is reported. */
static void test_names_of_wrappers(void **state)
{
    (void)state;
    if (!has_extras)
        skip(); // a build without extras/comfort/adopt.c
    static const char *const wrappers[][2] = {
        { "module._orig_mod.weight", "module._orig_mod.bias" },
        { "_orig_mod.module.weight", "_orig_mod.module.bias" },
        { "model._orig_mod.weight", "model._orig_mod.bias" },
        { "_forward_module.model.weight", "_forward_module.model.bias" },
        { "_orig_mod.weight", "bias" },
        { "_fsdp_wrapped_module._checkpoint_wrapped_module.weight", "module.module.bias" },
    };
    static const float values[21] = { 0.5f, [19] = 2, [20] = -3 };
    char path[64];
    Run run;
    run_init(&run, "linear", "sgd", 0, 3);
    snprintf(path, sizeof path, "%s/wrapped.safetensors", folder);
    run.args.init_from = path;
    for (size_t i = 0; i < LENGTH(wrappers); i++) {
        put_weights(path, "F32", wrappers[i][0], wrappers[i][1], values, 4);
        run.model.params[0] = run.model.params[20] = 7;
        const int saved = mute(STDERR_FILENO);
        checkpoint_load(&run.checkpoint);
        unmute(STDERR_FILENO, saved);
        assert_weights(&run, values, values + 20);
    }
    put_weights(path, "F32", "model.weight", "net.bias", values, 4);
    assert_refused(&run, "has no tensor \"bias\", which model linear needs; it has \"net.bias\"");
    put_weights(path, "F32", "Weight", "other", values, 4);
    assert_refused(&run, "has no tensor \"weight\", which model linear needs; it has \"Weight\"");
    put_weights(path, "F32", "model.weight", "module.weight", values, 4);
    assert_refused(&run, "has \"model.weight\" and \"module.weight\"");
    run_free(&run);
}

/* float16, bfloat16 and float64, with expected values from Python's struct.pack. */
static void test_types_of_others(void **state)
{
    (void)state;
    if (!has_extras)
        skip(); // a build without extras/comfort/adopt.c
    static const uint16_t f16[21] = { 0x3c00, 0xb800, 0x7bff, 0x0001,
                                      0x2e66, 0x8000, 0x03ff, [20] = 0xc200 };
    static const uint16_t bf16[21] = { 0x3f80, 0xbf00, 0x4780, 0x3380, 0x3dcd, [20] = 0xc040 };
    static const double f64[21] = { 1, -0.5, 65504, 0x1p-24, 0.1, -0.0, 1e-60, [20] = -3 };
    static const struct {
        const char *type;
        const void *bytes;
        size_t size;
        float weight[20];
    } kinds[] = {
        { "F16", f16, 2, { 1, -0.5f, 65504, 0x1p-24f, 0.0999755859375f, -0.0f, 0x1.ff8p-15f } },
        { "BF16", bf16, 2, { 1, -0.5f, 65536, 0x1p-24f, 0.10009765625f } },
        { "F64", f64, 8, { 1, -0.5f, 65504, 0x1p-24f, 0.1f, -0.0f } },
    };
    char path[64], line[64];
    Run run;
    run_init(&run, "linear", "sgd", 0, 3);
    snprintf(path, sizeof path, "%s/types.safetensors", folder);
    run.args.init_from = path;
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        put_weights(path, kinds[i].type, "weight", "bias", kinds[i].bytes, kinds[i].size);
        assert_int_equal(child_run(load, &run), 0);
        snprintf(line, sizeof line, "weights are %s, converted to float32\n", kinds[i].type);
        assert_non_null(strstr(err, line));
        const int saved = mute(STDERR_FILENO);
        checkpoint_load(&run.checkpoint);
        unmute(STDERR_FILENO, saved);
        assert_weights(&run, kinds[i].weight, &(float){ -3 });
    }
    const uint16_t infinite[21] = { 0x7c00 };
    put_weights(path, "F16", "weight", "bias", infinite, 2);
    assert_refused(&run, "\"weight\" has values that are no numbers");
    put_weights(path, "I32", "weight", "bias", f64, 4);
    assert_refused(&run, "\"weight\" is int32 instead of float32");
    put_weights(path, "F8_E5M2", "weight", "bias", f64, 1);
    assert_refused(&run, "\"weight\" is F8_E5M2 instead of float32");
    run_free(&run);
}

/* From another optimizer's checkpoint only the weights are taken. */
static void test_init_from_ours(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/epoch_1.safetensors", folder);
    Run run, other;
    run_init(&run, "cnn", "adam", 0, 1);
    run_step(&run);
    save(&run, 1, 0);

    run_init(&other, "cnn", "sgd", 0.9, 2);
    other.args.init_from = path;
    assert_int_equal(child_run(load, &other), 0);
    assert_string_equal(err, "");
    assert_int_equal(checkpoint_load(&other.checkpoint), 0);
    assert_int_equal(other.model.step, 0);
    assert_same_array(&run, &other, run.model.params, other.model.params);
    run_free(&run);
    run_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_leave_nothing),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_fresh_start),
        cmocka_unit_test(test_as_pytorch_has_it),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_lines_and_bytes),
        cmocka_unit_test(test_init_from_pytorch),
        cmocka_unit_test(test_init_from_others),
        cmocka_unit_test(test_names_of_wrappers),
        cmocka_unit_test(test_types_of_others),
        cmocka_unit_test(test_init_from_ours),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
