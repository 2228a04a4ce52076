/* A data set is loaded whole and stays in host memory: MNIST's 60,000 images are 47 MB as bytes.
 * They stay bytes until they are gathered into a batch, through a table of their 256 normalised
 * values, which moves a quarter of the bytes. The other sets are small and are stored as floats. */
#include "common/data/dataset.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

enum { IMAGE_SIDE = 28, NUM_DIGITS = 10 };

/* Draws rows as PyTorch's series does: row by row, torch.rand(20), then torch.rand(1). */
static void random_load(Dataset *dataset, size_t rows, Rng *rng)
{
    dataset->size = rows;
    dataset->features = 20;
    dataset->floats = mem_calloc(rows * dataset->features, sizeof *dataset->floats);
    dataset->targets = mem_calloc(rows, sizeof *dataset->targets);
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < dataset->features; i++)
            dataset->floats[row * dataset->features + i] = rng_uniform(rng);
        dataset->targets[row] = rng_uniform(rng);
    }
}

void dataset_normalise(Dataset *dataset, float mean, float std)
{
    const float old_mean = dataset->mean, old_std = dataset->std;
    if (mean == old_mean && std == old_std)
        return;
    for (size_t i = 0; dataset->floats != NULL && i < dataset->size * dataset->features; i++)
        dataset->floats[i] = (dataset->floats[i] * old_std + old_mean - mean) / std;
    for (int i = 0; i < 256; i++)
        dataset->normalised[i] = ((float)i / 255 - mean) / std;
    dataset->mean = mean;
    dataset->std = std;
}

static void mnist_load(Dataset *dataset, const char *dir, Split split)
{
    size_t images[3], labels[1];
    const char *name = mnist_files[split == TRAIN ? 0 : 2];
    const char *label_name = mnist_files[split == TRAIN ? 1 : 3];
    dataset->bytes = idx_read(dir, name, 3, images);
    CHECK(images[1] == IMAGE_SIDE && images[2] == IMAGE_SIDE,
          "%s/%s holds images of %zu x %zu pixels, not of 28 x 28: it is not MNIST's", dir, name,
          images[1], images[2]);

    uint8_t *classes = idx_read(dir, label_name, 1, labels);
    CHECK(images[0] > 0 && images[0] == labels[0],
          "%s: %zu images in %s, but %zu labels in %s: run data/get_mnist.sh", dir, images[0], name,
          labels[0], label_name);

    dataset->size = images[0];
    dataset->labels = mem_calloc(dataset->size, sizeof *dataset->labels);
    for (size_t i = 0; i < dataset->size; i++) {
        CHECK(classes[i] < NUM_DIGITS, "%s/%s: label %zu is %d, not a digit from 0 to 9", dir,
              label_name, i, classes[i]);
        dataset->labels[i] = classes[i];
    }
    free(classes);
}

void dataset_init(Dataset *dataset, const Args *args, Split split, Rng *rng)
{
    static const char *const names[] = { "random", "digits", "mnist" };
    static unsigned num_loaded;
    *dataset = (Dataset){ .name = names[args->dataset],
                          .id = ++num_loaded,
                          .std = 1,
                          .shards = split == TRAIN ? args_shards(args) : 0 };
    if (args->dataset == DATASET_RANDOM)
        random_load(dataset, split == TRAIN ? (size_t)args->dataset_size : 0, rng);
    else if (args->dataset == DATASET_DIGITS)
        dataset->size = digits_read(split == TEST, &dataset->floats, &dataset->labels);
    else
        mnist_load(dataset, args->scratch_dir != NULL ? args->scratch_dir : args->data_dir, split);
    if (dataset->labels != NULL) { // images: by the mean and deviation of MNIST's training pixels
        dataset->features = IMAGE_SIDE * IMAGE_SIDE;
        dataset->num_classes = NUM_DIGITS;
        dataset_normalise(dataset, 0.1307f, 0.3081f);
    }

    if (split == TRAIN && args->num_samples > 0) {
        if ((size_t)args->num_samples > dataset->size)
            usage_error("--num-samples %d: %s has only %zu rows to train on; ask for fewer, or "
                        "leave the option out for all",
                        args->num_samples, dataset->name, dataset->size);
        dataset->size = (size_t)args->num_samples;
    }
}

int dataset_max_rows(const Args *args)
{
    const int rows = args->dataset == DATASET_RANDOM   ? args->dataset_size
                     : args->dataset == DATASET_DIGITS ? DIGITS_ROWS
                                                       : INT_MAX;
    const int padding = args_shards(args);
    return rows < INT_MAX - padding ? rows + padding : INT_MAX;
}

void dataset_free(Dataset *dataset)
{
    free(dataset->bytes);
    free(dataset->floats);
    free(dataset->labels);
    free(dataset->targets);
}
