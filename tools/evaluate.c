/*
 * evaluate - how good is a trained model? Loss, accuracy and the confusion matrix.
 *
 *     tools/evaluate checkpoints/cnn_digits.safetensors
 *     03_torchrun_env/ddprun --nproc-per-node 4 tools/evaluate FILE --dataset mnist
 *
 * Under a launcher the ranks share the images: each image is tested once, by one rank, and the
 * counts are summed. So the result is the same for any number of ranks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/dist_env.h"
#include "common/comm/process_group.h"
#include "tools/model/classifier.h"
#include "tools/model/tool.h"

typedef struct {
    enum { AUTO, DIGITS, MNIST } dataset;
    enum { OF_TEST, OF_TRAIN } split;
} Options;

static const Tool tool = {
    .name = "tools/evaluate",
    .arguments = "FILE",
    .about =
        "Tests a model, a checkpoint or a folder of tools/export: loss, accuracy, and a row per\n"
        "class. Runs alone, or on several ranks under ddprun, torchrun, mpirun or srun.\n",
    .shared = (const char *const[]){ "data-dir", "batch-size", "device", "threads", "backend",
                                     "timeout", NULL },
    .own = (const Option[]){ { "dataset", "auto|digits|mnist", "auto", .kind = OPTION_CHOICE,
                               .offset = offsetof(Options, dataset),
                               .help = "auto: what it was trained on" },
                             { "split", "test|train", "test", .kind = OPTION_CHOICE,
                               .offset = offsetof(Options, split), .help = "which part of it" },
                             { .name = NULL } },
};

/* The predictions for a data set's images; summed over the ranks after sum_over_ranks. */
typedef struct {
    int64_t count[MODEL_FILE_MAX_LABELS][MODEL_FILE_MAX_LABELS]; // [class][prediction]
    double loss;
} Outcome;

/* Tests this rank's share of the images. */
static void test(Classifier *classifier, const Dataset *dataset, int batch_size, int rank,
                 int world_size, Outcome *outcome)
{
    Sampler sampler;
    sequential_sampler_init(&sampler, dataset->size, rank, world_size);
    DataLoader loader;
    dataloader_init(&loader, dataset, &sampler, batch_size);

    const int classes = classifier->from->num_labels;
    float *log_probs = mem_calloc((size_t)batch_size * classes, sizeof *log_probs);
    for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
        model_forward(&classifier->model, batch);
        classifier_log_probs(classifier, batch->size, log_probs);
        for (int i = 0; i < batch->size; i++) {
            const int32_t label = dataset->labels[batch->index[i]];
            outcome->count[label][classifier_argmax(log_probs + i * classes, classes)]++;
            outcome->loss -= log_probs[i * classes + label];
        }
    }
    free(log_probs);
    dataloader_free(&loader);
    sampler_free(&sampler);
}

/* Formats a ratio in percent; "-" if nothing was counted. */
static const char *percent(int64_t part, int64_t whole, char text[16])
{
    if (whole == 0)
        return "-";
    snprintf(text, 16, "%.2f", 100.0 * (double)part / (double)whole);
    return text;
}

/* Prints the confusion matrix: a row for each class, a column for each prediction. */
static void print_matrix(const Outcome *outcome, const ModelFile *from)
{
    printf("%-8s taken for\n%-8s", "", "class");
    for (int c = 0; c < from->num_labels; c++)
        printf(" %5.5s", from->label[c]);
    for (int c = 0; c < from->num_labels; c++) {
        printf("\n%-8.8s", from->label[c]);
        for (int other = 0; other < from->num_labels; other++) {
            if (outcome->count[c][other] > 0)
                printf(" %5" PRId64, outcome->count[c][other]);
            else
                printf(" %5s", ".");
        }
    }
    printf("\n");
}

static void print_outcome(const Outcome *outcome, const ModelFile *from, const Dataset *dataset)
{
    const int classes = from->num_labels;
    const int64_t size = (int64_t)dataset->size;
    int64_t correct = 0, images[MODEL_FILE_MAX_LABELS] = { 0 },
            chosen[MODEL_FILE_MAX_LABELS] = { 0 };
    for (int c = 0; c < classes; c++) {
        correct += outcome->count[c][c];
        for (int other = 0; other < classes; other++) {
            images[c] += outcome->count[c][other];
            chosen[c] += outcome->count[other][c];
        }
    }
    char text[3][16];
    printf("%s: Loss: %.4f Accuracy: %s%% (%" PRId64 "/%" PRId64 ")\n\n", dataset->name,
           outcome->loss / (double)size, percent(correct, size, text[0]), correct, size);
    print_matrix(outcome, from);

    // One class against all others. Recall: correct among its images; precision: correct among its
    // predictions; accuracy: correct among all.
    printf("\n%-8s %7s %9s %12s %11s\n", "class", "images", "recall %", "precision %",
           "accuracy %");
    for (int c = 0; c < classes; c++) {
        const int64_t hits = outcome->count[c][c], wrong = images[c] + chosen[c] - 2 * hits;
        printf("%-8.8s %7" PRId64 " %9s %12s %11s\n", from->label[c], images[c],
               percent(hits, images[c], text[0]), percent(hits, chosen[c], text[1]),
               percent(size - wrong, size, text[2]));
    }
}

/* Sums over all ranks; the numbers lie in host memory, whichever device the model runs on. */
static void sum_over_ranks(Outcome *outcome, const Args *args, const DistEnv *env)
{
    ProcessGroup pg;
    process_group_init(&pg, args, env->master_addr, env->master_port, env->rank, env->world_size,
                       (MemoryLocation){ 0 });
    const size_t count = sizeof outcome->count / sizeof outcome->count[0][0];
    all_reduce(&pg, outcome->count, count, INT64, REDUCE_SUM);
    outcome->loss = all_reduce_scalar(&pg, outcome->loss, REDUCE_SUM);
    process_group_destroy(&pg);
}

int main(int argc, char **argv)
{
    Args args;
    Options options;
    const char *path;
    tool_parse(&tool, &args, &options, &path, argc, argv);
    DistEnv env = { .world_size = 1 };
    if (launcher_find() != NULL) {
        dist_env_init(&env);
        log_set_rank(env.rank, env.world_size);
    }

    ModelFile from;
    model_file_open(&from, path);
    const bool digits = options.dataset == AUTO
                            ? from.dataset != NULL && strcmp(from.dataset, "digits") == 0
                            : options.dataset == DIGITS;
    args.dataset = digits ? DATASET_DIGITS : DATASET_MNIST;
    Classifier classifier;
    classifier_init(&classifier, &args, &from, args.batch_size, env.local_rank);
    Dataset dataset;
    Rng rng = { 0 };
    dataset_init(&dataset, &args, options.split == OF_TEST ? TEST : TRAIN, &rng);
    dataset_normalise(&dataset, from.mean, from.std);

    Outcome outcome = { 0 };
    test(&classifier, &dataset, args.batch_size, env.rank, env.world_size, &outcome);
    if (env.world_size > 1)
        sum_over_ranks(&outcome, &args, &env);
    if (env.rank == 0)
        print_outcome(&outcome, &from, &dataset);

    dataset_free(&dataset);
    classifier_free(&classifier);
    model_file_close(&from);
    streams_exit();
}
