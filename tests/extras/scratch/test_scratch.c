/* The copy of the data on a node's local disk: made once, atomically, and read instead. */
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/data/dataset.h"
#include "common/data/scratch.h"

static const char *const names[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };
enum { IMAGES = 3, PIXELS = 28 * 28 };

static char from[64], to[64];
static Args args;

/* Writes a set of three images in IDX, every pixel of which is `pixel`. */
static void write_set(const char *folder, uint8_t pixel)
{
    for (size_t i = 0; i < LENGTH(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        const uint8_t images[] = { 0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 28, 0, 0, 0, 28 };
        const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, IMAGES, 7, 8, 9 };
        if (i % 2 == 0)
            fwrite(images, 1, sizeof images, file);
        else
            fwrite(labels, 1, sizeof labels, file);
        for (int n = 0; i % 2 == 0 && n < IMAGES * PIXELS; n++)
            fputc(pixel, file);
        assert_int_equal(fclose(file), 0);
    }
}

static int num_entries(const char *folder)
{
    DIR *stream = opendir(folder);
    int n = 0;
    while (stream != NULL && readdir(stream) != NULL)
        n++;
    if (stream != NULL)
        closedir(stream);
    return n - 2; // . and ..
}

static int setup(void **state)
{
    assert_int_equal(make_folder(state), 0);
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(to, sizeof to, "%s/node/scratch", folder);
    assert_int_equal(mkdir(from, 0777), 0);
    write_set(from, 5);
    args_defaults(&args, "cnn");
    args.dataset = DATASET_MNIST;
    args.data_dir = from;
    args.scratch_dir = to;
    return 0;
}

static void fill(const void *context)
{
    (void)context;
    scratch_fill(&args);
}

static void fill_saying(const char *words)
{
    assert_int_equal(child_run(fill, NULL), 0);
    if (strstr(err, words) == NULL)
        fail_msg("did not say \"%s\" but: %s", words, err);
}

static void test_copied_once(void **state)
{
    (void)state;
    fill_saying("copied 4 of 4 files");
    fill_saying("copied 0 of 4 files");
    assert_int_equal(num_entries(to), 4);

    // Same length, other contents: the two images' files are copied anew.
    write_set(from, 6);
    fill_saying("copied 2 of 4 files");
    assert_int_equal(num_entries(to), 4);
}

/* Anything but a file in the copy's place is replaced or reported, without blocking. */
static void test_in_the_way(void **state)
{
    (void)state;
    scratch_fill(&args);
    char path[256];
    snprintf(path, sizeof path, "%s/%s", to, names[1]);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    fill_saying("copied 1 of 4 files");
    assert_int_equal(remove(path), 0);
    assert_int_equal(symlink(path, path), 0);
    fill_saying("copied 1 of 4 files");
    fill_saying("copied 0 of 4 files");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_dies_saying(fill, NULL, 1, to, "s a directory", "--scratch-dir");
    assert_int_equal(num_entries(to), 4);
}

/* The copy's temporary name can be guessed: a link there is removed, not followed. */
static char precious[64];

static void fill_over_links(const void *context)
{
    for (size_t i = 0; i < LENGTH(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s.%d", to, names[i], (int)getpid());
        CHECK(symlink(precious, path) == 0, "no link");
    }
    fill(context);
}

static void test_links(void **state)
{
    (void)state;
    struct stat kept;
    snprintf(precious, sizeof precious, "%s/precious", folder);
    file_put(precious, "data", 4);
    assert_int_equal(child_run(fill, NULL), 0);
    for (size_t i = 0; i < LENGTH(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", to, names[i]);
        unlink(path);
    }
    assert_int_equal(child_run(fill_over_links, NULL), 0);
    assert_int_equal(num_entries(to), LENGTH(names));
    assert_int_equal(stat(precious, &kept), 0);
    assert_int_equal(kept.st_size, 4);
}

static void test_read_instead(void **state)
{
    (void)state;
    scratch_fill(&args);
    write_set(from, 99);
    Rng rng;
    rng_seed(&rng, 0);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    assert_int_equal(dataset.size, IMAGES);
    assert_int_equal(dataset.bytes[PIXELS], 5);
    dataset_free(&dataset);
}

/* dataset_init uses one of several spellings of a file's name: it must be the copy's. */
static void test_another_set_in_the_way(void **state)
{
    (void)state;
    char plain[256], other[256];
    snprintf(plain, sizeof plain, "%s/%s", from, names[2]);
    snprintf(other, sizeof other, "%s/t10k-images.idx3-ubyte", from);
    assert_int_equal(rename(plain, other), 0); // as some mirrors write; idx.c looks for it later
    scratch_fill(&args);
    snprintf(plain, sizeof plain, "%s/%s", to, names[2]);
    FILE *file = fopen(plain, "wb");
    assert_non_null(file);
    fputs("another set's", file); // because an empty file would be skipped
    assert_int_equal(fclose(file), 0);
    assert_dies_saying(fill, NULL, 1, plain, "would be read instead of", "move it away");
}

static void test_nothing_to_copy(void **state)
{
    (void)state;
    args.dataset = DATASET_DIGITS; // part of the program
    scratch_fill(&args);
    args.dataset = DATASET_MNIST;
    args.scratch_dir = NULL; // not asked for
    scratch_fill(&args);
    assert_int_equal(num_entries(folder), 1);
}

static void fill_small_disk(const void *context)
{
    (void)context;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1000, 1000 });
    scratch_fill(&args);
}

static void test_refused(void **state)
{
    (void)state;
    assert_dies_saying(fill_small_disk, NULL, 1, to, "--scratch-dir", "File too large");
    assert_int_equal(num_entries(to), 0); // nothing half-written

    char file[256];
    snprintf(file, sizeof file, "%s/%s", from, names[3]);
    args.scratch_dir = file; // in the way
    assert_dies_saying(fill, NULL, 1, file, "cannot create the folder");
    args.scratch_dir = to;
    assert_int_equal(remove(file), 0);
    assert_int_equal(child_run(fill, NULL), 2);
    assert_non_null(strstr(err, "t10k-labels-idx1-ubyte is missing"));
    static char deep[PATH_MAX];
    memset(deep, 'd', sizeof deep - 1);
    args.data_dir = deep;
    assert_dies_saying(fill, NULL, 1, "the path is too long: ddd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copied_once, setup, remove_folder),
        cmocka_unit_test_setup_teardown(test_in_the_way, setup, remove_folder),
        cmocka_unit_test_setup_teardown(test_links, setup, remove_folder),
        cmocka_unit_test_setup_teardown(test_read_instead, setup, remove_folder),
        cmocka_unit_test_setup_teardown(test_another_set_in_the_way, setup, remove_folder),
        cmocka_unit_test_setup_teardown(test_nothing_to_copy, setup, remove_folder),
        cmocka_unit_test_setup_teardown(test_refused, setup, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
