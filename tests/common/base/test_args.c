/* The command line: each option's result, the steps that have it, and the error messages. */
#include "common/base/comfort.h"
#include "tests/common/base/args_child.h"

#define EIGHT_FAULTS "kill:0:1,kill:0:2,kill:0:3,kill:0:4,kill:0:5,kill:0:6,kill:0:7,kill:0:8"

static void test_defaults(void **state)
{
    (void)state;
    Args args;
    args_defaults(&args, "cnn");
    assert_int_equal(args.model, MODEL_CNN);
    assert_int_equal(args.dataset, DATASET_DIGITS);
    assert_string_equal(args.data_dir, "data/mnist");
    assert_int_equal(args.dataset_size, 2048);
    assert_int_equal(args.num_samples, 0);
    assert_int_equal(args.epochs, 10);
    assert_int_equal(args.save_every, 5);
    assert_int_equal(args.batch_size, 32);
    assert_int_equal(args.global_batch_size, 0);
    assert_int_equal(args.optimizer, OPTIM_SGD);
    assert_true(args.lr == 0.01 && args.momentum == 0.9 && args.weight_decay == 0);
    assert_true(args.dropout);
    assert_int_equal(args.seed, 0);
    assert_int_equal(args.threads, 0);
    assert_null(args.init_from);
    assert_null(args.resume);
    assert_string_equal(args.checkpoint_dir, "checkpoints");
    assert_null(args.metrics_dir);
    assert_true(args.max_steps == UINT64_MAX);
    assert_int_equal(args.log_interval, 10);
    assert_int_equal(args.device, DEVICE_AUTO);
    assert_int_equal(args.backend, BACKEND_AUTO);
    assert_int_equal(args.all_reduce, ALL_REDUCE_FLAT);
    assert_int_equal(args.reduce_order, ORDER_ANY);
    assert_false(args.check_collectives);
    assert_true(args.bucket_cap_mb == 25 && args.timeout == 300);
    assert_int_equal(args.save_every_steps, 0);
    assert_int_equal(args.keep, 3);
    assert_int_equal(args.check_sync, 0);
    assert_null(args.inject);
    assert_int_equal(args.nproc, 0);
    assert_int_equal(args.local_rank, -1);

    args_defaults(&args, "linear");
    assert_int_equal(args.model, MODEL_LINEAR);
    assert_int_equal(args.dataset, DATASET_RANDOM);
    assert_true(args.lr == 1e-3 && args.momentum == 0 && args.weight_decay == 0);
}

static void test_nothing_given(void **state)
{
    (void)state;
    for (Step step = STEP_SINGLE; step <= STEP_FAULT; step++) {
        const bool resume_auto = step == STEP_FAULT;
        assert_int_equal(run(step, ""), 0);
        assert_defaults("cnn", resume_auto);
        assert_int_equal(run(step, "--model linear"), 0);
        assert_defaults("linear", resume_auto);
    }
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        Step step;
        const char *line, *first, *second;
    } cases[] = {
        { 1, "--batch-size 64", "batch_size 64", "epochs 10" },
        { 1, "--batch_size 64", "batch_size 64", "epochs 10" },
        { 1, "--batch-size=64", "batch_size 64", "epochs 10" },
        { 1, "50 10 --batch_size=64", "epochs 50", "save_every 10" },
        { 1, "50 --batch_size 64 10", "epochs 50", "save_every 10" },
        { 1, "50", "epochs 50", "save_every 5" },
        { 1, "-- 7 3", "epochs 7", "save_every 3" },
        { 1, "0 0", "epochs 0", "save_every 0" },
        { 1, "--epochs 3 --epochs 4", "epochs 4", "save_every 5" },
        { 1, "--optimizer adam", "lr 0.001", "momentum 0" },
        { 1, "--optimizer adamw", "lr 0.001", "weight_decay 0.01" },
        { 1, "--optimizer adadelta", "lr 1", "weight_decay 0" },
        { 1, "--optimizer adadelta --lr 0.5", "lr 0.5", "momentum 0" },
        { 1, "--optimizer adamw --weight-decay 0", "optimizer adamw", "weight_decay 0" },
        { 1, "--model linear --optimizer adadelta", "lr 1", "dataset random" },
        { 1, "--model linear --momentum 0.5", "momentum 0.5", "lr 0.001" },
        { 1, "--model linear --dataset random --dataset-size 7", "dataset random",
          "dataset_size 7" },
        { 1, "--dataset mnist --data-dir=/a=b", "dataset mnist", "data_dir /a=b" },
        { 1, "--seed 18446744073709551615 --dropout off", "seed 18446744073709551615",
          "dropout 0" },
        { 1, "--max-steps 0 --num-samples 0", "max_steps 18446744073709551615", "num_samples 0" },
        { 1, "--max-steps 9 --num-samples 100", "max_steps 9", "num_samples 100" },
        { 1, "--resume a.safetensors --init-from none", "resume a.safetensors",
          "init_from (null)" },
        { 1, "--resume none --init-from b", "resume (null)", "init_from b" },
        { 1, "--resume none --metrics-dir off", "resume (null)", "metrics_dir (null)" },
        { 1, "--metrics-dir m --checkpoint-dir c", "metrics_dir m", "checkpoint_dir c" },
        { 1, "--global-batch-size 64", "global_batch_size 64", "batch_size 32" },
        { 1, "--global-batch-size none --batch-size 8", "global_batch_size 0", "batch_size 8" },
        { 1, "--lr 1e-2 --weight-decay .5", "lr 0.01", "weight_decay 0.5" },
        { 1, "--threads 3 --log-interval 1", "threads 3", "log_interval 1" },
        { 1, "--threads auto --device cpu", "threads 0", "device cpu" },
        { 2, "--nproc 4 --backend tcp", "nproc 4", "backend tcp" },
        { 2, "--timeout 2.5 --bucket-cap-mb 0.5", "timeout 2.5", "bucket_cap_mb 0.5" },
        { 5, "--reduce-order fixed", "reduce-order fixed", "all-reduce flat" },
        { 5, "--save-every-steps 7 --keep 2", "save_every_steps 7", "keep 2" },
        { 5, "--resume none", "resume_auto 0", "resume (null)" },
        { 5, "--resume x", "resume_auto 0", "resume x" },
        { 5, "--init-from b", "resume_auto 1", "init_from b" }, // if there is no checkpoint
        { 5, "--resume auto --init-from b", "resume_auto 1", "init_from b" },
        { 5, "--check-sync 9 --inject kill:1:2", "check_sync 9", "inject kill:1:2" },
        { 5, "--inject none", "check_sync 0", "inject (null)" },
        { 5, "--inject " EIGHT_FAULTS "," EIGHT_FAULTS, "inject " EIGHT_FAULTS "," EIGHT_FAULTS,
          "keep 3" },
        { 3, "--local_rank=1 --check-collectives on", "local_rank 1", "check_collectives 1" },
        { 3, "--local-rank 0", "local_rank 0", "LOCAL_RANK 0" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(run(cases[i].step, cases[i].line), 0);
        assert_string_equal(err, "");
        assert_value(cases[i].first);
        assert_value(cases[i].second);
    }
}

/* Each word of an option gives its own enum. */
static void test_choices(void **state)
{
    (void)state;
#define CHOICE(name, field, word, expected) \
    { \
        name, word, offsetof(Args, field), expected \
    }
    static const struct {
        const char *name, *word;
        size_t offset;
        int expected;
    } cases[] = {
        CHOICE("model", model, "linear", MODEL_LINEAR),
        CHOICE("model", model, "cnn", MODEL_CNN),
        CHOICE("model", model, "mlp", MODEL_MLP),
        CHOICE("dataset", dataset, "random", DATASET_RANDOM),
        CHOICE("dataset", dataset, "digits", DATASET_DIGITS),
        CHOICE("dataset", dataset, "mnist", DATASET_MNIST),
        CHOICE("optimizer", optimizer, "sgd", OPTIM_SGD),
        CHOICE("optimizer", optimizer, "adam", OPTIM_ADAM),
        CHOICE("optimizer", optimizer, "adamw", OPTIM_ADAMW),
        CHOICE("optimizer", optimizer, "adadelta", OPTIM_ADADELTA),
        CHOICE("lr-schedule", lr_schedule, "constant", LR_CONSTANT),
        CHOICE("lr-schedule", lr_schedule, "step", LR_STEP),
        CHOICE("lr-schedule", lr_schedule, "cosine", LR_COSINE),
        CHOICE("on-nan", on_nan, "stop", ON_NAN_STOP),
        CHOICE("on-nan", on_nan, "warn", ON_NAN_WARN),
        CHOICE("device", device, "auto", DEVICE_AUTO),
        CHOICE("device", device, "cpu", DEVICE_CPU),
        CHOICE("device", device, "cuda", DEVICE_CUDA),
        CHOICE("device", device, "plain", DEVICE_PLAIN),
        CHOICE("amp", amp, "off", AMP_OFF),
        CHOICE("amp", amp, "bf16", AMP_BF16),
        CHOICE("amp", amp, "fp16", AMP_FP16),
        CHOICE("conv", conv, "auto", CONV_AUTO),
        CHOICE("conv", conv, "im2col", CONV_IM2COL),
        CHOICE("conv", conv, "cudnn", CONV_CUDNN),
        CHOICE("backend", backend, "auto", BACKEND_AUTO),
        CHOICE("backend", backend, "nccl", BACKEND_NCCL),
        CHOICE("backend", backend, "mpi", BACKEND_MPI),
        CHOICE("backend", backend, "tcp", BACKEND_TCP),
        CHOICE("backend", backend, "gloo", BACKEND_GLOO),
        CHOICE("all-reduce", all_reduce, "flat", ALL_REDUCE_FLAT),
        CHOICE("all-reduce", all_reduce, "hierarchical", ALL_REDUCE_HIERARCHICAL),
        CHOICE("reduce-order", reduce_order, "any", ORDER_ANY),
        CHOICE("reduce-order", reduce_order, "fixed", ORDER_FIXED),
    };
#undef CHOICE
    size_t words = 0;
    for (const Option *option = args_options; option->name != NULL; option++)
        for (const char *c = option->value; option->kind == OPTION_CHOICE && c != NULL; words++)
            c = strchr(c + 1, '|');
    assert_int_equal(LENGTH(cases), words);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        Args args;
        memset(&args, 0xff, sizeof args);
        option_set(args_option(cases[i].name), &args, cases[i].word, NULL);
        assert_memory_equal((char *)&args + cases[i].offset, &cases[i].expected, sizeof(int));
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        Step step;
        const char *line, *message;
    } cases[] = {
        { 1, "--batchsize 64", "--batchsize is no option: " },
        { 1, "--epoch 3", "--epoch is no option: " },
        { 1, "--moment=3", "--moment is no option: " },
        { 1, "--zzz", "--zzz is no option: --help lists them" },
        { 3, "--backend ucc", "--backend must be one of auto|nccl|mpi|tcp|gloo, not \"ucc\"" },
        { 1, "--=3", "-- is no option" },
        { 1, "--batch-size", "--batch-size needs a value: --batch-size N" },
        { 1, "--lr --momentum 0.9", "--lr needs a value" },
        { 1, "--batch-size 0", "--batch-size must be a whole number from 1 to 1000000" },
        { 1, "--batch-size -4", "not \"-4\"" },
        { 1, "--batch-size 3x", "not \"3x\"" },
        { 1, "--batch-size 1.5", "not \"1.5\"" },
        { 1, "--batch-size=", "not \"\"" },
        { 1, "--batch-size 2147483648", "not \"2147483648\"" },
        { 1, "--batch-size 18446744073709551617", "not \"18446744073709551617\"" },
        { 1, "--epochs -1", "--epochs must be a whole number from 0 to 2147483647" },
        { 1, "--log-interval 0", "from 1 to" },
        { 1, "--dataset-size 0", "from 1 to" },
        { 1, "--threads 0", "from 1 to 1024 or auto" },
        { 4, "--save-every-steps 1", "--save-every-steps comes with step 05" },
        { 5, "--keep 0", "from 1 to" },
        { 5, "--inject kill:1:2,maim:0:2", "--inject must be up to 16 of KIND:RANK:STEP, KIND" },
        { 5, "--inject kill:1:2,", "not \"kill:1:2,\"" },
        { 5, "--inject " EIGHT_FAULTS "," EIGHT_FAULTS ",exit:0:9", "must be up to 16 of" },
        { 5, "--resume a --init-from b", "--init-from does not go with this --resume" },
        { 4, "--resume auto", "--resume auto comes with step 05" },
        { 1, "--global-batch-size 0", "from 1 to 2147483647 or none" },
        { 1, "--seed -1", "--seed must be a whole number from 0 to 18446744073709551615" },
        { 1, "--seed 18446744073709551616", "not \"18446744073709551616\"" },
        { 1, "--max-steps 0x10", "not \"0x10\"" },
        { 1, "--lr nan", "--lr must be a number from 0 to 1000, not \"nan\"" },
        { 1, "--lr inf", "not \"inf\"" },
        { 1, "--lr 1e999", "not \"1e999\"" },
        { 1, "--lr 0x1p3", "not \"0x1p3\"" },
        { 1, "--lr -0.1", "not \"-0.1\"" },
        { 1, "--lr 0.1.2", "not \"0.1.2\"" },
        { 1, "--lr e", "not \"e\"" },
        { 1, "--lr=", "not \"\"" },
        { 1, "--momentum 1.5", "from 0 to 1," },
        { 1, "--optimizer rmsprop", "must be one of sgd|adam|adamw|adadelta, not \"rmsprop\"" },
        { 1, "--optimizer adamx", "not \"adamx\"" },
        { 1, "--optimizer ada", "not \"ada\"" },
        { 1, "--optimizer=", "must be one of" },
        { 1, "--optimizer sgd|adam", "not \"sgd|adam\"" },
        { 1, "--dropout yes", "must be one of on|off" },
        { 1, "--lr off", "--lr must be a number from 0 to 1000, not \"off\"" },
        { 1, "--seed none", "not \"none\"" },
        { 1, "--optimizer null", "must be one of" },
        { 1, "--threads no", "from 1 to 1024 or auto, not \"no\"" },
        { 1, "--data-dir=", "--data-dir must not be empty" },
        { 1, "--resume=", "--resume must not be empty" },
        { 1, "1 2 3", "\"3\" has no place here" },
        { 1, "mnist", "\"mnist\" has no place here" },
        { 1, "-5", "\"-5\" has no place here" },
        { 1, "-- --lr", "\"--lr\" has no place here" },
        { 1, "5x", "--epochs must be a whole number" },
        { 1, "--optimizer adam --momentum 0.9", "--momentum does not go with this --optimizer" },
        { 1, "--momentum 0 --optimizer adadelta", "leave it out, or use --optimizer sgd" },
        { 1, "--optimizer adamw --momentum 0", "--momentum does not go" },
        { 1, "--model linear --dataset mnist", "--dataset does not go with this --model" },
        { 1, "--model linear --dataset digits", "linear learns from random" },
        { 1, "--dataset random", "cnn from digits or mnist" },
        { 1, "--resume a --init-from b", "--init-from does not go with this --resume" },
        { 1, "--batch-size 8 --global-batch-size 16", "does not go with this --batch-size" },
        { 1, "--nproc 2", "--nproc comes with step 02" },
        { 1, "--bucket-cap-mb 2", "--bucket-cap-mb comes with step 02" },
        { 2, "--local-rank 0", "--local-rank comes with step 03" },
        { 5, "--reduce-order tree", "must be one of any|fixed, not \"tree\"" },
        { 2, "--nproc 0", "from 1 to 1024 or auto" },
        { 2, "--timeout 0", "from 0.001 to 1000000" },
        { 2, "--bucket-cap-mb 0", "from 0.001 to 1000000" },
        { 3, "--nproc 2", "--nproc is for step 02: here the launcher" },
        { 4, "--nproc=2", "--nproc-per-node" },
        { 5, "--nproc 2", "--nproc-per-node" },
        { 3, "--local-rank -1", "from 0 to" },
        { 1, "--lr a\nb\033[2J", "not \"a?b?[2J\"" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        assert_refused(run(cases[i].step, cases[i].line), cases[i].message);
}

/* The contract defines which steps have which options. */
static void test_steps(void **state)
{
    (void)state;
    static const char *const from_02[] = { "backend", "check-collectives", "bucket-cap-mb",
                                           "timeout" };
    static const char *const from_extra[] = { "  --trace ",         "  --profile ",
                                              "  --show-topology ", "  --simulate-network ",
                                              "  --config ",        "  --scratch-dir ",
                                              "  --cuda-graph ",    "  --all-reduce ",
                                              "  --conv ",          "  --nccl-register " };
    for (Step step = STEP_SINGLE; step <= STEP_FAULT; step++) {
        int num_listed = 0;
        assert_int_equal(run(step, "--no-such-option --help"), 2);
        assert_int_equal(run(step, "--seed 1 --help --no-such-option"), 0);
        assert_string_equal(err, "");
        for (char *line = strtok(out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            assert_true(strlen(line) <= 100);
            bool of_extra = false;
            for (size_t i = 0; i < LENGTH(from_extra); i++)
                of_extra |= strstr(line, from_extra[i]) == line;
            num_listed += !of_extra && strncmp(line, "  --", 4) == 0;
        }
        static const int listed[] = { 0, 31, 36, 36, 36, 41 };
        assert_int_equal(num_listed, listed[step]);
    }
    for (Step step = STEP_SINGLE; step <= STEP_FAULT; step++) {
        assert_int_equal(run(step, "-h"), 0);
        assert_has(out, "Usage: ");
        assert_has(out, "train --model linear --epochs 3");
        assert_int_equal(strstr(out, "--config") != NULL, has_extras);
        assert_has(out, "train [total_epochs [save_every]] [options]\n");
        assert_has(out, "train 50 10 --batch-size 64");
        assert_has(out, "\n\nTraining\n  --epochs N ");
        assert_has(out, "\n  --lr X  ");
        assert_has(out, " [0.01]\n");
        for (size_t i = 0; i < LENGTH(from_02); i++)
            assert_int_equal(strstr(out, from_02[i]) != NULL, step >= STEP_SPAWN);
        assert_int_equal(strstr(out, "--nproc N") != NULL, step == STEP_SPAWN);
        assert_int_equal(strstr(out, "--local-rank") != NULL, step >= STEP_ENV);
        assert_has(out,
                   step == STEP_FAULT ? "; auto: the furthest [auto]\n" : "checkpoint [none]\n");
    }
}

/* An option of an extra that is not in this build is refused as unknown. */
static void test_extra(void **state)
{
    (void)state;
    assert_int_equal(run(STEP_SINGLE, "--help"), 0);
    const bool listed = strstr(out, "\n  --trace FILE ") != NULL;
    const int status = run(STEP_SINGLE, "--trace t");
    if (listed)
        assert_int_equal(status, 0);
    else
        assert_refused(status, "--trace is no option");
    if (!listed) {
        assert_refused(run(STEP_SPAWN, "--simulate-network 3gbit"),
                       "--simulate-network is no option");
        assert_refused(run(STEP_NODES, "--all-reduce flat"), "--all-reduce is no option");
        assert_refused(run(STEP_SINGLE, "--config none"), "--config is no option");
        return;
    }
    char line[64]; // what a file says gives way to what was typed
    FILE *config = tmpfile();
    fputs("init-from: b\n", config);
    fflush(config);
    snprintf(line, sizeof line, "--config /dev/fd/%d --resume a", fileno(config));
    assert_int_equal(run(STEP_SINGLE, line), 0);
    assert_value("init_from (null)");
    fclose(config);

    assert_int_equal(run(STEP_NODES, "--all-reduce hierarchical"), 0);
    assert_value("all-reduce hierarchical");
    assert_int_equal(run(STEP_FAULT, "--reduce-order fixed --all-reduce flat"), 0);
    assert_value("reduce-order fixed");
    assert_refused(run(STEP_ENV, "--all-reduce flat"), "--all-reduce comes with step 04");
    assert_refused(run(STEP_FAULT, "--reduce-order fixed --all-reduce hierarchical"),
                   "--all-reduce does not go with this --reduce-order: hierarchical has an order "
                   "of its own");
    assert_refused(run(STEP_NODES, "--all-reduce ring"),
                   "must be one of flat|hierarchical, not \"ring\"");
}

/* In place of libc's: a silent rank need not wait here for the one that speaks (usage_error). */
unsigned sleep(unsigned seconds)
{
    (void)seconds;
    return 0;
}

/* The ranks on a node share a command line, so only the first one prints. */
static void test_one_rank_speaks(void **state)
{
    (void)state;
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_RANK", "1", 1);
    assert_int_equal(run(STEP_ENV, "--help"), 0);
    assert_string_equal(out, "");
    assert_int_equal(run(STEP_ENV, "--zzz"), 2);
    assert_string_equal(err, "");
    setenv("LOCAL_RANK", "0", 1);
    assert_refused(run(STEP_ENV, "--zzz"), "--zzz");
    assert_int_equal(run(STEP_ENV, "--help"), 0);
    assert_has(out, "Usage: ");
    assert_int_equal(run(STEP_ENV, "--local-rank 1"), 0); // the environment wins
    assert_value("LOCAL_RANK 0");
    assert_refused(run(STEP_SINGLE, ""),
                   "this is one of 2 ranks (WORLD_SIZE), but step 01 knows no "
                   "launcher, and each would train alone: start it without "
                   "one, or");
    assert_refused(run(STEP_SPAWN, ""),
                   "step 02 knows no launcher, and each would train alone: start "
                   "it without one, with --nproc, or");
    setenv("WORLD_SIZE", "1", 1);
    assert_int_equal(run(STEP_SINGLE, ""), 0);
    unsetenv("LOCAL_RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
}

static void test_batch_size(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int world_size;
        const char *share; // expected "share N", or the expected error message
    } cases[] = {
        { "", 1, "share 32" },
        { "", 3, "share 32" },
        { "--global-batch-size 120", 1, "share 120" },
        { "--global-batch-size 120", 8, "share 15" },
        { "--global-batch-size 120", 120, "share 1" },
        { "--global-batch-size 120", 7,
          "--global-batch-size 120 cannot be shared out to 7 ranks: use 119" },
        { "--global-batch-size 3", 4,
          "--global-batch-size 3 cannot be shared out to 4 ranks: use 4" },
        { "--reduce-order any --batch-size 3", 3, "share 3" },
        { "--reduce-order fixed --batch-size 3", 8, "share 3" },
        { "--reduce-order fixed --batch-size 4", 2, "share 4" },
        { "--reduce-order fixed --batch-size 6", 2,
          "--reduce-order fixed cuts the batch of 2 ranks into 8 parts: use a multiple of 4 for "
          "--batch-size, not 6" },
        { "--reduce-order fixed --batch-size 12", 1, "use a multiple of 8 for --batch-size" },
        { "--reduce-order fixed --global-batch-size 24", 8, "share 3" },
        { "--reduce-order fixed --global-batch-size 20", 2,
          "use a multiple of 8 for --global-batch-size, not 20" },
        { "--reduce-order fixed", 3, "--reduce-order fixed is for 1, 2, 4 or 8 ranks, not for 3" },
        { "--reduce-order fixed", 16, "1, 2, 4 or 8 ranks, not for 16" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        world_size = cases[i].world_size;
        const int status = run(STEP_FAULT, cases[i].line);
        if (strncmp(cases[i].share, "share", 5) == 0)
            assert_value(cases[i].share);
        else
            assert_refused(status, cases[i].share);
    }
    world_size = 0;
}

/* args_value returns what was typed, but a placeholder for a path. */
static void test_value(void **state)
{
    (void)state;
    for (const Option *option = args_options; option->name != NULL; option++) {
        static const char *const typed[OPTION_ACTION + 1] = { [OPTION_INT] = "7",
                                                              [OPTION_UINT64] = "8",
                                                              [OPTION_REAL] = "0.7",
                                                              [OPTION_RATE] = "3gbit" };
        const bool is_word = option->kind == OPTION_SWITCH || option->kind == OPTION_CHOICE;
        const bool is_path = option->kind == OPTION_STRING || option->kind == OPTION_OPTIONAL;
        char word[16], value[ARGS_VALUE_BYTES];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(option->value, "|"), option->value);
        const char *text = is_word ? word : is_path ? "x" : typed[option->kind];
        if (option->kind == OPTION_ACTION || (option->kind == OPTION_RATE && !parse_rate("3gbit")))
            continue;
        Args args = { 0 };
        option_set(option, &args, text, NULL);
        assert_string_equal(args_value(&args, option, value), is_path ? option->value : text);
        option_set(option, &args, option->preset, NULL);
        const char *same = option->kind == OPTION_STRING ? option->value : option->preset;
        assert_string_equal(args_value(&args, option, value), same);
        if (option->kind != OPTION_INT)
            continue;
        snprintf(word, sizeof word, "%.0f", option->low); // the least is a value like any other
        option_set(option, &args, word, NULL);
        assert_string_equal(args_value(&args, option, value), word);
    }
    Args args;
    args_defaults(&args, "cnn");
    char value[ARGS_VALUE_BYTES];
    const Option *steps = args_option("max-steps");
    assert_string_equal(args_value(&args, steps, value), "0"); // no limit
}

int main(void)
{
    unsetenv("LOCAL_RANK");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_nothing_given),
        cmocka_unit_test(test_values),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_steps),      cmocka_unit_test(test_one_rank_speaks),
        cmocka_unit_test(test_batch_size), cmocka_unit_test(test_extra),
        cmocka_unit_test(test_value),      cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
