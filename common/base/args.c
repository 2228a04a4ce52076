/* Fills Args from the command line, then from the configuration file, then from the defaults;
 * checks and combines options. One row of a table per option drives all of this and --help. */
#include "common/base/args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"

#define FIELD(name) offsetof(Args, name)

const Option args_options[] = {
    { "model", "linear|cnn|mlp", "cnn", "12345", OPTION_CHOICE, FIELD(model),
      .help = "one linear layer, convolutions, or eight equal layers",
      .heading = "Model and data" },
    { "dataset", "random|digits|mnist", "digits", "12345", OPTION_CHOICE, FIELD(dataset),
      .help = "made up, built in, or from files; linear: random" },
    { "dataset-size", "N", "2048", "12345", OPTION_INT, FIELD(dataset_size),
      .help = "rows of the random data set", .low = 1, .high = INT_MAX },
    { "data-dir", "DIR", "data/mnist", "12345", OPTION_STRING, FIELD(data_dir),
      .help = "where the files of MNIST are", .scope = OF_RANK },
    { "scratch-dir", "DIR", "none", "45", OPTION_OPTIONAL, FIELD(scratch_dir),
      .help = "copy those files there first, once on each node", .of_extra = true,
      .scope = OF_RANK },
    { "num-samples", "N", "0", "12345", OPTION_INT, FIELD(num_samples),
      .help = "train on the first N rows only; 0: on all", .high = INT_MAX },
    { "init-from", "FILE", "none", "12345", OPTION_OPTIONAL, FIELD(init_from),
      .help = "start from the weights in this file or exported folder" },
    { "epochs", "N", "10", "12345", OPTION_INT, FIELD(epochs),
      .help = "times through the data (total_epochs)", .high = INT_MAX, .heading = "Training" },
    { "batch-size", "N", "32", "12345", OPTION_INT, FIELD(batch_size),
      .help = "samples per step, of each rank", .low = 1, .high = 1000000 },
    { "global-batch-size", "N", "none", "12345", OPTION_INT, FIELD(global_batch_size),
      .help = "samples per step, of all ranks together", .low = 1, .high = INT_MAX },
    { "optimizer", "sgd|adam|adamw|adadelta", "sgd", "12345", OPTION_CHOICE, FIELD(optimizer),
      .help = "how gradients change the weights" },
    { "lr", "X", "0.01", "12345", OPTION_REAL, FIELD(lr),
      .help = "learning rate; linear, adam, adamw: 0.001; adadelta: 1", .high = 1000,
      .scope = OF_RUN },
    { "lr-schedule", "constant|step|cosine", "constant", "12345", OPTION_CHOICE, FIELD(lr_schedule),
      .help = "step: 0.7 times lr each epoch; cosine: to 0", .scope = OF_RUN },
    { "warmup-steps", "N", "0", "12345", OPTION_INT, FIELD(warmup_steps),
      .help = "steps in which the rate rises to lr first", .high = INT_MAX, .scope = OF_RUN },
    { "clip-norm", "X", "0", "12345", OPTION_REAL, FIELD(clip_norm),
      .help = "largest norm of all gradients together; 0: any", .high = 1000000, .scope = OF_RUN },
    { "momentum", "X", "0.9", "12345", OPTION_REAL, FIELD(momentum), .help = "of sgd; linear: 0",
      .high = 1, .scope = OF_RUN },
    { "weight-decay", "X", "0", "12345", OPTION_REAL, FIELD(weight_decay),
      .help = "pull of the weights towards 0; adamw: 0.01", .high = 1000, .scope = OF_RUN },
    { "dropout", "on|off", "on", "12345", OPTION_SWITCH, FIELD(dropout),
      .help = "off: for comparisons that must be exact", .scope = OF_RUN },
    { "on-nan", "stop|warn", "stop", "12345", OPTION_CHOICE, FIELD(on_nan),
      .help = "what to do when weights are nan or infinite" },
    { "seed", "N", "0", "12345", OPTION_UINT64, FIELD(seed),
      .help = "all random numbers follow from it" },
    { "max-steps", "N", "0", "12345", OPTION_UINT64, FIELD(max_steps),
      .help = "stop after N optimizer steps; 0: never" },
    { "log-interval", "N", "10", "12345", OPTION_INT, FIELD(log_interval),
      .help = "batches between two lines with the loss", .low = 1, .high = INT_MAX,
      .heading = "What is printed and saved" },
    { "save-every", "N", "5", "12345", OPTION_INT, FIELD(save_every),
      .help = "epochs between checkpoints; 0: only at the end", .high = INT_MAX, .scope = OF_RANK },
    { "checkpoint-dir", "DIR", "checkpoints", "12345", OPTION_STRING, FIELD(checkpoint_dir),
      .help = "folder for checkpoints", .scope = OF_RANK },
    { "resume", "FILE", "none", "1234", OPTION_STRING, FIELD(resume),
      .help = "resume from this checkpoint" },
    { "resume", "FILE", "auto", "5", OPTION_STRING, FIELD(resume),
      .help = "resume from this checkpoint; auto: the furthest", .scope = OF_RANK },
    { "metrics-dir", "DIR", "off", "12345", OPTION_OPTIONAL, FIELD(metrics_dir),
      .help = "write the metrics of every step there" },
    { "trace", "FILE", "off", "12345", OPTION_OPTIONAL, FIELD(trace),
      .help = "write what happened when, for ui.perfetto.dev", .of_extra = true },
    { "profile", "FILE", "off", "12345", OPTION_OPTIONAL, FIELD(profile),
      .help = "write a table of where the time went", .of_extra = true },
    { "show-topology", "on|off", "off", "345", OPTION_SWITCH, FIELD(show_topology),
      .help = "rank 0 lists all ranks: node, host, device, cores", .of_extra = true },
    { "device", "auto|cpu|cuda|plain", "auto", "12345", OPTION_CHOICE, FIELD(device),
      .help = "auto: cuda if every rank has a GPU", .heading = "Where it runs", .scope = OF_RANK },
    { "amp", "off|bf16|fp16", "off", "12345", OPTION_CHOICE, FIELD(amp),
      .help = "mixed precision: multiply in 16 bits, keep 32", .scope = OF_RUN },
    { "tf32", "on|off", "off", "12345", OPTION_SWITCH, FIELD(tf32),
      .help = "multiply float32 in 19 bits, on a GPU", .scope = OF_RUN },
    { "conv", "auto|im2col|cudnn", "auto", "12345", OPTION_CHOICE, FIELD(conv),
      .help = "convolutions on a GPU, by what; auto: im2col", .of_extra = true, .scope = OF_RANK },
    { "cuda-graph", "on|off", "off", "12345", OPTION_SWITCH, FIELD(cuda_graph),
      .help = "record a training step, then replay it", .of_extra = true, .scope = OF_RANK },
    { "threads", "N", "auto", "12345", OPTION_INT, FIELD(threads),
      .help = "compute threads of a rank; auto: its share of cores", .low = 1, .high = 1024,
      .scope = OF_RANK },
    { "backend", "auto|nccl|mpi|tcp|gloo", "auto", "2345", OPTION_CHOICE, FIELD(backend),
      .help = "what carries collectives; auto: nccl on cuda, else tcp",
      .heading = "How the ranks work together", .scope = OF_RANK },
    { "nproc", "N", "auto", "2", OPTION_INT, FIELD(nproc),
      .help = "ranks to start; auto: one per GPU, else 2", .low = 1, .high = 1024,
      .scope = OF_RANK },
    { "local-rank", "N", "none", "345", OPTION_INT, FIELD(local_rank),
      .help = "for old launchers; LOCAL_RANK in the environment wins", .high = INT_MAX,
      .scope = OF_RANK },
    { "bucket-cap-mb", "MIB", "25", "2345", OPTION_REAL, FIELD(bucket_cap_mb),
      .help = "size of a gradient bucket; of the first: 1 at most", .low = 0.001, .high = 1000000 },
    { "all-reduce", "flat|hierarchical", "flat", "45", OPTION_CHOICE, FIELD(all_reduce),
      .help = "hierarchical: fewer bytes between nodes (tcp)", .of_extra = true },
    { "reduce-order", "any|fixed", "any", "5", OPTION_CHOICE, FIELD(reduce_order),
      .help = "fixed: 1, 2, 4, 8 ranks agree, with --global-batch-size" },
    { "nccl-register", "on|off", "off", "2345", OPTION_SWITCH, FIELD(nccl_register),
      .help = "gradients in memory that NCCL has registered", .of_extra = true },
    { "check-collectives", "on|off", "off", "2345", OPTION_SWITCH, FIELD(check_collectives),
      .help = "compare what the ranks call, before each call" },
    { "timeout", "SECONDS", "300", "2345", OPTION_REAL, FIELD(timeout),
      .help = "for the rendezvous, and for each collective", .low = 0.001, .high = 1000000,
      .scope = OF_RANK },
    { "simulate-network", "RATE", "off", "2345", OPTION_RATE, FIELD(simulate_network),
      .help = "no node sends or receives faster (tcp), as in 3gbit", .of_extra = true },
    { "save-every-steps", "N", "0", "5", OPTION_INT, FIELD(save_every_steps),
      .help = "steps between snapshots; 0: none", .high = INT_MAX,
      .heading = "Snapshots, checks and faults" },
    { "keep", "N", "3", "5", OPTION_INT, FIELD(keep),
      .help = "how many of the newest snapshots to keep", .low = 1, .high = INT_MAX,
      .scope = OF_RANK },
    { "check-sync", "N", "0", "5", OPTION_INT, FIELD(check_sync),
      .help = "steps between comparisons of all replicas; 0: none", .high = INT_MAX },
    { "inject", "SPEC", "none", "5", OPTION_OPTIONAL, FIELD(inject),
      .help = "kill|stop|exit|slow|corrupt-grad|bitflip:RANK:STEP,...", .scope = OF_RANK },
    { "help", "", "", "12345", OPTION_ACTION, 0, .help = "this list",
      .heading = "Options themselves" },
    { "version", "", "", "12345", OPTION_ACTION, 0, .help = "the version of this program" },
    { "config", "FILE", "config.yaml", "12345", OPTION_ACTION, 0,
      .help = "read options from a file first", .of_extra = true },
    { 0 },
};
_Static_assert(sizeof args_options / sizeof *args_options <= MAX_OPTIONS, "raise MAX_OPTIONS");

const Option *args_option(const char *name)
{
    return option_find(args_options, ANY_STEP, name, strlen(name));
}

static Setting *setting_of(Settings *settings, const char *name)
{
    const Option *option = option_find(args_options, settings->step, name, strlen(name));
    return &settings->of[option - args_options];
}

static const char *origin_of(const Settings *settings, const Setting *setting)
{
    static char typed[64];
    snprintf(typed, sizeof typed, "--%s", args_options[setting - settings->of].name);
    return setting->origin != NULL ? setting->origin : typed;
}

static void set_default(Settings *settings, const char *name, const char *text)
{
    Setting *setting = setting_of(settings, name);
    if (setting->source != BY_DEFAULT)
        return;
    setting->text = text;
    option_set(&args_options[setting - settings->of], settings->args, text, NULL);
}

/* Sets what was typed, else the default, also for options that the step does not have. */
static void set_values(Settings *settings)
{
    for (const Option *option = args_options; option->name != NULL; option++) {
        const Setting *setting = &settings->of[option - args_options];
        if (setting->source == BY_COMMAND_LINE)
            option_set(option, settings->args, setting->text, NULL);
        else if (setting_of(settings, option->name) == setting)
            set_default(settings, option->name, option->preset);
    }
}

/* Drops an option that clashes with one of higher precedence: "momentum: 0.9" in the file does not
 * forbid `--optimizer adam`. If both have the same precedence, the user has to decide. */
static void drop_overridden(Settings *settings, bool clashes, const char *name, const char *other,
                            const char *remedy)
{
    Setting *setting = setting_of(settings, name);
    if (!clashes || setting->source == BY_DEFAULT)
        return;
    if (setting->source >= setting_of(settings, other)->source)
        usage_error("%s does not go with this --%s: %s", origin_of(settings, setting), other,
                    remedy);
    *setting = (Setting){ .source = BY_DEFAULT };
    set_default(settings, name, args_options[setting - settings->of].preset);
}

static void refuse_clashes(Settings *settings)
{
    const Args *args = settings->args;
    const bool linear = args->model == MODEL_LINEAR;
    const bool images = args->dataset != DATASET_RANDOM;
    const bool two_sizes =
        args->global_batch_size > 0 && setting_of(settings, "batch-size")->source >=
                                           setting_of(settings, "global-batch-size")->source;
    drop_overridden(settings, linear == images, "dataset", "model",
                    "linear learns from random, mlp and cnn from digits or mnist");
    drop_overridden(settings, args->optimizer != OPTIM_SGD, "momentum", "optimizer",
                    "leave it out, or use --optimizer sgd");
    drop_overridden(settings, args_shards(args) > 0 && args->all_reduce == ALL_REDUCE_HIERARCHICAL,
                    "all-reduce", "reduce-order",
                    "hierarchical has an order of its own; leave one out");
    drop_overridden(settings, two_sizes, "global-batch-size", "batch-size",
                    "give the batch of each rank, or that of all together");
    drop_overridden(settings, args->resume != NULL && args->init_from != NULL, "init-from",
                    "resume", "it has weights of its own; leave one of them out");
}

/* Applies the rules about combinations of options. */
static void resolve(Settings *settings)
{
    Args *args = settings->args;
    args->resume_auto = strcmp(args->resume, "auto") == 0;
    if (args->resume_auto && settings->step < STEP_FAULT)
        usage_error("--resume auto comes with step 05: name the file here");
    if (args->resume_auto || strcmp(args->resume, "none") == 0)
        args->resume = NULL;
    refuse_clashes(settings);

    const bool linear = args->model == MODEL_LINEAR;
    const bool sgd = args->optimizer == OPTIM_SGD && !linear;
    const bool adadelta = args->optimizer == OPTIM_ADADELTA;
    set_default(settings, "dataset", linear ? "random" : "digits");
    set_default(settings, "momentum", sgd ? "0.9" : "0");
    set_default(settings, "lr", adadelta ? "1" : sgd ? "0.01" : "0.001");
    set_default(settings, "weight-decay", args->optimizer == OPTIM_ADAMW ? "0.01" : "0");
    if (args->max_steps == 0)
        args->max_steps = UINT64_MAX;
}

void args_defaults(Args *args, const char *model)
{
    Settings settings = { .args = args };
    *args = (Args){ 0 };
    set_values(&settings);
    option_set(args_option("model"), args, model, NULL);
    resolve(&settings);
}

const char *args_value(const Args *args, const Option *option, char text[ARGS_VALUE_BYTES])
{
    const void *field = (const char *)args + option->offset;
    const OptionKind kind = option->kind;
    const bool is_path = kind == OPTION_STRING || kind == OPTION_OPTIONAL;
    snprintf(text, ARGS_VALUE_BYTES, "%s", option->preset); // unless the field has a value
    if (kind == OPTION_SWITCH)
        strcpy(text, *(const bool *)field ? "on" : "off");
    else if (kind == OPTION_REAL)
        snprintf(text, ARGS_VALUE_BYTES, "%.15g", *(const double *)field);
    else if (kind == OPTION_INT && *(const int *)field >= option->low)
        snprintf(text, ARGS_VALUE_BYTES, "%d", *(const int *)field);
    else if (kind == OPTION_UINT64 && (field != &args->max_steps || args->max_steps < UINT64_MAX))
        snprintf(text, ARGS_VALUE_BYTES, "%ju", (uintmax_t) * (const uint64_t *)field);
    else if (kind == OPTION_CHOICE) {
        const char *word = option->value;
        for (int i = *(const int *)field; i > 0; i--)
            word = strchr(word, '|') + 1;
        snprintf(text, ARGS_VALUE_BYTES, "%.*s", (int)strcspn(word, "|"), word);
    } else if (kind != OPTION_INT && kind != OPTION_UINT64 && *(const char *const *)field != NULL)
        snprintf(text, ARGS_VALUE_BYTES, "%s",
                 is_path ? option->value : *(const char *const *)field);
    return text;
}

static noreturn void print_help(Step step, const char *program)
{
    static const char *const launchers[] = {
        [STEP_ENV] = "ddprun --nproc-per-node 2 ",
        [STEP_NODES] = "srun --nodes 2 --ntasks-per-node 2 ",
        [STEP_FAULT] = "ddprun --nproc-per-node 2 --max-restarts 3 ",
    };
    const char *launcher = step < STEP_ENV ? "" : launchers[step];
    const char *ranks = step == STEP_SPAWN ? " --nproc 2" : "";
    if (!log_prints_for_node())
        streams_exit();
    printf("Usage: %s [total_epochs [save_every]] [options]\n\n", program);
    printf("  %s%s 50 10 --batch-size 64%s\n", launcher, program, ranks);
    printf("  %s%s --model linear --epochs 3%s\n\n", launcher, program, ranks);
    printf("Each option with its [default]; - and _ are the same in names.\n%s",
           has_extras ? "Where an option can be off, none, no, false and null mean it.\n" : "");

    for (const Option *option = args_options; option->name != NULL; option++) {
        if (!option_is_listed(option, step))
            continue;
        if (option->heading != NULL)
            printf("\n%s\n", option->heading);
        option_print(option, 36);
    }
    streams_exit();
}

/* Records the text of the option at **word, the last word of which becomes **word. */
static void read_option(Settings *settings, const char *program, char ***word)
{
    const Step step = settings->step;
    const char *name = **word + 2;
    const size_t length = strcspn(name, "=");
    const Option *option = option_find(args_options, step, name, length);
    if (option == NULL || (option_is_taught(option, step) && !option_is_listed(option, step)))
        usage_error("--%.*s is no option:%s --help lists them", length < 80 ? (int)length : 80,
                    name, comfort_guess(args_options, step, name, length));
    const int first = option->steps[0] - '0';
    if ((int)step < first)
        usage_error("--%s comes with step %02d: --help lists the options of this one", option->name,
                    first);
    if (!option_is_taught(option, step))
        usage_error("--%s is for step %02d: here the launcher starts the ranks, by its "
                    "--nproc-per-node",
                    option->name, first);
    if (strcmp(option->name, "help") == 0)
        print_help(step, program);
    const char *joined = name[length] == '=' ? name + length + 1 : NULL;
    const char *text = option_text(option, joined, word);
    settings->of[option - args_options] = (Setting){ text, BY_COMMAND_LINE, NULL };
}

/* Records a word without a name: total_epochs, then save_every. */
static void read_number(Settings *settings, int position, const char *text)
{
    if (position > 1 || !isdigit((unsigned char)text[0]))
        usage_error("\"%s\" has no place here: options begin with two dashes; two numbers go "
                    "without a name, total_epochs and save_every; --help lists the rest",
                    text);
    const char *name = position == 0 ? "epochs" : "save-every";
    *setting_of(settings, name) = (Setting){ text, BY_COMMAND_LINE, NULL };
}

static void read_command_line(Settings *settings, int argc, char **argv)
{
    int num_numbers = 0;
    bool all_numbers = false; // true after a "--"
    for (char **word = argv + 1; word < argv + argc; word++) {
        if (!all_numbers && strcmp(*word, "-h") == 0)
            print_help(settings->step, argv[0]);
        if (!all_numbers && strcmp(*word, "--") == 0)
            all_numbers = true;
        else if (!all_numbers && strncmp(*word, "--", 2) == 0)
            read_option(settings, argv[0], &word);
        else
            read_number(settings, num_numbers++, *word);
    }
}

/* Refuses a launcher before step 03, because its ranks would each train alone, and overwrite one
 * another's files. */
static void refuse_launcher(Step step)
{
    const Launcher *launcher = step < STEP_ENV ? launcher_find() : NULL;
    const int ranks = launcher != NULL ? host_env_count(launcher->world_size) : 0;
    if (ranks > 1)
        usage_error("this is one of %d ranks (%s), but step %02d knows no launcher, and each would "
                    "train alone: start it without one%s, or take step 03; if no others are there, "
                    "unset %s",
                    ranks, launcher->world_size, step, step == STEP_SPAWN ? ", with --nproc" : "",
                    launcher->rank);
}

const char *args_origin(const Args *args, const char *name)
{
    return origin_of(args->settings, setting_of(args->settings, name));
}

void args_parse(Args *args, Step step, int argc, char **argv)
{
    static Settings parsed; // to which args->settings points
    parsed = (Settings){ .step = step, .args = args };
    *args = (Args){ .settings = &parsed };
    streams_guard();
    read_command_line(&parsed, argc, argv); // if an option was typed twice, the last text counts
    set_values(&parsed);
    comfort_read_config(&parsed);
    resolve(&parsed);
    if (args->local_rank >= 0) // programs read the variable, but older launchers pass the option
        SYS_CHECK(setenv("LOCAL_RANK", setting_of(&parsed, "local-rank")->text, false));
    refuse_launcher(step);
}

int args_shards(const Args *args)
{
    return args->reduce_order == ORDER_FIXED ? NUM_SHARDS : 0;
}

int args_batch_size(const Args *args, int world_size)
{
    const int total = args->global_batch_size;
    if (total % world_size != 0)
        usage_error("--global-batch-size %d cannot be shared out to %d ranks: use %d", total,
                    world_size, total < world_size ? world_size : total - total % world_size);
    return total > 0 ? total / world_size : args->batch_size;
}
