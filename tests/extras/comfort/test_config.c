/* The configuration file: what it sets, what overrides it, what is refused; and the shipped one. */
#include <limits.h>
#include <sys/stat.h>

#include "common/base/rng.h"
#include "tests/common/base/args_child.h"
#include "tests/helpers/folder.h"

static char config[64]; // a file in the test's folder

/* Like run, with this text in the file that --config names. */
static int run_config(Step step, const char *text, const char *line)
{
    char whole[4096];
    file_put(config, text, strlen(text));
    snprintf(whole, sizeof whole, "--config %s %s", config, line);
    return run(step, whole);
}

static void test_config(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line, *first, *second;
    } cases[] = {
        { "", "", "batch_size 32", "lr 0.01" },
        { "\xef\xbb\xbf"
          "batch_size: 64\r\nlr: 0.5\r\n",
          "", "batch_size 64", "lr 0.5" },
        { "# nothing\n\n", "", "batch_size 32", "lr 0.01" },
        { "batch_size: 64\nlr: 0.5\n", "", "batch_size 64", "lr 0.5" },
        { "batch-size: 64\nlr: 0.5\n", "--lr 0.25", "batch_size 64", "lr 0.25" },
        { "---\n{epochs: 3, save_every: \"2\"}\n...\n", "", "epochs 3", "save_every 2" },
        { "epochs: 3\nsave_every: 2", "7", "epochs 7", "save_every 2" },
        { "data_dir: 'a b'\nresume: \"\\u00e4\"\n", "", "data_dir a b", "resume \xc3\xa4" },
        { "init_from: x\nresume: y\n", "--resume none", "init_from x", "resume (null)" },
        { "metrics_dir: no\nresume: ~\n", "", "metrics_dir (null)", "resume (null)" },
        { "dropout: false\nmax_steps: null\n", "", "dropout 0", "max_steps 18446744073709551615" },
        { "data_dir: ~/d\nmetrics_dir: \"~/m\"\n", "", "data_dir /a/home/d",
          "metrics_dir /a/home/m" },
        { "init_from: x\n", "--resume y", "init_from (null)", "resume y" },
        { "nproc: 4\ntimeout: 5\nbucket_cap_mb: wrong\n", "", "nproc 0", "timeout 300" },
        { "model: linear\n", "", "dataset random", "lr 0.001" },
        { "optimizer: adam\n", "--optimizer sgd", "lr 0.01", "momentum 0.9" },
        // The command line overrides the file.
        { "momentum: 0.5\n", "--optimizer adam", "optimizer adam", "momentum 0" },
        { "momentum: 0.5\n", "", "optimizer sgd", "momentum 0.5" },
        { "dataset: mnist\n", "--model linear", "model linear", "dataset random" },
        { "dataset: mnist\n", "--model cnn", "model cnn", "dataset mnist" },
        { "global_batch_size: 64\n", "--batch-size 8", "batch_size 8", "global_batch_size 0" },
        { "batch_size: 64\n", "--global-batch-size 8", "batch_size 64", "global_batch_size 8" },
        { "batch_size: 8\nglobal_batch_size: none\n", "", "batch_size 8", "global_batch_size 0" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(run_config(STEP_SINGLE, cases[i].text, cases[i].line), 0);
        assert_string_equal(err, "");
        assert_value(cases[i].first);
        assert_value(cases[i].second);
    }
}

static void test_config_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line, *message;
    } cases[] = {
        { "lr: 1\nbatchsize: 3\n", "", "/c.yaml:2: batchsize is no option" },
        { "\n\nlr: fast\n", "", "/c.yaml:3: lr must be a number from 0 to 1000, not \"fast\"" },
        { "lr: fast\n", "--lr 1", "/c.yaml:1: lr must be" },
        { "lr: 1\n\nlr: 2\n", "", "/c.yaml:3: lr is already set in line 1" },
        { "batch-size: 1\nbatch_size: 2\n", "", "/c.yaml:2: batch-size is already set in line 1" },
        { "seed: 1\nlr: [1, 2]\n", "", "/c.yaml:2: names and values are single words" },
        { "seed: 1\nlr:\n  a: 2\n", "", "/c.yaml:3: names and values are single words" },
        { "? [a]\n: 1\n", "", "/c.yaml:1: names and values are single words" },
        { "lr: *a\n", "", "/c.yaml:1: names and values are single words" },
        { "seed: 1\nlr:\n", "", "/c.yaml:2: lr has no value" },
        { "lr: ~\n", "", "/c.yaml:1: lr must be a number from 0 to 1000, not \"~\"" },
        { "data_dir: null\n", "", "/c.yaml:1: data-dir cannot be off" },
        { "checkpoint_dir: $HOME/x\n", "",
          "/c.yaml:1: checkpoint-dir $HOME/x: variables are not replaced here; write the path" },
        { "lr: 1\nresume: '${A}'\n", "", "/c.yaml:2: resume ${A}: variables are not" },
        { "data_dir: ''\n", "", "/c.yaml:1: data-dir must not be empty" },
        { "data_dir: \"a\\0b\"\n", "", "/c.yaml:1: names and values have no NUL bytes" },
        { "data_dir: !!binary L3RtcA==\n", "", "/c.yaml:1: names and values have no !tags" },
        { "seed: 1\nlr: !!float 1\n", "", "/c.yaml:2: names and values have no !tags" },
        { "!x lr: 1\n", "", "/c.yaml:1: names and values have no !tags" },
        { "a: &a [x,x]\nb: &b [*a,*a]\nlr: *b\n", "", "/c.yaml:1: a is no option" },
        { "seed: &a 1\nlr: *a\n", "", "/c.yaml:2: names and values are single words" },
        { "<<: {lr: 1}\n", "", "/c.yaml:1: << is no option" },
        { "lr: 1\n...\nseed: 1\n", "", "/c.yaml:3: " },
        { "%YAML 9.9\n---\nlr: 1\n", "", "/c.yaml:1: not YAML: found incompatible" },
        { "%YAML 1.1\nlr: 1\n", "", "/c.yaml:2: not YAML: " },
        { "\xff\xfel\0r\0:\0 \0"
          "1\0",
          "", "/c.yaml:1: not YAML: " }, // UTF-16, cut at NUL
        { "seed: 1\n\nlr: a\x01z\n", "", "/c.yaml:3: not YAML: control characters" },
        { "lr: |\n  1\n  2\n", "", "/c.yaml:1: lr must be a number" },
        { "lr: 1\n@seed: 2\n", "", "/c.yaml:2: not YAML: " },
        { "config: x.yaml\n", "", "/c.yaml:1: config works on the command line only" },
        { "help: on\n", "", "/c.yaml:1: help works on the command line only" },
        { "- lr\n- seed\n", "", "/c.yaml:1: a line must be \"name: value\"" },
        { "lr 0.1\n", "", "/c.yaml:1: a line must be \"name: value\"" },
        { "lr: 1\n---\nseed: 1\n", "", "/c.yaml:2: a second document begins" },
        { "lr: 1\n seed: 1\n", "", "/c.yaml:2: not YAML: mapping values are not allowed" },
        { "lr: 1\nseed: \"1\n", "", "not YAML: " },
        { "lr: 1\n\nseed: \xff\n", "", "/c.yaml:3: not YAML: invalid leading UTF-8 octet" },
        { "lr: 1\n\tseed: 1\n", "", "/c.yaml:2: not YAML: " },
        { "epochs: 1\noptimizer: adam\nmomentum: 0\n", "", "/c.yaml:3: momentum does not go with" },
        { "optimizer: adam\n", "--momentum 0.9", "--momentum does not go with" },
        { "init_from: x\nresume: y\n", "", "/c.yaml:1: init-from does not go with this --resume" },
        { "resume: y\n", "--init-from x", "--init-from does not go with this --resume" },
        { "model: linear\n", "--dataset mnist", "--dataset does not go with" },
        { "model: linear\ndataset: mnist\n", "", "/c.yaml:2: dataset does not go with" },
        { "batch_size: 8\nglobal_batch_size: 16\n", "",
          "/c.yaml:2: global-batch-size does not go with" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        assert_refused(run_config(STEP_SINGLE, cases[i].text, cases[i].line), cases[i].message);
}

static void test_no_file(void **state)
{
    (void)state;
    assert_refused(run(STEP_SINGLE, "--config /no/such/file"),
                   "cannot read the configuration file /no/such/file: No such");
    assert_refused(run(STEP_SINGLE, "--config /"),
                   "the configuration file / is not a regular file");
    assert_refused(run(STEP_SINGLE, "--config /dev/zero"),
                   "/dev/zero is larger than 1048576 bytes");
}

/* Any bytes lead to status 0 or 2, with one line, and soon. */
static void test_config_hostile(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    char *text = malloc(MIB + 1), line[80];
    snprintf(line, sizeof line, "--config %s", config);

    static const char *const repeated[] = {
        "[", "{", "- ", "? ", "&a ", "!a ", "lr: 1\n", "a", "\""
    };
    for (size_t i = 0; i < LENGTH(repeated); i++) {
        const size_t length = strlen(repeated[i]), size = MIB / length * length;
        for (size_t at = 0; at < size; at += length)
            memcpy(text + at, repeated[i], length);
        file_put(config, text, size);
        assert_refused(run(STEP_SINGLE, line), "/c.yaml");
    }

    memset(text, '#', MIB + 1);
    file_put(config, text, MIB);
    assert_int_equal(run(STEP_SINGLE, line), 0);
    file_put(config, text, MIB + 1);
    assert_refused(run(STEP_SINGLE, line), "larger than 1048576 bytes");

    static const char sane[] = "batch_size: 64\nlr: \"0.5\"\nseed: 1\ndata_dir: 'a name as long as "
                               "all the rest together'\n";
    Rng rng;
    rng_seed(&rng, 1);
    int num_sane = 0;
    for (int i = 0; i < 150; i++) {
        memcpy(text, sane, sizeof sane);
        for (int change = 0; change < 1 + i % 4; change++)
            text[rng_next(&rng) % (sizeof sane - 1)] = (char)rng_next(&rng);
        file_put(config, text, sizeof sane - 1);
        const int status = run(STEP_SINGLE, line);
        if (status == 0)
            num_sane++;
        else
            assert_refused(status, "/c.yaml:");
    }
    assert_in_range(num_sane, 1, 149);

    // A value and a name that are too long, and a NUL.
    memset(text, '7', MIB);
    memcpy(text, "lr: ", 4);
    file_put(config, text, MIB);
    assert_refused(run(STEP_SINGLE, line), "/c.yaml:1: lr must be a number from 0 to 1000");
    memset(text, 'r', MIB);
    memcpy(text + 1000, ": 1\n", 4);
    file_put(config, text, 1004);
    assert_refused(run(STEP_SINGLE, line), "/c.yaml:1: rrrr");
    file_put(config, "lr: 1\n\nse\0ed: 1\n", 16);
    assert_refused(run(STEP_SINGLE, line), "/c.yaml:3: not YAML: control characters");
    free(text);

    unlink(config);
    assert_int_equal(symlink(config, config), 0);
    assert_refused(run(STEP_SINGLE, line), "Too many levels of symbolic links");
    unlink(config);
    assert_int_equal(mkfifo(config, 0600), 0); // no process ever writes into it
    assert_refused(run(STEP_SINGLE, line), "is not a regular file");
    unlink(config);
}

/* The file at the top of the repository, as it is and with all its keys uncommented. */
static void test_shipped_config(void **state)
{
    (void)state;
    char text[8192] = "", line[160];
    FILE *file = fopen("config.yaml", "r");
    assert_non_null(file);
    size_t size = 0;
    bool is_there[MAX_OPTIONS] = { false };
    while (fgets(line, sizeof line, file) != NULL) {
        const bool key = line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';
        assert_true(key || line[0] == '\n' || strncmp(line, "# ", 2) == 0);
        size += (size_t)snprintf(text + size, sizeof text - size, "%s", line + key);
        if (key) {
            const Option *option =
                option_find(args_options, STEP_SINGLE, line + 1, strcspn(line + 1, ":"));
            assert_non_null(option);
            is_there[option - args_options] = true;
        }
    }
    fclose(file);

    for (const Option *option = args_options; option->name != NULL; option++)
        if (option == option_find(args_options, STEP_SINGLE, option->name, strlen(option->name)))
            assert_int_equal(is_there[option - args_options], option->kind != OPTION_ACTION);
    for (Step step = STEP_SINGLE; step <= STEP_FAULT; step++) {
        assert_int_equal(run(step, "--config config.yaml --model linear"), 0);
        assert_defaults("linear", step == STEP_FAULT);
        assert_int_equal(run_config(step, text, ""), 0);
        assert_defaults("cnn", false);
    }
}

static char program[128]; // a copy of this one, see main

static int run_copy(const char *line)
{
    return child_run(run_command, &(Command){ STEP_SINGLE, program, line });
}

/* A program in a folder of the repository reads ../config.yaml, wherever it is started. */
static void test_config_found(void **state)
{
    (void)state;
    char command[PATH_MAX + 256], exe[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    snprintf(program, sizeof program, "%s/01_step/train", folder);
    snprintf(command, sizeof command, "mkdir %s/01_step && cp '%s' %s", folder, exe, program);
    assert_int_equal(system(command), 0);

    assert_int_equal(run_copy(""), 0);
    assert_defaults("cnn", false);
    snprintf(command, sizeof command, "echo 'batch_size: 77' > %s/config.yaml", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(run_copy("--seed 5"), 0);
    assert_value("batch_size 77");
    assert_value("seed 5");
    assert_int_equal(run_copy("--config /dev/null"), 0);
    assert_value("batch_size 32");
    snprintf(command, sizeof command, "echo 'batch_size: none' > %s/config.yaml", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(run_copy(""), 2);
    assert_has(err, folder);
    assert_has(err, "/config.yaml:1: batch-size must be a whole number");
    assert_int_equal(run_copy("--help"), 0);
}

static int name_config(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(config, sizeof config, "%s/c.yaml", folder);
    return 0;
}

int main(int argc, char **argv)
{
    if (strcmp(program_invocation_short_name, "train") == 0) { // see test_config_found
        Args args;
        args_parse(&args, STEP_SINGLE, argc, argv);
        dump(stdout, &args);
        return 0;
    }
    unsetenv("LOCAL_RANK");
    setenv("HOME", "/a/home", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),         cmocka_unit_test(test_config_refused),
        cmocka_unit_test(test_config_hostile), cmocka_unit_test(test_shipped_config),
        cmocka_unit_test(test_config_found),   cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, name_config, remove_folder);
}
