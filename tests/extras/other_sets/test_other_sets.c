/*
 * MNIST's relatives: each file is found where others put it, and is read as MNIST's is or named in
 * words.
 */
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/data/dataset.h"
#include "tests/common/data/idx_files.h"

static void test_reads_every_spelling(void **state)
{
    (void)state;
    uint8_t copy[256];
    const char *plain[] = { "t-idx3-ubyte", "t.idx3-ubyte" };
    const char *gzip[] = { "t-idx3-ubyte.gz", "t.idx3-ubyte.gz" };
    for (int i = 0; i < 2; i++) {
        write_plain(plain[i], small, SMALL);
        assert_reads_small("t-idx3-ubyte");
        delete (plain[i]);
        write_gzip(gzip[i], small, SMALL, copy);
        assert_reads_small("t-idx3-ubyte");
        delete (gzip[i]);
    }
}

/* Makes a place in the test's folder, and its parent folders. */
static void make_place(const char *name)
{
    char path[256];
    path_of(name, path);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void clear(void)
{
    assert_int_equal(clear_folder(NULL), 0);
}

/* A folder, an empty file, a pipe or a dangling link under the first name, as in Kaggle's MNIST or
 * after an interrupted copy. The good file is found under its other names. */
static void test_reads_past_what_is_no_file(void **state)
{
    (void)state;
    static const char *const good[] = {
        "t.idx3-ubyte",           "t-idx3-ubyte.gz",           "raw/t-idx3-ubyte",
        "MNIST/raw/t-idx3-ubyte", "MNIST/raw/t.idx3-ubyte.gz", "t.idx3-ubyte/t.idx3-ubyte"
    };
    char path[256];
    path_of("t-idx3-ubyte", path);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (int kind = 0; kind < 5; kind++) {
            uint8_t copy[256];
            make_place(good[i]);
            if (strstr(good[i], ".gz") != NULL)
                write_gzip(good[i], small, SMALL, copy);
            else
                write_plain(good[i], small, SMALL);
            if (kind == 1)
                assert_int_equal(mkdir(path, 0700), 0);
            else if (kind == 2)
                write_plain("t-idx3-ubyte", "", 0);
            else if (kind == 3)
                assert_int_equal(mkfifo(path, 0600), 0);
            else if (kind == 4)
                assert_int_equal(symlink("nowhere", path), 0);
            assert_reads_small("t-idx3-ubyte");
            clear();
        }
    make_place("t-idx3-ubyte/t-idx3-ubyte");
    write_plain("t-idx3-ubyte/t-idx3-ubyte", small, SMALL);
    assert_reads_small("t-idx3-ubyte");
    clear();
}

/* Images and labels from different places would train, but on mismatched data. */
static void test_one_place_for_all(void **state)
{
    (void)state;
    make_place("MNIST/raw/");
    write_plain("MNIST/raw/t10k-images-idx3-ubyte", small, SMALL);
    assert_reads_small("t10k-images-idx3-ubyte");
    write_plain("train-labels.idx1-ubyte", "", 0);
    assert_reads_small("t10k-images-idx3-ubyte");
    write_plain("train-labels.idx1-ubyte", small, SMALL);
    assert_dies_saying(read_t, "t10k-images-idx3-ubyte", 2, folder,
                       "/t10k-images-idx3-ubyte is missing", "data/get_mnist.sh");
    clear();
}

/* Such images in another form are named, with what converts them. */
static void test_names_other_forms(void **state)
{
    (void)state;
    static const char *const forms[] = { "train.csv", "train-00000-of-00001.parquet", "mnist.npz" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        write_plain(forms[i], "label,pixel0\n", 13);
        assert_dies_saying(read_t, "train-images-idx3-ubyte", 2, folder, forms[i],
                           "python3 data/to_idx.py");
        clear();
    }
}

/* Writes a file with this header and `count` elements of `size` bytes, big-endian. */
static void write_idx(const char *name, int type, int ndim, const uint32_t *shape, size_t size,
                      const uint64_t *elements, size_t count)
{
    uint8_t bytes[1024] = { 0, 0, (uint8_t)type, (uint8_t)ndim }, *end = bytes + 4;
    for (int i = 0; i < ndim; i++)
        for (int byte = 3; byte >= 0; byte--)
            *end++ = (uint8_t)(shape[i] >> 8 * byte);
    for (size_t i = 0; i < count; i++)
        for (size_t byte = size; byte-- > 0;)
            *end++ = (uint8_t)(elements[i] >> 8 * byte);
    make_place(name);
    write_plain(name, bytes, (size_t)(end - bytes));
}

/* Every set, where torchvision and its archive put it. */
static void test_sets_by_their_names(void **state)
{
    (void)state;
    static const char *const sets[][MNIST_FILES] = {
        { "train-images.idx3-ubyte", "train-labels.idx1-ubyte", "test-images-idx3-ubyte",
          "test-labels-idx1-ubyte" },
        { "FashionMNIST/raw/train-images-idx3-ubyte", "FashionMNIST/raw/train-labels-idx1-ubyte",
          "FashionMNIST/raw/t10k-images-idx3-ubyte", "FashionMNIST/raw/t10k-labels-idx1-ubyte" },
        { "KMNIST/raw/train-images-idx3-ubyte", "KMNIST/raw/train-labels-idx1-ubyte",
          "KMNIST/raw/t10k-images-idx3-ubyte", "KMNIST/raw/t10k-labels-idx1-ubyte" },
        { "QMNIST/raw/qmnist-train-images-idx3-ubyte", "QMNIST/raw/qmnist-train-labels-idx2-int",
          "QMNIST/raw/qmnist-test-images-idx3-ubyte", "QMNIST/raw/qmnist-test-labels-idx2-int" },
        { "EMNIST/raw/emnist-digits-train-images-idx3-ubyte",
          "EMNIST/raw/emnist-digits-train-labels-idx1-ubyte",
          "EMNIST/raw/emnist-digits-test-images-idx3-ubyte",
          "EMNIST/raw/emnist-digits-test-labels-idx1-ubyte" },
        { "gzip/emnist-mnist-train-images-idx3-ubyte", "gzip/emnist-mnist-train-labels-idx1-ubyte",
          "gzip/emnist-mnist-test-images-idx3-ubyte", "gzip/emnist-mnist-test-labels-idx1-ubyte" },
    };
    for (size_t set = 0; set < LENGTH(sets); set++) {
        char path[PATH_MAX], wanted[256];
        for (int i = 0; i < MNIST_FILES; i++) {
            make_place(sets[set][i]);
            write_plain(sets[set][i], small, SMALL);
        }
        for (int i = 0; i < MNIST_FILES; i++) {
            idx_find(folder, mnist_files[i], path);
            path_of(sets[set][i], wanted);
            assert_string_equal(path, wanted);
        }
        // Without one of its files, no other set's is taken.
        delete (sets[set][3]);
        make_place("EMNIST/raw/");
        write_plain("EMNIST/raw/emnist-mnist-test-labels-idx1-ubyte", small, SMALL);
        assert_dies_saying(read_t, mnist_files[3], 2, "-labels-idx", " is missing", "--data-dir");
        clear();
    }
}

static void test_too_many_classes(void **state)
{
    (void)state;
    write_plain("emnist-letters-train-images-idx3-ubyte", small, SMALL);
    assert_dies_saying(read_t, mnist_files[0], 2, "emnist-letters-train", "26 classes",
                       "emnist-digits");
    clear();
}

/* EMNIST's images have columns first: "1 2 3 / 4 5 250" is upright as "1 4 / 2 5 / 3 250". */
static void test_emnist_is_turned(void **state)
{
    (void)state;
    static const uint8_t upright[] = { 1, 4, 2, 5, 3, 250, 251, 254, 252, 255, 253, 0 };
    size_t shape[3];
    uint8_t copy[256];
    write_gzip("emnist-digits-train-images-idx3-ubyte.gz", small, SMALL, copy);
    uint8_t *bytes = idx_read(folder, mnist_files[0], 3, shape);
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[1], 3);
    assert_int_equal(shape[2], 2);
    assert_memory_equal(bytes, upright, NUMEL);
    free(bytes);
    assert_int_equal(child_run(read_t, mnist_files[0]), 0);
    assert_non_null(strstr(err, "turned"));
    clear();

    // No images, of a size for which no memory suffices.
    write_idx("emnist-digits-train-images-idx3-ubyte", 8, 3,
              (uint32_t[]){ 0, UINT32_MAX, UINT32_MAX }, 1, NULL, 0);
    free(idx_read(folder, mnist_files[0], 3, shape));
    assert_int_equal(shape[0], 0);
    clear();
}

/* The class is the first of eight columns. */
static void test_qmnist_labels(void **state)
{
    (void)state;
    const uint64_t table[16] = { 7, 0, 2, 3, 2003, 0, 0, 0, 9, 1, 8, 251, 71, 1, 0, 0 };
    size_t count;
    write_idx("qmnist-train-labels-idx2-int", 12, 2, (uint32_t[]){ 2, 8 }, 4, table, 16);
    uint8_t *classes = idx_read(folder, mnist_files[1], 1, &count);
    assert_int_equal(count, 2);
    assert_int_equal(classes[0], 7);
    assert_int_equal(classes[1], 9);
    free(classes);
    clear();
}

/* Two pixels, 51 and 255, in every type and shape of which the meaning is clear. */
static void test_other_types(void **state)
{
    (void)state;
    static const struct {
        int type;
        size_t size;
        uint64_t pixel[2];
    } cases[] = {
        { 8, 1, { 51, 255 } },
        { 11, 2, { 51, 255 } },
        { 12, 4, { 51, 255 } },
        { 13, 4, { 0x424c0000, 0x437f0000 } }, // 51.0, 255.0
        { 13, 4, { 0x3e4ccccd, 0x3f800000 } }, // 0.2, 1.0
        { 14, 8, { 0x4049800000000000, 0x406fe00000000000 } },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        for (int channel = 0; channel < 3; channel++) {
            size_t shape[3];
            const uint32_t sizes[3][4] = { { 1, 2, 1 }, { 1, 1, 2, 1 }, { 1, 2, 1, 1 } };
            write_idx("t", cases[i].type, channel == 0 ? 3 : 4, sizes[channel], cases[i].size,
                      cases[i].pixel, 2);
            uint8_t *bytes = idx_read(folder, "t", 3, shape);
            assert_int_equal(shape[0] * shape[1] * shape[2], 2);
            assert_int_equal(bytes[0], 51);
            assert_int_equal(bytes[1], 255);
            free(bytes);
        }
    clear();
}

static void test_unclear_is_named_in_words(void **state)
{
    (void)state;
    const uint64_t numbers[12] = { 1, 2, 300 };
    write_idx("t", 11, 3, (uint32_t[]){ 1, 3, 1 }, 2, numbers, 3);
    assert_dies_saying(read_t, "t", 1, folder, "16-bit integers", "number 2 is 300");
    write_idx("t", 9, 3, (uint32_t[]){ 1, 1, 1 }, 1, (uint64_t[]){ 0xff }, 1);
    assert_dies_saying(read_t, "t", 1, "signed bytes", "is -1");
    write_idx("t", 13, 3, (uint32_t[]){ 1, 1, 1 }, 4, (uint64_t[]){ 0x7fc00000 }, 1);
    assert_dies_saying(read_t, "t", 1, "32-bit floats", "nan");
    write_idx("t", 13, 3, (uint32_t[]){ 1, 1, 1 }, 4, (uint64_t[]){ 0x3fc00000 }, 1);
    assert_dies_saying(read_t, "t", 1, "32-bit floats", "is 1.5");
    write_idx("t", 8, 4, (uint32_t[]){ 1, 2, 2, 3 }, 1, numbers, 12);
    assert_dies_saying(read_t, "t", 1, "bytes in 4 dimensions (1 x 2 x 2 x 3)", "as bytes in 3");
    assert_null(strstr(err, "delete"));
    assert_null(strstr(err, "move it away"));
    write_idx("t", 8, 1, (uint32_t[]){ 3 }, 1, numbers, 3);
    assert_dies_saying(read_t, "t", 1, "bytes in 1 dimension (3)");
    clear();
}

/* Sizes that the file does not have, and a file that is cut or goes on. */
static void test_damaged(void **state)
{
    (void)state;
    const uint64_t numbers[5] = { 1, 2, 3, 4, 5 };
    for (size_t count = 0; count < 6; count++) {
        write_idx("t", 12, 3, (uint32_t[]){ 2, 2, 1 }, 4, numbers, count);
        if (count == 4)
            read_t("t");
        else
            assert_dies_saying(read_t, "t", 1, "32-bit integers",
                               count > 4 ? "goes on after its 16 bytes" : "ends within its 16");
    }
    write_idx("t", 12, 3, (uint32_t[]){ 46341, 46341, 1 }, 4, numbers, 4);
    assert_dies_saying(read_t, "t", 1, "2 GiB");
    write_idx("t", 14, 3, (uint32_t[]){ 1, 0x10000000, 1 }, 8, numbers, 4);
    assert_dies_saying(read_t, "t", 1, "2 GiB");
    write_idx("t", 14, 3, (uint32_t[]){ 1, 0x0fffff, 1 }, 8, numbers, 4);
    assert_dies_saying(read_t, "t", 1, "so short a file");
    clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_every_spelling),
        cmocka_unit_test(test_reads_past_what_is_no_file),
        cmocka_unit_test(test_one_place_for_all),
        cmocka_unit_test(test_names_other_forms),
        cmocka_unit_test(test_sets_by_their_names),
        cmocka_unit_test(test_too_many_classes),
        cmocka_unit_test(test_emnist_is_turned),
        cmocka_unit_test(test_qmnist_labels),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_unclear_is_named_in_words),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_empty_folder);
}
