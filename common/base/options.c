/*
 * One row per option drives the command line, the configuration file and --help. The rows of what
 * Args holds are here; options.h says how a room, a step or an extra adds its own.
 */
#include "common/base/options.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/log.h"

static const OptionGroup data_options = {
    .heading = "Model and data",
    .rows =
        (const Option[]){
            { "model", "linear|cnn", "cnn", STEP_SINGLE, OPTION_CHOICE, offsetof(Args, model),
              .help = "one linear layer, or a convolutional network" },
            { "dataset", "random|digits|mnist", "digits", STEP_SINGLE, OPTION_CHOICE,
              offsetof(Args, dataset), .help = "made up, built in, or from files; linear: random" },
            { "dataset-size", "N", "2048", STEP_SINGLE, OPTION_INT, offsetof(Args, dataset_size),
              .help = "rows of the random data set", .low = 1, .high = INT_MAX },
            { "data-dir", "DIR", "data/mnist", STEP_SINGLE, OPTION_STRING, offsetof(Args, data_dir),
              .help = "where the files of MNIST are" },
            { "scratch-dir", "DIR", "none", STEP_NODES, OPTION_OPTIONAL,
              offsetof(Args, scratch_dir),
              .help = "copy those files there first, once on each node" },
            { "num-samples", "N", "0", STEP_SINGLE, OPTION_INT, offsetof(Args, num_samples),
              .help = "train on the first N rows only; 0: on all", .high = INT_MAX },
            { "init-from", "FILE", "none", STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, init_from),
              .help = "take the initial weights from a checkpoint" },
            { 0 },
        },
};

static const OptionGroup training_options = {
    .heading = "Training",
    .rows =
        (const Option[]){
            { "epochs", "N", "10", STEP_SINGLE, OPTION_INT, offsetof(Args, epochs),
              .help = "times through the data (total_epochs)", .high = INT_MAX },
            { "batch-size", "N", "32", STEP_SINGLE, OPTION_INT, offsetof(Args, batch_size),
              .help = "samples per step, of each rank", .low = 1, .high = 1000000 },
            { "global-batch-size", "N", "none", STEP_SINGLE, OPTION_INT,
              offsetof(Args, global_batch_size), .help = "samples per step, of all ranks together",
              .low = 1, .high = INT_MAX },
            { "optimizer", "sgd|adam|adamw|adadelta", "sgd", STEP_SINGLE, OPTION_CHOICE,
              offsetof(Args, optimizer), .help = "how gradients change the weights" },
            { "lr", "X", "0.01", STEP_SINGLE, OPTION_REAL, offsetof(Args, lr),
              .help = "learning rate; linear, adam, adamw: 0.001; adadelta: 1", .high = 1000 },
            { "momentum", "X", "0.9", STEP_SINGLE, OPTION_REAL, offsetof(Args, momentum),
              .help = "of sgd; linear: 0", .high = 1 },
            { "weight-decay", "X", "0", STEP_SINGLE, OPTION_REAL, offsetof(Args, weight_decay),
              .help = "pull of the weights towards 0; adamw: 0.01", .high = 1000 },
            { "dropout", "on|off", "on", STEP_SINGLE, OPTION_SWITCH, offsetof(Args, dropout),
              .help = "off: for comparisons that must be exact" },
            { "seed", "N", "0", STEP_SINGLE, OPTION_UINT64, offsetof(Args, seed),
              .help = "all random numbers follow from it" },
            { "max-steps", "N", "0", STEP_SINGLE, OPTION_UINT64, offsetof(Args, max_steps),
              .help = "stop after N optimizer steps; 0: never" },
            { 0 },
        },
};

static const OptionGroup saving_options = {
    .heading = HEADING_RESULTS,
    .rows =
        (const Option[]){
            { "log-interval", "N", "10", STEP_SINGLE, OPTION_INT, offsetof(Args, log_interval),
              .help = "batches between two lines with the loss", .low = 1, .high = INT_MAX },
            { "save-every", "N", "5", STEP_SINGLE, OPTION_INT, offsetof(Args, save_every),
              .help = "epochs between checkpoints; 0: only at the end", .high = INT_MAX },
            { "checkpoint-dir", "DIR", "checkpoints", STEP_SINGLE, OPTION_STRING,
              offsetof(Args, checkpoint_dir), .help = "folder for checkpoints" },
            { "resume", "FILE", "none", STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, resume),
              .help = "resume from this checkpoint", .fault_preset = "auto",
              .fault_help = "resume from this checkpoint; auto: the furthest" },
            { 0 },
        },
};

static const OptionGroup metrics_options = {
    .heading = HEADING_RESULTS,
    .rows =
        (const Option[]){
            { "metrics-dir", "DIR", "off", STEP_SINGLE, OPTION_OPTIONAL,
              offsetof(Args, metrics_dir), .help = "write the metrics of every step there" },
            { 0 },
        },
};

static const OptionGroup machine_options = {
    .heading = "Where it runs",
    .rows =
        (const Option[]){
            { "device", "auto|cpu|cuda|plain", "auto", STEP_SINGLE, OPTION_CHOICE,
              offsetof(Args, device), .help = "auto: cuda if every rank has a GPU" },
            { "amp", "off|bf16|fp16", "off", STEP_SINGLE, OPTION_CHOICE, offsetof(Args, amp),
              .help = "mixed precision: multiply in 16 bits, keep 32" },
            { "tf32", "on|off", "off", STEP_SINGLE, OPTION_SWITCH, offsetof(Args, tf32),
              .help = "multiply float32 in 19 bits, on a GPU" },
            { "cuda-graph", "on|off", "off", STEP_SINGLE, OPTION_SWITCH, offsetof(Args, cuda_graph),
              .help = "record a training step, then replay it" },
            { "threads", "N", "auto", STEP_SINGLE, OPTION_INT, offsetof(Args, threads),
              .help = "compute threads of a rank; auto: its share of cores", .low = 1,
              .high = 1024 },
            { 0 },
        },
};

static const OptionGroup ranks_options = {
    .heading = HEADING_RANKS,
    .rows =
        (const Option[]){
            { "nproc", "N", "auto", STEP_SPAWN, OPTION_INT, offsetof(Args, nproc),
              .help = "ranks to start; auto: one per GPU, else 2", .low = 1, .high = 1024,
              .last_step = STEP_SPAWN },
            { "local-rank", "N", "none", STEP_ENV, OPTION_INT, offsetof(Args, local_rank),
              .help = "for old launchers; LOCAL_RANK in the environment wins", .high = INT_MAX },
            { "backend", "auto|nccl|mpi|tcp", "auto", STEP_SPAWN, OPTION_CHOICE,
              offsetof(Args, backend),
              .help = "what carries collectives; auto: nccl on cuda, else tcp" },
            { "bucket-cap-mb", "MIB", "25", STEP_SPAWN, OPTION_REAL, offsetof(Args, bucket_cap_mb),
              .help = "size of a gradient bucket; of the first: 1 at most", .low = 0.001,
              .high = 1000000 },
            { "all-reduce", "flat|hierarchical", "flat", STEP_NODES, OPTION_CHOICE,
              offsetof(Args, all_reduce), .help = "hierarchical: fewer bytes between nodes (tcp)" },
            { "reduce-order", "any|fixed", "any", STEP_FAULT, OPTION_CHOICE,
              offsetof(Args, reduce_order),
              .help = "fixed: 1, 2, 4, 8 ranks agree, with --global-batch-size" },
            { "check-collectives", "on|off", "off", STEP_SPAWN, OPTION_SWITCH,
              offsetof(Args, check_collectives),
              .help = "compare what the ranks call, before each call" },
            { "timeout", "SECONDS", "300", STEP_SPAWN, OPTION_REAL, offsetof(Args, timeout),
              .help = "for the rendezvous, and for each collective", .low = 0.001,
              .high = 1000000 },
            { 0 },
        },
};

static const OptionGroup general_options = {
    .heading = "Options themselves",
    .rows =
        (const Option[]){
            { "config", "FILE", "config.yaml", STEP_SINGLE, OPTION_ACTION, 0,
              .help = "read options from a file first" },
            { "help", "", "", STEP_SINGLE, OPTION_ACTION, 0, .help = "this list" },
            { 0 },
        },
};

const OptionGroup *const option_groups[] = {
    &data_options,  &training_options, &saving_options, &fault_saving_options, &metrics_options,
    &watch_options, &machine_options,  &ranks_options,  &fault_ranks_options,  &general_options,
    NULL,
};

bool option_taught(const Option *option, int step)
{
    return step == ANY_STEP ||
           (option->first_step <= step && (option->last_step == 0 || step <= option->last_step));
}

static const char *preset_of(const Option *option, int step)
{
    return step == STEP_FAULT && option->fault_preset != NULL ? option->fault_preset
                                                              : option->preset;
}

void settings_init(Settings *settings, int step)
{
    *settings = (Settings){ .step = step };
    for (const OptionGroup *const *group = option_groups; *group != NULL; group++)
        for (const Option *option = (*group)->rows; option->name != NULL; option++) {
            CHECK(settings->count < MAX_OPTIONS, "raise MAX_OPTIONS");
            settings->all[settings->count++] = (Setting){
                .option = option,
                .group = *group,
                .text[BY_DEFAULT] = preset_of(option, step),
            };
        }
}

Setting *settings_find(Settings *settings, const char *name, size_t length)
{
    for (Setting *setting = settings->all; setting < settings->all + settings->count; setting++)
        if (name_is(setting->option->name, name, length))
            return setting;
    return NULL;
}

bool setting_is_absent(const Setting *setting, int step)
{
    return setting->group->absent != NULL && option_taught(setting->option, step);
}

void setting_unknown(const Settings *settings, int step, const char *place, const char *dashes,
                     const char *name, size_t length)
{
    const char *names[MAX_OPTIONS + 1] = { NULL };
    int count = 0;
    for (const Setting *setting = settings->all; setting < settings->all + settings->count;
         setting++)
        if (setting->group->absent == NULL && option_taught(setting->option, step))
            names[count++] = setting->option->name;
    const char *nearest = comfort_nearest(name, length, names);
    const int shown = length < 80 ? (int)length : 80;
    if (nearest == NULL)
        usage_error("%s%.*s is no option: --help lists them", place, shown, name);
    usage_error("%s%.*s is no option: did you mean %s%s? --help lists them", place, shown, name,
                dashes, nearest);
}

/* Digits and nothing else: strtoull alone would take " -1" for 2^64 - 1. */
static bool parse_whole(const char *text, uint64_t *value)
{
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0' && errno == 0;
}

/* A decimal number and nothing else: strtod alone would take " nan", "inf" and "0x1p3". */
static bool parse_real(const char *text, double *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && text[strspn(text, "0123456789.eE+-")] == '\0' && *end == '\0' &&
           errno == 0;
}

/* Is it one of the words in "one|two|three"? */
static bool is_choice(const char *text, const char *words)
{
    const size_t length = strlen(text);
    for (const char *word = words; word != NULL; word = strchr(word, '|')) {
        word += word[0] == '|';
        if (strcspn(word, "|") == length && strncmp(word, text, length) == 0)
            return true;
    }
    return false;
}

static int to_int(const Option *option, const char *text, const char *place)
{
    const bool has_word = isalpha((unsigned char)option->preset[0]);
    if (has_word && strcmp(text, option->preset) == 0)
        return (int)option->low - 1;

    uint64_t value = 0;
    if (!parse_whole(text, &value) || (double)value < option->low || (double)value > option->high)
        usage_error("%s must be a whole number from %.10g to %.10g%s%s, not \"%.80s\"", place,
                    option->low, option->high, has_word ? " or " : "",
                    has_word ? option->preset : "", text);
    return (int)value;
}

static uint64_t to_uint64(const char *text, const char *place)
{
    uint64_t value = 0;
    if (!parse_whole(text, &value))
        usage_error("%s must be a whole number from 0 to %ju, not \"%.80s\"", place, UINTMAX_MAX,
                    text);
    return value;
}

static double to_real(const Option *option, const char *text, const char *place)
{
    double value = 0;
    if (!parse_real(text, &value) || value < option->low || value > option->high)
        usage_error("%s must be a number from %.10g to %.10g, not \"%.80s\"", place, option->low,
                    option->high, text);
    return value;
}

static const char *to_choice(const Option *option, const char *text, const char *place)
{
    if (!is_choice(text, option->value))
        usage_error("%s must be one of %s, not \"%.80s\"", place, option->value, text);
    return text;
}

static const char *to_string(const Option *option, const char *text, const char *place)
{
    if (text[0] == '\0')
        usage_error("%s must not be empty", place);
    if (option->check != NULL)
        option->check(text, place);
    return text;
}

void option_set(const Option *option, void *fields, const char *text, const char *place)
{
    void *field = (char *)fields + option->offset;
    switch (option->kind) {
    case OPTION_INT:
        *(int *)field = to_int(option, text, place);
        break;
    case OPTION_UINT64:
        *(uint64_t *)field = to_uint64(text, place);
        break;
    case OPTION_REAL:
        *(double *)field = to_real(option, text, place);
        break;
    case OPTION_SWITCH:
        *(bool *)field = strcmp(to_choice(option, text, place), "on") == 0;
        break;
    case OPTION_CHOICE:
        *(const char **)field = to_choice(option, text, place);
        break;
    case OPTION_STRING:
        *(const char **)field = to_string(option, text, place);
        break;
    case OPTION_OPTIONAL:
        *(const char **)field =
            strcmp(text, option->preset) == 0 ? NULL : to_string(option, text, place);
        break;
    case OPTION_FLAG:
        *(bool *)field = text[0] != '\0';
        break;
    case OPTION_ACTION:
        break;
    }
}

/* --help begins with how to start this program. */
static const struct {
    const char *launcher, *ranks;
} example[] = {
    [STEP_SINGLE] = { "", "" },
    [STEP_SPAWN] = { "", " --nproc 2" },
    [STEP_ENV] = { "ddprun --nproc-per-node 2 ", "" },
    [STEP_NODES] = { "srun --nodes 2 --ntasks-per-node 2 ", "" },
    [STEP_FAULT] = { "ddprun --nproc-per-node 2 --max-restarts 3 ", "" },
};

static void print_option(const Option *option, Step step)
{
    char name[64];
    snprintf(name, sizeof name, "--%s %s", option->name, option->value);
    const bool other = step == STEP_FAULT && option->fault_help != NULL;
    printf("  %-36s %s", name, other ? option->fault_help : option->help);
    const char *preset = preset_of(option, step);
    if (preset[0] != '\0')
        printf(" [%s]", preset);
    printf("\n");
}

void help_print(Step step, const char *program)
{
    if (!log_speaks_for_node())
        streams_exit();

    const char *launcher = example[step].launcher, *ranks = example[step].ranks;
    printf("Usage: %s [total_epochs [save_every]] [options]\n\n", program);
    printf("  %s%s 50 10 --batch-size 64%s\n", launcher, program, ranks);
    printf("  %s%s --model linear --epochs 3%s\n\n", launcher, program, ranks);
    printf("Each option with its [default]; - and _ are the same in names.\n");

    const char *heading = "";
    for (const OptionGroup *const *group = option_groups; *group != NULL; group++)
        for (const Option *option = (*group)->rows; option->name != NULL; option++) {
            if ((*group)->absent != NULL || !option_taught(option, step))
                continue;
            if (strcmp(heading, (*group)->heading) != 0)
                printf("\n%s\n", (*group)->heading);
            heading = (*group)->heading;
            print_option(option, step);
        }
    streams_exit();
}
