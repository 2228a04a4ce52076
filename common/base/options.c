/*
 * One row per option drives the command line, the configuration file and --help: a new option is a
 * new row here, and a field in Args.
 */
#include "common/base/options.h"

#include <limits.h>

#include "common/base/log.h"
#include "common/base/spelling.h"

#define DATA "Model and data"
#define TRAINING "Training"
#define RESULTS "What is printed and saved"
#define MACHINE "Where it runs"
#define RANKS "How the ranks work together"
#define GENERAL "Options themselves"

const Option options[] = {
    { "model", "linear|cnn", "cnn", DATA, STEP_SINGLE, OPTION_CHOICE, offsetof(Args, model),
      .help = "one linear layer, or a convolutional network" },
    { "dataset", "random|digits|mnist", "digits", DATA, STEP_SINGLE, OPTION_CHOICE,
      offsetof(Args, dataset), .help = "made up, built in, or from files; linear: random" },
    { "dataset-size", "N", "2048", DATA, STEP_SINGLE, OPTION_INT, offsetof(Args, dataset_size),
      .help = "rows of the random data set", .low = 1, .high = INT_MAX },
    { "data-dir", "DIR", "data/mnist", DATA, STEP_SINGLE, OPTION_STRING, offsetof(Args, data_dir),
      .help = "where the files of MNIST are" },
    { "scratch-dir", "DIR", "none", DATA, STEP_NODES, OPTION_OPTIONAL, offsetof(Args, scratch_dir),
      .help = "copy those files there first, once on each node" },
    { "num-samples", "N", "0", DATA, STEP_SINGLE, OPTION_INT, offsetof(Args, num_samples),
      .help = "train on the first N rows only; 0: on all", .high = INT_MAX },
    { "init-from", "FILE", "none", DATA, STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, init_from),
      .help = "take the initial weights from a checkpoint" },

    { "epochs", "N", "10", TRAINING, STEP_SINGLE, OPTION_INT, offsetof(Args, epochs),
      .help = "times through the data (total_epochs)", .high = INT_MAX },
    { "batch-size", "N", "32", TRAINING, STEP_SINGLE, OPTION_INT, offsetof(Args, batch_size),
      .help = "samples per step, of each rank", .low = 1, .high = 1000000 },
    { "global-batch-size", "N", "none", TRAINING, STEP_SINGLE, OPTION_INT,
      offsetof(Args, global_batch_size), .help = "samples per step, of all ranks together",
      .low = 1, .high = INT_MAX },
    { "optimizer", "sgd|adam|adamw|adadelta", "sgd", TRAINING, STEP_SINGLE, OPTION_CHOICE,
      offsetof(Args, optimizer), .help = "how gradients change the weights" },
    { "lr", "X", "0.01", TRAINING, STEP_SINGLE, OPTION_REAL, offsetof(Args, lr),
      .help = "learning rate; linear, adam, adamw: 0.001; adadelta: 1", .high = 1000 },
    { "momentum", "X", "0.9", TRAINING, STEP_SINGLE, OPTION_REAL, offsetof(Args, momentum),
      .help = "of sgd; linear: 0", .high = 1 },
    { "weight-decay", "X", "0", TRAINING, STEP_SINGLE, OPTION_REAL, offsetof(Args, weight_decay),
      .help = "pull of the weights towards 0; adamw: 0.01", .high = 1000 },
    { "dropout", "on|off", "on", TRAINING, STEP_SINGLE, OPTION_SWITCH, offsetof(Args, dropout),
      .help = "off: for comparisons that must be exact" },
    { "seed", "N", "0", TRAINING, STEP_SINGLE, OPTION_UINT64, offsetof(Args, seed),
      .help = "all random numbers follow from it" },
    { "max-steps", "N", "0", TRAINING, STEP_SINGLE, OPTION_UINT64, offsetof(Args, max_steps),
      .help = "stop after N optimizer steps; 0: never" },

    { "log-interval", "N", "10", RESULTS, STEP_SINGLE, OPTION_INT, offsetof(Args, log_interval),
      .help = "batches between two lines with the loss", .low = 1, .high = INT_MAX },
    { "save-every", "N", "5", RESULTS, STEP_SINGLE, OPTION_INT, offsetof(Args, save_every),
      .help = "epochs between checkpoints; 0: only at the end", .high = INT_MAX },
    { "checkpoint-dir", "DIR", "checkpoints", RESULTS, STEP_SINGLE, OPTION_STRING,
      offsetof(Args, checkpoint_dir), .help = "folder for checkpoints" },
    { "resume", "FILE", "none", RESULTS, STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, resume),
      .help = "resume from this checkpoint", .fault_preset = "auto",
      .fault_help = "resume from this checkpoint; auto: the furthest" },
    { "save-every-steps", "N", "0", RESULTS, STEP_FAULT, OPTION_INT,
      offsetof(Args, save_every_steps), .help = "steps between snapshots; 0: none",
      .high = INT_MAX },
    { "keep", "N", "3", RESULTS, STEP_FAULT, OPTION_INT, offsetof(Args, keep),
      .help = "how many of the newest snapshots to keep", .low = 1, .high = INT_MAX },
    { "metrics-dir", "DIR", "off", RESULTS, STEP_SINGLE, OPTION_OPTIONAL,
      offsetof(Args, metrics_dir), .help = "write the metrics of every step there" },
    { "trace", "FILE", "off", RESULTS, STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, trace),
      .help = "write what happened when, for ui.perfetto.dev" },
    { "profile", "FILE", "off", RESULTS, STEP_SINGLE, OPTION_OPTIONAL, offsetof(Args, profile),
      .help = "write a table of where the time went" },

    { "device", "auto|cpu|cuda", "auto", MACHINE, STEP_SINGLE, OPTION_CHOICE,
      offsetof(Args, device), .help = "auto: cuda if every rank has a GPU" },
    { "amp", "off|bf16|fp16", "off", MACHINE, STEP_SINGLE, OPTION_CHOICE, offsetof(Args, amp),
      .help = "mixed precision: multiply in 16 bits, keep 32" },
    { "tf32", "on|off", "off", MACHINE, STEP_SINGLE, OPTION_SWITCH, offsetof(Args, tf32),
      .help = "multiply float32 in 19 bits, on a GPU" },
    { "cuda-graph", "on|off", "off", MACHINE, STEP_SINGLE, OPTION_SWITCH,
      offsetof(Args, cuda_graph), .help = "record a training step, then replay it" },
    { "threads", "N", "auto", MACHINE, STEP_SINGLE, OPTION_INT, offsetof(Args, threads),
      .help = "compute threads of a rank; auto: its share of cores", .low = 1, .high = 1024 },

    { "nproc", "N", "auto", RANKS, STEP_SPAWN, OPTION_INT, offsetof(Args, nproc),
      .help = "ranks to start; auto: one per GPU, else 2", .low = 1, .high = 1024,
      .last_step = STEP_SPAWN },
    { "local-rank", "N", "none", RANKS, STEP_ENV, OPTION_INT, offsetof(Args, local_rank),
      .help = "for old launchers; LOCAL_RANK in the environment wins", .high = INT_MAX },
    { "backend", "auto|nccl|mpi|tcp", "auto", RANKS, STEP_SPAWN, OPTION_CHOICE,
      offsetof(Args, backend), .help = "what carries collectives; auto: nccl on cuda, else tcp" },
    { "bucket-cap-mb", "MIB", "25", RANKS, STEP_SPAWN, OPTION_REAL, offsetof(Args, bucket_cap_mb),
      .help = "size of a gradient bucket; of the first: 1 at most", .low = 0.001, .high = 1000000 },
    { "all-reduce", "flat|hierarchical", "flat", RANKS, STEP_NODES, OPTION_CHOICE,
      offsetof(Args, all_reduce), .help = "hierarchical: fewer bytes between nodes (tcp)" },
    { "reduce-order", "any|fixed", "any", RANKS, STEP_FAULT, OPTION_CHOICE,
      offsetof(Args, reduce_order),
      .help = "fixed: 1, 2, 4, 8 ranks agree, with --global-batch-size" },
    { "check-collectives", "on|off", "off", RANKS, STEP_SPAWN, OPTION_SWITCH,
      offsetof(Args, check_collectives), .help = "compare what the ranks call, before each call" },
    { "timeout", "SECONDS", "300", RANKS, STEP_SPAWN, OPTION_REAL, offsetof(Args, timeout),
      .help = "for the rendezvous, and for each collective", .low = 0.001, .high = 1000000 },
    { "check-sync", "N", "0", RANKS, STEP_FAULT, OPTION_INT, offsetof(Args, check_sync),
      .help = "steps between comparisons of all replicas; 0: none", .high = INT_MAX },
    { "inject", "SPEC", "none", RANKS, STEP_FAULT, OPTION_FAULTS, offsetof(Args, inject),
      .help = "kill|stop|exit|slow|corrupt-grad|bitflip:RANK:STEP,..." },

    { "config", "FILE", "config.yaml", GENERAL, STEP_SINGLE, OPTION_ACTION, 0,
      .help = "read options from a file first" },
    { "help", "", "", GENERAL, STEP_SINGLE, OPTION_ACTION, 0, .help = "this list" },
};

const int num_options = sizeof options / sizeof options[0];
_Static_assert(sizeof options / sizeof options[0] <= MAX_OPTIONS, "raise MAX_OPTIONS");

const Option *option_find(const char *name, size_t length)
{
    for (const Option *option = options; option < options + num_options; option++)
        if (name_is(option->name, name, length))
            return option;
    return NULL;
}

void option_unknown(const char *place, const char *dashes, const char *name, size_t length,
                    int step)
{
    Nearest nearest = nearest_to(name, length);
    for (const Option *option = options; option < options + num_options; option++)
        if (option_taught(option, step))
            nearest_try(&nearest, option->name);
    const int shown = length < 80 ? (int)length : 80;
    if (nearest.name == NULL)
        usage_error("%s%.*s is no option: --help lists them", place, shown, name);
    usage_error("%s%.*s is no option: did you mean %s%s? --help lists them", place, shown, name,
                dashes, nearest.name);
}

bool option_taught(const Option *option, int step)
{
    return step == ANY_STEP ||
           (option->first_step <= step && (option->last_step == 0 || step <= option->last_step));
}

const char *option_preset(const Option *option, int step)
{
    return step == STEP_FAULT && option->fault_preset != NULL ? option->fault_preset
                                                              : option->preset;
}
