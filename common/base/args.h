/* args.h - the options of the trainers; each step knows those taught by it and by earlier steps.
 * Values come from, in increasing order of precedence: the defaults, the configuration file that
 * extras/comfort reads, the command line. */
#ifndef COMMON_BASE_ARGS_H
#define COMMON_BASE_ARGS_H

#include <limits.h>

#include "common/base/options.h"

/* The choices, in the order of their words in --help. The first of each is its default, except for
 * the model and its data set. */
typedef enum { MODEL_LINEAR, MODEL_CNN, MODEL_MLP } ModelKind;
typedef enum { DATASET_RANDOM, DATASET_DIGITS, DATASET_MNIST } DatasetKind;
typedef enum { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAMW, OPTIM_ADADELTA } OptimKind;
typedef enum { LR_CONSTANT, LR_STEP, LR_COSINE } LrScheduleKind;
typedef enum { ON_NAN_STOP, ON_NAN_WARN } OnNan;
typedef enum { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA, DEVICE_PLAIN } DeviceKind;
typedef enum { AMP_OFF, AMP_BF16, AMP_FP16 } Amp;
typedef enum { CONV_AUTO, CONV_IM2COL, CONV_CUDNN } ConvKind;
typedef enum { BACKEND_AUTO, BACKEND_NCCL, BACKEND_MPI, BACKEND_TCP, BACKEND_GLOO } BackendKind;
typedef enum { ALL_REDUCE_FLAT, ALL_REDUCE_HIERARCHICAL } AllReduceKind;
typedef enum { ORDER_ANY, ORDER_FIXED } ReduceOrder;

typedef struct Args {
    struct Settings *settings; // what the user typed, and where; NULL after args_defaults
    ModelKind model;
    DatasetKind dataset;
    const char *data_dir; // folder of MNIST's files
    const char *scratch_dir; // folder for this node's copy of them, or NULL
    int dataset_size; // rows of the random set
    int num_samples; // number of rows to train on, the first ones; 0: all
    int epochs;
    int save_every; // epochs between checkpoints; 0: only at the end
    int batch_size; // samples per step and rank; see args_batch_size
    int global_batch_size; // samples per step of all ranks together; 0: not given
    OptimKind optimizer;
    double lr, momentum, weight_decay;
    LrScheduleKind lr_schedule;
    int warmup_steps; // steps over which the rate rises to lr
    double clip_norm; // largest norm of all gradients together; 0: any
    bool dropout;
    OnNan on_nan; // see check_divergence
    uint64_t seed;
    int threads; // compute threads of a rank; 0: cores / ranks on this node
    const char *init_from; // file with weights, or NULL
    const char *resume; // file to resume from, or NULL
    bool resume_auto; // --resume auto: find the file
    const char *checkpoint_dir;
    const char *metrics_dir; // or NULL
    const char *trace, *profile; // files of extras/watch, or NULL
    bool show_topology; // rank 0 lists all ranks
    uint64_t max_steps; // UINT64_MAX: no limit
    int log_interval; // batches
    DeviceKind device;
    Amp amp; // see device.h
    bool tf32, cuda_graph; // multiply float32 in 19 bits; record a training step and replay it
    ConvKind conv;

    BackendKind backend;
    AllReduceKind all_reduce;
    ReduceOrder reduce_order; // see args_shards
    bool check_collectives, nccl_register; // compare calls; extras/nccl_register
    double bucket_cap_mb;
    double timeout; // seconds, for the rendezvous and for each collective
    const char *simulate_network; // rate of extras/simulated_network, see parse_rate; or NULL
    int nproc; // step 02: ranks to spawn; 0: not given
    int save_every_steps; // optimizer steps between snapshots; 0: none
    int keep; // how many snapshots to keep
    int check_sync; // steps between comparisons of the replicas; 0: never
    const char *inject; // faults, see fault_spec.h; or NULL
    int local_rank; // from the old launch module, becomes LOCAL_RANK (-1 if not given)
} Args;

/* Fills args. Ends the process with status 2 and one line if an argument is invalid, with status 0
 * after --help. Strings live as long as the process. Local. */
void args_parse(Args *args, Step step, int argc, char **argv);

/* Fills args with the defaults for a model, "cnn" for example. */
void args_defaults(Args *args, const char *model);

/* Returns an option's value as a user would type it; for a path, a placeholder such as "FILE". */
enum { ARGS_VALUE_BYTES = 64 };
const char *args_value(const Args *args, const Option *option, char text[ARGS_VALUE_BYTES]);

/* Returns where the user set an option: "--lr", "config.yaml:7: lr". Valid until the next call. */
const char *args_origin(const Args *args, const char *name);

enum { NUM_SHARDS = 8 };

/* Returns how many shards the batch of all ranks is cut into: 0, or with --reduce-order fixed 8,
 * for any number of ranks. Row p belongs to shard p % 8. Gradients are summed within each shard,
 * and the shards' sums as a tree: k with k + 4, those sums with k + 2, those with k + 1. Rank r of
 * W has the shards r, r + W, ..., so the tree begins inside the ranks and ends between them: 1, 2,
 * 4 and 8 ranks add the same numbers in the same order. (Step 05 refuses other numbers.) */
int args_shards(const Args *args);

/* Returns the samples per rank and step: batch_size, or an equal share of global_batch_size. Usage
 * error where it does not divide evenly. */
int args_batch_size(const Args *args, int world_size);

/* ---- for the extras, tools and tests ---- */

extern const Option args_options[]; // in the order of --help; the last has no name

/* Returns the row of an option, for option_set and args_value. */
const Option *args_option(const char *name);

enum { MAX_OPTIONS = 64 };

/* In increasing order of precedence. */
typedef enum { BY_DEFAULT, BY_FILE, BY_COMMAND_LINE } SettingSource;

/* The value of one option. */
typedef struct {
    const char *text; // as typed
    SettingSource source;
    const char *origin; // "config.yaml:7: lr"; NULL for the command line, or the default
} Setting;

typedef struct Settings {
    Step step; // the program's step
    Args *args; // filled with the values
    Setting of[MAX_OPTIONS]; // in the order of args_options
} Settings;

#endif
