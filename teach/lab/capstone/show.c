/*
 * Prints what judge_capstone.py compares of a data set and a model, in lines "NAME numbers".
 * Usage: show --model mlp --dataset mnist --data-dir DIR [--num-samples N]
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/nn/model.h"

enum { ROWS = 16 };

static void show_set(const char *name, const Dataset *set)
{
    printf("size_%s %zu rows of %zu numbers in %d classes\n", name, set->size, set->features,
           set->num_classes);
    printf("labels_%s", name);
    for (size_t row = 0; row < set->size; row++)
        printf(" %d", (int)set->labels[row]);
    printf("\nnormalise_%s %g %g\n", name, (double)set->mean, (double)set->std);
}

static void show_array(const Model *model, const char *name, const float *array)
{
    for (int i = 0; i < model->num_parameters; i++) {
        const Tensor *tensor = &model->parameter[i];
        float *values = mem_alloc(tensor->numel, sizeof *values);
        double sum = 0;
        model_export(model, i, array, values);
        for (size_t j = 0; j < tensor->numel; j++)
            sum += (double)values[j] * (double)values[j];
        printf("%s %s %g %g of %zu, squares %g\n", name, tensor->name, (double)values[0],
               (double)values[tensor->numel - 1], tensor->numel, sum);
        free(values);
    }
}

static void print_call(void *context, int i)
{
    (void)context;
    printf(" %d", i);
}

/* Runs one forward and backward pass over the first rows. */
static void show_pass(Model *model, const Dataset *set, int rows, const char *suffix)
{
    size_t index[ROWS];
    for (int row = 0; row < rows; row++)
        index[row] = (size_t)(rows - 1 - row);
    const Batch batch = { .dataset = set, .index = index, .size = rows, .row_stride = 1 };
    model_forward(model, &batch);
    if (suffix[0] == '\0')
        printf("inputs %g %g\n", (double)model->inputs[400],
               (double)model->inputs[set->features + 300]);
    printf("loss%s %g, %d are right\n", suffix, (double)model_loss(model), model_correct(model));
    printf("hook%s", suffix);
    fflush(stdout);
    model_backward(model);
    printf("\n");
}

int main(int argc, char **argv)
{
    Args args;
    args_parse(&args, STEP_SINGLE, argc, argv);
    Device device;
    device_init(&device, &args, 0);
    Rng rng;
    rng_seed(&rng, args.seed);
    Dataset train_set, test_set;
    dataset_init(&train_set, &args, TRAIN, &rng);
    dataset_init(&test_set, &args, TEST, &rng);
    show_set("train", &train_set);
    show_set("test", &test_set);

    Model model;
    model_init(&model, &args, ROWS, &rng, &device);
    show_array(&model, "weights", model.params);
    model_set_grad_hook(&model, print_call, NULL);
    model_zero_grad(&model);
    show_pass(&model, &train_set, ROWS, "");
    show_array(&model, "gradient", model.grads);
    show_pass(&model, &train_set, 3, "_short"); // and without zero_grad
    show_array(&model, "again", model.grads);
    show_array(&model, "untouched", model.params);

    model_free(&model);
    dataset_free(&test_set);
    dataset_free(&train_set);
    device_free(&device);
    return 0;
}
