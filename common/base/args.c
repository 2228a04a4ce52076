/*
 * Fills Args, in increasing order of precedence, from the defaults, the configuration file, the
 * command line; then what follows from several options together. One row per option drives all of
 * it, and --help.
 *
 * Options that exclude each other (--model linear --dataset mnist) are refused, with one exception:
 * the command line overrides a line of the file, so that "momentum: 0.9" in the file does not
 * forbid `--optimizer adam`.
 */
#include "common/base/args.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/startup.h"

#define FIELD(name) offsetof(Args, name)

static const Option data_rows[] = {
    { "model", "linear|cnn|mlp", "cnn", STEP_SINGLE, OPTION_CHOICE, FIELD(model),
      .help = "one linear layer, convolutions, or eight equal layers" },
    { "dataset", "random|digits|mnist", "digits", STEP_SINGLE, OPTION_CHOICE, FIELD(dataset),
      .help = "made up, built in, or from files; linear: random" },
    { "dataset-size", "N", "2048", STEP_SINGLE, OPTION_INT, FIELD(dataset_size),
      .help = "rows of the random data set", .low = 1, .high = INT_MAX },
    { "data-dir", "DIR", "data/mnist", STEP_SINGLE, OPTION_STRING, FIELD(data_dir),
      .help = "where the files of MNIST are" },
    { "scratch-dir", "DIR", "none", STEP_NODES, OPTION_OPTIONAL, FIELD(scratch_dir),
      .help = "copy those files there first, once on each node" },
    { "num-samples", "N", "0", STEP_SINGLE, OPTION_INT, FIELD(num_samples),
      .help = "train on the first N rows only; 0: on all", .high = INT_MAX },
    { "init-from", "FILE", "none", STEP_SINGLE, OPTION_OPTIONAL, FIELD(init_from),
      .help = "start from the weights in this file or exported folder" },
    { 0 },
};

static const Option training_rows[] = {
    { "epochs", "N", "10", STEP_SINGLE, OPTION_INT, FIELD(epochs),
      .help = "times through the data (total_epochs)", .high = INT_MAX },
    { "batch-size", "N", "32", STEP_SINGLE, OPTION_INT, FIELD(batch_size),
      .help = "samples per step, of each rank", .low = 1, .high = 1000000 },
    { "global-batch-size", "N", "none", STEP_SINGLE, OPTION_INT, FIELD(global_batch_size),
      .help = "samples per step, of all ranks together", .low = 1, .high = INT_MAX },
    { "optimizer", "sgd|adam|adamw|adadelta", "sgd", STEP_SINGLE, OPTION_CHOICE, FIELD(optimizer),
      .help = "how gradients change the weights" },
    { "lr", "X", "0.01", STEP_SINGLE, OPTION_REAL, FIELD(lr),
      .help = "learning rate; linear, adam, adamw: 0.001; adadelta: 1", .high = 1000 },
    { "lr-schedule", "constant|step|cosine", "constant", STEP_SINGLE, OPTION_CHOICE,
      FIELD(lr_schedule), .help = "step: 0.7 times lr each epoch; cosine: to 0" },
    { "warmup-steps", "N", "0", STEP_SINGLE, OPTION_INT, FIELD(warmup_steps),
      .help = "steps in which the rate rises to lr first", .high = INT_MAX },
    { "clip-norm", "X", "0", STEP_SINGLE, OPTION_REAL, FIELD(clip_norm),
      .help = "largest norm of all gradients together; 0: any", .high = 1000000 },
    { "momentum", "X", "0.9", STEP_SINGLE, OPTION_REAL, FIELD(momentum),
      .help = "of sgd; linear: 0", .high = 1 },
    { "weight-decay", "X", "0", STEP_SINGLE, OPTION_REAL, FIELD(weight_decay),
      .help = "pull of the weights towards 0; adamw: 0.01", .high = 1000 },
    { "dropout", "on|off", "on", STEP_SINGLE, OPTION_SWITCH, FIELD(dropout),
      .help = "off: for comparisons that must be exact" },
    { "on-nan", "stop|warn", "stop", STEP_SINGLE, OPTION_CHOICE, FIELD(on_nan),
      .help = "what to do when weights are nan or infinite" },
    { "seed", "N", "0", STEP_SINGLE, OPTION_UINT64, FIELD(seed),
      .help = "all random numbers follow from it" },
    { "max-steps", "N", "0", STEP_SINGLE, OPTION_UINT64, FIELD(max_steps),
      .help = "stop after N optimizer steps; 0: never" },
    { 0 },
};

static const Option saving_rows[] = {
    { "log-interval", "N", "10", STEP_SINGLE, OPTION_INT, FIELD(log_interval),
      .help = "batches between two lines with the loss", .low = 1, .high = INT_MAX },
    { "save-every", "N", "5", STEP_SINGLE, OPTION_INT, FIELD(save_every),
      .help = "epochs between checkpoints; 0: only at the end", .high = INT_MAX },
    { "checkpoint-dir", "DIR", "checkpoints", STEP_SINGLE, OPTION_STRING, FIELD(checkpoint_dir),
      .help = "folder for checkpoints" },
    { "resume", "FILE", "none", STEP_SINGLE, OPTION_OPTIONAL, FIELD(resume),
      .help = "resume from this checkpoint", .fault_preset = "auto",
      .fault_help = "resume from this checkpoint; auto: the furthest" },
    { 0 },
};

static const Option metrics_rows[] = {
    { "metrics-dir", "DIR", "off", STEP_SINGLE, OPTION_OPTIONAL, FIELD(metrics_dir),
      .help = "write the metrics of every step there" },
    { 0 },
};

static const Option machine_rows[] = {
    { "device", "auto|cpu|cuda|plain", "auto", STEP_SINGLE, OPTION_CHOICE, FIELD(device),
      .help = "auto: cuda if every rank has a GPU" },
    { "amp", "off|bf16|fp16", "off", STEP_SINGLE, OPTION_CHOICE, FIELD(amp),
      .help = "mixed precision: multiply in 16 bits, keep 32" },
    { "tf32", "on|off", "off", STEP_SINGLE, OPTION_SWITCH, FIELD(tf32),
      .help = "multiply float32 in 19 bits, on a GPU" },
    { "cuda-graph", "on|off", "off", STEP_SINGLE, OPTION_SWITCH, FIELD(cuda_graph),
      .help = "record a training step, then replay it" },
    { "threads", "N", "auto", STEP_SINGLE, OPTION_INT, FIELD(threads),
      .help = "compute threads of a rank; auto: its share of cores", .low = 1, .high = 1024 },
    { 0 },
};

static const Option ranks_rows[] = {
    { "nproc", "N", "auto", STEP_SPAWN, OPTION_INT, FIELD(nproc),
      .help = "ranks to start; auto: one per GPU, else 2", .low = 1, .high = 1024,
      .last_step = STEP_SPAWN },
    { "local-rank", "N", "none", STEP_ENV, OPTION_INT, FIELD(local_rank),
      .help = "for old launchers; LOCAL_RANK in the environment wins", .high = INT_MAX },
    { "backend", "auto|nccl|mpi|tcp", "auto", STEP_SPAWN, OPTION_CHOICE, FIELD(backend),
      .help = "what carries collectives; auto: nccl on cuda, else tcp" },
    { "bucket-cap-mb", "MIB", "25", STEP_SPAWN, OPTION_REAL, FIELD(bucket_cap_mb),
      .help = "size of a gradient bucket; of the first: 1 at most", .low = 0.001, .high = 1000000 },
    { "all-reduce", "flat|hierarchical", "flat", STEP_NODES, OPTION_CHOICE, FIELD(all_reduce),
      .help = "hierarchical: fewer bytes between nodes (tcp)" },
    { "reduce-order", "any|fixed", "any", STEP_FAULT, OPTION_CHOICE, FIELD(reduce_order),
      .help = "fixed: 1, 2, 4, 8 ranks agree, with --global-batch-size" },
    { "check-collectives", "on|off", "off", STEP_SPAWN, OPTION_SWITCH, FIELD(check_collectives),
      .help = "compare what the ranks call, before each call" },
    { "timeout", "SECONDS", "300", STEP_SPAWN, OPTION_REAL, FIELD(timeout),
      .help = "for the rendezvous, and for each collective", .low = 0.001, .high = 1000000 },
    { 0 },
};

static const Option general_rows[] = {
    { "config", "FILE", "config.yaml", STEP_SINGLE, OPTION_ACTION, 0,
      .help = "read options from a file first" },
    { "help", "", "", STEP_SINGLE, OPTION_ACTION, 0, .help = "this list" },
    { 0 },
};

static const OptionGroup data_options = { "Model and data", data_rows, NULL, NULL };
static const OptionGroup training_options = { "Training", training_rows, NULL, NULL };
static const OptionGroup saving_options = { HEADING_RESULTS, saving_rows, NULL, NULL };
static const OptionGroup metrics_options = { HEADING_RESULTS, metrics_rows, NULL, NULL };
static const OptionGroup machine_options = { "Where it runs", machine_rows, NULL, NULL };
static const OptionGroup ranks_options = { HEADING_RANKS, ranks_rows, NULL, NULL };
static const OptionGroup general_options = { "Options themselves", general_rows, NULL, NULL };

const OptionGroup *const option_groups[] = {
    &data_options,
    &training_options,
    &saving_options,
    &metrics_options,
    &watch_options,
    &machine_options,
    &ranks_options,
    &network_options,
    &fault_options,
    &general_options,
    NULL,
};

static Setting *find(Settings *settings, const char *name)
{
    return settings_find(settings, name, strlen(name));
}

static SettingSource source_of(Settings *settings, const char *name)
{
    return find(settings, name)->source;
}

void setting_origin(char origin[ORIGIN_BYTES], const Settings *settings, const Setting *setting,
                    SettingSource source)
{
    if (source == BY_FILE)
        snprintf(origin, ORIGIN_BYTES, "%s:%d: %s", settings->path, setting->line,
                 setting->option->name);
    else
        snprintf(origin, ORIGIN_BYTES, "--%s", setting->option->name);
}

/* Stores all values, those of higher precedence last. */
static void store_values(Args *args, Settings *settings)
{
    for (SettingSource source = BY_DEFAULT; source < NUM_SOURCES; source++)
        for (int i = 0; i < settings->count; i++) {
            Setting *setting = &settings->all[i];
            const OptionGroup *group = setting->group;
            const bool counts =
                source == BY_DEFAULT || option_taught(setting->option, settings->step);
            if (setting->text[source] == NULL || group->absent != NULL || !counts)
                continue;
            char origin[ORIGIN_BYTES];
            setting_origin(origin, settings, setting, source);
            option_set(setting->option, group->fields != NULL ? group->fields : args,
                       setting->text[source], origin);
            setting->source = source;
        }
}

/* Drops an option that clashes with one of higher precedence. If both have the same, the user has
 * to decide. */
static void drop_overridden(Settings *settings, bool clashes, const char *name, const char *other,
                            const char *remedy)
{
    Setting *setting = find(settings, name);
    if (!clashes || setting->source == BY_DEFAULT)
        return;
    if (setting->source >= source_of(settings, other)) {
        char origin[ORIGIN_BYTES];
        setting_origin(origin, settings, setting, setting->source);
        usage_error("%s does not go with this --%s: %s", origin, other, remedy);
    }
    setting->source = BY_DEFAULT;
}

/* Options that exclude each other, and defaults that depend on others. */
static void resolve_defaults(Args *args, Settings *settings)
{
    const bool linear = strcmp(args->model, "linear") == 0;
    const bool images = strcmp(args->dataset, "random") != 0;
    const bool sgd = strcmp(args->optimizer, "sgd") == 0;
    const bool two_sizes =
        args->global_batch_size > 0 &&
        source_of(settings, "batch-size") >= source_of(settings, "global-batch-size");
    drop_overridden(settings, linear == images, "dataset", "model",
                    "linear learns from random, mlp and cnn from digits or mnist");
    drop_overridden(settings, !sgd, "momentum", "optimizer",
                    "leave it out, or use --optimizer sgd");
    drop_overridden(
        settings, args_shards(args) > 0 && strcmp(args->all_reduce, "hierarchical") == 0,
        "all-reduce", "reduce-order", "hierarchical has an order of its own; leave one out");
    drop_overridden(settings, two_sizes, "global-batch-size", "batch-size",
                    "give the batch of each rank, or that of all together");

    args->resume_auto = args->resume != NULL && strcmp(args->resume, "auto") == 0;
    if (args->resume_auto)
        args->resume = NULL;
    if (args->resume != NULL && args->init_from != NULL) // a resumed run brings its own weights
        drop_overridden(settings, true, "init-from", "resume",
                        "it has weights of its own; leave one of them out");

    if (source_of(settings, "dataset") == BY_DEFAULT)
        args->dataset = linear ? "random" : "digits";
    if (source_of(settings, "momentum") == BY_DEFAULT)
        args->momentum = sgd && !linear ? 0.9 : 0;
    if (source_of(settings, "all-reduce") == BY_DEFAULT)
        args->all_reduce = "flat";
    if (source_of(settings, "global-batch-size") == BY_DEFAULT)
        args->global_batch_size = 0;
    if (source_of(settings, "init-from") == BY_DEFAULT)
        args->init_from = NULL;
    if (source_of(settings, "lr") == BY_DEFAULT)
        args->lr = strcmp(args->optimizer, "adadelta") == 0 ? 1 : sgd && !linear ? 0.01 : 0.001;
    if (source_of(settings, "weight-decay") == BY_DEFAULT)
        args->weight_decay = strcmp(args->optimizer, "adamw") == 0 ? 0.01 : 0;
    if (args->max_steps == 0)
        args->max_steps = UINT64_MAX;
}

void args_defaults(Args *args, const char *model)
{
    Settings settings;
    settings_init(&settings, ANY_STEP);
    *args = (Args){ 0 };
    store_values(args, &settings);
    args->model = model;
    resolve_defaults(args, &settings);
}

static noreturn void refuse_untaught(const Option *option, Step step)
{
    if ((int)step < option->first_step)
        usage_error("--%s comes with step %02d: --help lists the options of this one", option->name,
                    option->first_step);
    usage_error(
        "--%s is for step %02d: here the launcher starts the ranks, by its --nproc-per-node",
        option->name, option->last_step);
}

/* Reads the option at argv[0]: --name=value, or --name and the value behind it. Returns how many
 * arguments it took. */
static int read_option(Settings *settings, const char *program, char **argv)
{
    const char *name = argv[0] + 2;
    const size_t length = strcspn(name, "=");
    Setting *setting = settings_find(settings, name, length);
    if (setting == NULL || setting_is_absent(setting, settings->step))
        setting_unknown(settings, settings->step, "--", "--", name, length);
    const Option *option = setting->option;
    if (!option_taught(option, settings->step))
        refuse_untaught(option, settings->step);
    if (strcmp(option->name, "help") == 0)
        help_print(settings->step, program);

    const bool joined = name[length] == '=';
    const char *value = joined ? name + length + 1 : argv[1];
    if (value == NULL || (!joined && strncmp(value, "--", 2) == 0))
        usage_error("--%s needs a value: --%s %s", option->name, option->name, option->value);
    setting->text[BY_COMMAND_LINE] = value;
    return joined ? 1 : 2;
}

static noreturn void refuse_argument(const char *text)
{
    if (text[0] == '-' && isalpha((unsigned char)text[1]))
        usage_error("\"%s\" has no place here: options begin with two dashes; --help lists them",
                    text);
    usage_error("\"%s\" has no place here: two numbers go without a name, total_epochs and "
                "save_every; --help lists the rest",
                text);
}

static void read_command_line(Settings *settings, int argc, char **argv)
{
    static const char *const positional[] = { "epochs", "save-every" };
    size_t num_positional = 0;
    bool all_positional = false; // after a "--"
    for (int i = 1; i < argc;) {
        if (all_positional || strncmp(argv[i], "--", 2) != 0) {
            if (strcmp(argv[i], "-h") == 0)
                help_print(settings->step, argv[0]);
            if (num_positional == 2 || !isdigit((unsigned char)argv[i][0]))
                refuse_argument(argv[i]);
            find(settings, positional[num_positional++])->text[BY_COMMAND_LINE] = argv[i++];
        } else if (argv[i][2] == '\0') {
            all_positional = true;
            i++;
        } else {
            i += read_option(settings, argv[0], argv + i);
        }
    }
}

/* config.yaml at the top of the repository: programs lie one folder below. NULL: not there. */
static const char *find_config(void)
{
    static char path[PATH_MAX + sizeof "/config.yaml"];
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return NULL;
        *slash = '\0';
    }
    strcat(path, "/config.yaml");
    return access(path, F_OK) == 0 ? path : NULL;
}

/* Programs read LOCAL_RANK; older launchers pass an option instead. */
static void pass_on_local_rank(const Args *args)
{
    char text[16];
    snprintf(text, sizeof text, "%d", args->local_rank);
    if (args->local_rank >= 0)
        SYS_CHECK(setenv("LOCAL_RANK", text, 0)); // keeps a value that is set
}

/* The steps before 03 know no launcher: its ranks would each train alone, and save over one
 * another's files. */
static void refuse_launcher(Step step)
{
    const Launcher *launcher = launcher_find();
    const int ranks = launcher != NULL ? host_env_count(launcher->world_size) : 0;
    if (ranks > 1 && step < STEP_ENV)
        usage_error("this is one of %d ranks (%s), but step %02d knows no launcher, and each would "
                    "train alone: start it without one%s, or take step 03; if no others are there, "
                    "unset %s",
                    ranks, launcher->world_size, step, step == STEP_SPAWN ? ", with --nproc" : "",
                    launcher->rank);
}

void args_parse(Args *args, Step step, int argc, char **argv)
{
    static Settings settings; // static: Args keeps pointers to its strings
    settings_init(&settings, step);
    streams_guard();
    read_command_line(&settings, argc, argv);
    settings.path = find(&settings, "config")->text[BY_COMMAND_LINE];
    if (settings.path == NULL)
        settings.path = find_config();
    if (settings.path != NULL)
        config_read(&settings);

    *args = (Args){ 0 };
    store_values(args, &settings);
    if (step < STEP_FAULT && args->resume != NULL && strcmp(args->resume, "auto") == 0)
        usage_error("--resume auto comes with step 05: name the file here");
    resolve_defaults(args, &settings);
    pass_on_local_rank(args);
    refuse_launcher(step);
    comfort_tell_of_crowd(args->nproc);
    startup_settings(&settings);
}

int args_shards(const Args *args)
{
    const bool fixed = args->reduce_order != NULL && // NULL: not from args_defaults
                       strcmp(args->reduce_order, "fixed") == 0;
    return fixed ? NUM_SHARDS : 0;
}

int args_batch_size(const Args *args, int world_size)
{
    const int total = args->global_batch_size;
    if (total % world_size != 0)
        usage_error("--global-batch-size %d cannot be shared out to %d ranks: use %d", total,
                    world_size, total < world_size ? world_size : total - total % world_size);
    return total > 0 ? total / world_size : args->batch_size;
}
