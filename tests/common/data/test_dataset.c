/*
 * The data sets against PyTorch's from the same seeds and files (tests/golden/), and MNIST's
 * loader with small sets of inconsistent files.
 */
#include "common/data/sampler.h"
#include "tests/common/data/dataset_args.h"
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"
#include "tests/helpers/folder.h"

#include <jansson.h>
#include <math.h>
#include <sys/mman.h>
#include <zlib.h>

enum { PIXELS = 28 * 28 };

static json_t *golden(const char *text)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    return object;
}

/* Uses the system's sha256sum, because the golden files have only the large arrays' sums. */
static void assert_sha256(const float *array, size_t numel, const char *expected)
{
    char path[] = "/tmp/test_dataset.XXXXXX", command[64], sum[65] = "";
    FILE *file = fdopen(mkstemp(path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(array, sizeof *array, numel, file), numel);
    fclose(file);
    snprintf(command, sizeof command, "sha256sum %s", path);
    FILE *answer = popen(command, "r");
    assert_int_equal(fscanf(answer, "%64s", sum), 1);
    pclose(answer);
    remove(path);
    assert_string_equal(sum, expected);
}

static void assert_first(const float *array, const json_t *object)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(object, "first"), i, value)
    {
        assert_true(array[i] == (float)json_real_value(value));
    }
    assert_true(i > 0);
}

static void check_random_set(const json_t *line)
{
    Rng rng;
    rng_seed(&rng, (uint64_t)json_integer_value(json_object_get(line, "seed")));
    const Args args = args_of(DATASET_RANDOM);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    assert_string_equal(dataset.name, "random");
    assert_int_equal(dataset.size, 2048);
    assert_int_equal(dataset.features, 20);
    assert_int_equal(dataset.num_classes, 0);
    assert_true(dataset.mean == 0 && dataset.std == 1);
    assert_null(dataset.bytes);

    const json_t *expected = json_object_get(line, "dataset");
    const json_t *x = json_object_get(expected, "x"), *y = json_object_get(expected, "y");
    assert_first(dataset.floats, x);
    assert_first(dataset.targets, y);
    const char *sum = "sha256_le_float32";
    assert_sha256(dataset.floats, 2048 * 20, json_string_value(json_object_get(x, sum)));
    assert_sha256(dataset.targets, 2048, json_string_value(json_object_get(y, sum)));
    dataset_free(&dataset);

    // The test half is empty and draws nothing, so the next number is the model's first weight.
    dataset_init(&dataset, &args, TEST, &rng);
    assert_int_equal(dataset.size, 0);
    dataset_free(&dataset);
    const double bound = sqrt(3.0) * (sqrt(2.0 / 6.0) / sqrt(20.0));
    const float weight = rng_uniform_between(&rng, (float)-bound, (float)bound);
    const json_t *weights = json_object_get(json_object_get(line, "params"), "weight");
    assert_true(weight ==
                (float)json_real_value(json_array_get(json_object_get(weights, "first"), 0)));
}

static void test_random_as_in_pytorch(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/init.jsonl", "r");
    assert_non_null(file);
    char *text = NULL;
    size_t capacity = 0;
    int checked = 0;
    while (getline(&text, &capacity, file) > 0) {
        json_t *line = golden(text);
        if (json_object_get(line, "dataset") != NULL) {
            check_random_set(line);
            checked++;
        }
        json_decref(line);
    }
    assert_int_equal(checked, 4);
    free(text);
    fclose(file);
}

static void assert_digits_row(const Dataset *dataset, size_t image, size_t row,
                              const json_t *expected)
{
    assert_int_equal(json_array_size(expected), 28);
    for (size_t i = 0; i < 28; i++)
        assert_float_equal(dataset->floats[image * PIXELS + row * 28 + i],
                           json_number_value(json_array_get(expected, i)), 1e-5);
}

static void assert_labels(const Dataset *dataset, const json_t *expected)
{
    assert_int_equal(json_array_size(expected), 20);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(dataset->labels[i], json_integer_value(json_array_get(expected, i)));
}

static double mean_of_power(const Dataset *dataset, int power)
{
    double sum = 0;
    for (size_t i = 0; i < dataset->size * dataset->features; i++)
        sum += pow(dataset->floats[i], power);
    return sum / (double)(dataset->size * dataset->features);
}

static void test_digits_as_in_pytorch(void **state)
{
    (void)state;
    json_t *expected = json_load_file("tests/golden/digits.json", 0, NULL);
    assert_non_null(expected);
    const Args args = args_of(DATASET_DIGITS);
    Dataset train, test;
    dataset_init(&train, &args, TRAIN, NULL);
    dataset_init(&test, &args, TEST, NULL);

    assert_int_equal(train.size, json_integer_value(json_object_get(expected, "train")));
    assert_int_equal(test.size, json_integer_value(json_object_get(expected, "test")));
    assert_int_equal(train.features, PIXELS);
    assert_int_equal(train.num_classes, 10);
    assert_labels(&train, json_object_get(expected, "labels_train_first"));
    assert_labels(&test, json_object_get(expected, "labels_test_first"));
    assert_digits_row(&train, 0, 10, json_object_get(expected, "train0_row10"));
    assert_digits_row(&train, 0, 14, json_object_get(expected, "train0_row14"));
    assert_digits_row(&test, 5, 9, json_object_get(expected, "test5_row9"));
    assert_float_equal(mean_of_power(&train, 1),
                       json_real_value(json_object_get(expected, "mean_train")), 1e-6);
    assert_float_equal(mean_of_power(&train, 2),
                       json_real_value(json_object_get(expected, "mean_square_train")), 1e-6);
    assert_float_equal(mean_of_power(&test, 1),
                       json_real_value(json_object_get(expected, "mean_test")), 1e-6);

    // Another model's normalisation, in units where paper is 0 and the strongest ink 1.
    const float ink = (1 - 0.1307f) / 0.3081f;
    size_t strongest = 0;
    while (fabsf(test.floats[strongest] - ink) > 1e-6f)
        strongest++;
    dataset_normalise(&test, 0.5f, 0.25f);
    assert_float_equal(test.floats[0], (0 - 0.5) / 0.25, 1e-5);
    assert_float_equal(test.floats[strongest], (1 - 0.5) / 0.25, 1e-5);

    dataset_normalise(&test, 0.5f, 0.5f); // either of the two alone
    assert_float_equal(test.floats[strongest], (1 - 0.5) / 0.5, 1e-5);
    dataset_normalise(&test, 0.25f, 0.5f);
    assert_float_equal(test.floats[strongest], (1 - 0.25) / 0.5, 1e-5);

    dataset_free(&test);
    dataset_free(&train);
    json_decref(expected);
}

extern uint8_t digits_csv_gz[], digits_csv_gz_end[]; // the program's own, compressed

/* Compresses text to where the digits are, which this process may then write. */
static void replace_digits(const char *text)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)digits_csv_gz;
    const size_t bytes = (size_t)(digits_csv_gz_end - digits_csv_gz);
    assert_int_equal(
        mprotect((void *)(begin / page * page), begin % page + bytes, PROT_READ | PROT_WRITE), 0);
    z_stream stream = { .next_in = (uint8_t *)text,
                        .avail_in = (unsigned)strlen(text),
                        .next_out = digits_csv_gz,
                        .avail_out = (unsigned)bytes };
    const int level = Z_BEST_COMPRESSION;
    assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
}

static const char *tail = ""; // what follows the last row

/* Loads 1,797 images of this row. */
static void load_digits_of(const void *row)
{
    const size_t bytes = strlen(row);
    char *text = calloc(DIGITS_ROWS * bytes + strlen(tail) + 1, 1);
    for (size_t i = 0; i < DIGITS_ROWS; i++)
        memcpy(text + i * bytes, row, bytes);
    strcat(text + (DIGITS_ROWS - 1) * bytes, tail);
    replace_digits(text);
    free(text);
    const Args args = args_of(DATASET_DIGITS);
    load_train(&args);
}

static void test_damaged_digits(void **state)
{
    (void)state;
    char row[256] = "";
    for (int i = 0; i < 63; i++)
        strcat(row, "0,");
    char *end = row + strlen(row);
    strcpy(end, "16,9\n");
    assert_int_equal(child_run(load_digits_of, row), 0);
    const char *const damaged[] = { "17,9\n",  "x,9\n", ",9\n",     "16;9\n", "16,9,",
                                    "16,10\n", "16,\n", "16,9\n\n", "16,9" };
    for (size_t i = 0; i < LENGTH(damaged); i++) {
        strcpy(end, damaged[i]);
        assert_dies_saying(load_digits_of, row, 1, "are damaged: restore data/digits.csv.gz");
    }
    strcpy(end, "16,9\n");
    tail = "0";
    assert_dies_saying(load_digits_of, row, 1, "are damaged: restore data/digits.csv.gz");
    tail = "";

    // The longest text: two digits in each number, and one more, which makes three for each.
    for (int i = 0; i < 64; i++)
        memcpy(row + 3 * i, "16,", 3);
    strcpy(row + 3 * 64, "09\n");
    assert_int_equal(strlen(row), 3 * 65);
    assert_int_equal(child_run(load_digits_of, row), 0);
}

/* Writes an IDX file of zeros except for the last byte. */
static void write_idx(const char *name, int ndim, const uint8_t shape[], uint8_t last)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const uint8_t magic[] = { 0, 0, 8, (uint8_t)ndim };
    fwrite(magic, 1, 4, file);
    long numel = 1;
    for (int i = 0; i < ndim; i++) {
        const uint8_t size[] = { 0, 0, 0, shape[i] };
        fwrite(size, 1, 4, file);
        numel *= shape[i];
    }
    for (; numel > 1; numel--)
        fputc(0, file);
    if (numel == 1)
        fputc(last, file);
    assert_int_equal(fclose(file), 0);
}

static void write_mnist(const uint8_t images[3], uint8_t num_labels, uint8_t last_label)
{
    write_idx("train-images-idx3-ubyte", 3, images, 255);
    write_idx("train-labels-idx1-ubyte", 1, &num_labels, last_label);
}

static void test_mnist_of_two_images(void **state)
{
    (void)state;
    Args args = args_of(DATASET_MNIST);
    args.data_dir = folder;
    write_mnist((const uint8_t[]){ 2, 28, 28 }, 2, 9);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, NULL);
    assert_int_equal(dataset.size, 2);
    assert_int_equal(dataset.features, PIXELS);
    assert_int_equal(dataset.num_classes, 10);
    assert_null(dataset.floats);
    assert_int_equal(dataset.bytes[2 * PIXELS - 2], 0);
    assert_int_equal(dataset.bytes[2 * PIXELS - 1], 255);
    assert_int_equal(dataset.labels[0], 0);
    assert_int_equal(dataset.labels[1], 9);
    for (int i = 0; i < 256; i++)
        assert_float_equal(dataset.normalised[i], (i / 255.0 - 0.1307) / 0.3081, 1e-6);
    dataset_free(&dataset);

    write_mnist((const uint8_t[]){ 1, 28, 28 }, 1, 9);
    dataset_init(&dataset, &args, TRAIN, NULL);
    assert_int_equal(dataset.size, 1);
    assert_int_equal(dataset.labels[0], 9);
    dataset_free(&dataset);
    write_mnist((const uint8_t[]){ 1, 28, 28 }, 1, 10);
    assert_dies_saying(load_train, &args, 1, folder, "label 0 is 10");
}

static void test_mnist_that_does_not_fit(void **state)
{
    (void)state;
    Args args = args_of(DATASET_MNIST);
    args.data_dir = folder;
    assert_dies_saying(load_train, &args, 2, folder, "missing", "data/get_mnist.sh");
    write_mnist((const uint8_t[]){ 2, 28, 27 }, 2, 0);
    assert_dies_saying(load_train, &args, 1, folder, "28 x 27");
    write_mnist((const uint8_t[]){ 2, 27, 28 }, 2, 0);
    assert_dies_saying(load_train, &args, 1, folder, "27 x 28");
    write_mnist((const uint8_t[]){ 2, 28, 28 }, 3, 0);
    assert_dies_saying(load_train, &args, 1, folder, "2 images", "3 labels");
    write_mnist((const uint8_t[]){ 0, 28, 28 }, 0, 0);
    assert_dies_saying(load_train, &args, 1, folder, "0 images");
    write_mnist((const uint8_t[]){ 2, 28, 28 }, 2, 10);
    assert_dies_saying(load_train, &args, 1, folder, "label 1 is 10");
}

static void load_all(void *context)
{
    (void)context;
    static const DatasetKind kinds[] = { DATASET_RANDOM, DATASET_DIGITS, DATASET_MNIST };
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        Args args = args_of(kinds[i]);
        args.data_dir = folder;
        Rng rng;
        rng_seed(&rng, 0);
        Dataset dataset;
        dataset_init(&dataset, &args, TRAIN, &rng);
        Sampler sampler;
        distributed_sampler_init(&sampler, dataset.size, 0, 2, true, false, 0);
        sampler_pad(&sampler, 8);
        sampler_free(&sampler);
        dataset_free(&dataset);
    }
}

static void test_sets_leave_nothing(void **state)
{
    (void)state;
    write_mnist((const uint8_t[]){ 2, 28, 28 }, 2, 9);
    assert_leaves_nothing(load_all, NULL);
}

/* Normalised by their own mean and deviation the pixels have mean 0 and deviation 1. */
static void test_real_mnist(void **state)
{
    (void)state;
    Args args = args_of(DATASET_MNIST);
    if (access("data/mnist/train-images-idx3-ubyte.gz", R_OK) != 0)
        args.data_dir = "../shared/data/mnist";
    if (access(args.data_dir, R_OK) != 0) {
        print_message("# skipped: no MNIST here, run data/get_mnist.sh\n");
        return;
    }
    Dataset train, test;
    dataset_init(&train, &args, TRAIN, NULL);
    dataset_init(&test, &args, TEST, NULL);
    assert_int_equal(train.size, 60000);
    assert_int_equal(test.size, 10000);
    assert_int_equal(train.labels[0], 5);
    assert_int_equal(test.labels[0], 7);

    double sum = 0, squares = 0;
    for (size_t i = 0; i < train.size * PIXELS; i++) {
        const double x = train.normalised[train.bytes[i]];
        sum += x;
        squares += x * x;
    }
    assert_float_equal(sum / (double)(train.size * PIXELS), 0, 1e-3);
    assert_float_equal(squares / (double)(train.size * PIXELS), 1, 1e-3);
    dataset_free(&test);
    dataset_free(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_as_in_pytorch),
        cmocka_unit_test(test_digits_as_in_pytorch),
        cmocka_unit_test(test_damaged_digits),
        cmocka_unit_test_setup_teardown(test_mnist_of_two_images, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_mnist_that_does_not_fit, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_sets_leave_nothing, make_folder, remove_folder),
        cmocka_unit_test(test_real_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
