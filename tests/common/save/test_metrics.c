/* Metrics: the lines of JSON, those that a resume drops, and disks that fail. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/common/save/metrics_run.h"
#include "tests/helpers/leaves.h"

static const char *read_file(const char *name)
{
    static char text[1 << 16];
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* What the curves (extras/watch) are told, in place of those. */
static char told[128];

static void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t length = strlen(told);
    vsnprintf(told + length, sizeof told - length, format, args);
    va_end(args);
}

void __wrap_watch_init(const Args *args, const Model *model, int rank, size_t steps_per_epoch);
void __wrap_watch_step(const Model *model, int epoch);
void __wrap_watch_test(uint64_t step, double loss, double accuracy);
void __wrap_watch_end(void);

void __wrap_watch_init(const Args *args, const Model *model, int rank, size_t steps_per_epoch)
{
    (void)args;
    note("init %d %d %zu;", (int)model->step, rank, steps_per_epoch);
}

void __wrap_watch_step(const Model *model, int epoch)
{
    note(" step %d %d;", (int)model->step, epoch);
}

void __wrap_watch_test(uint64_t step, double loss, double accuracy)
{
    note(" test %d %g %g;", (int)step, loss, accuracy);
}

void __wrap_watch_end(void)
{
    note(" end");
}

static void tell(const void *context)
{
    (void)context;
    Run run;
    told[0] = '\0';
    run_init(&run, 2, 5);
    run_step(&run, 3, 1);
    metrics_test(&run.metrics, 3, 0.5, 3, 4);
    run_free(&run);
    fprintf(stderr, "%s", told);
}

static void test_what_the_curves_are_told(void **state)
{
    (void)state;
    assert_int_equal(child_run(tell, NULL), 0);
    assert_string_equal(err, "init 5 2 10; step 6 3; test 6 0.5 0.75; end");
}

/* Whole lines are written as soon as the step is done; losses are squares of 0.5, 3, nan, inf. */
static void test_lines(void **state)
{
    (void)state;
    Run run;
    run_init(&run, 2, 0);
    run_step(&run, 0, 0.5f);
    assert_string_equal(read_file(path), "{\"epoch\":0,\"step\":1,\"rank\":2,\"loss\":0.25}\n");
    run_step(&run, 0, 3);
    run_step(&run, 1, NAN);
    run_step(&run, 1, INFINITY);
    assert_string_equal(read_file(path), "{\"epoch\":0,\"step\":1,\"rank\":2,\"loss\":0.25}\n"
                                         "{\"epoch\":0,\"step\":2,\"rank\":2,\"loss\":9}\n"
                                         "{\"epoch\":1,\"step\":3,\"rank\":2,\"loss\":null}\n"
                                         "{\"epoch\":1,\"step\":4,\"rank\":2,\"loss\":null}\n");
    run_free(&run);
}

static void finish_epoch(const void *context)
{
    Run run;
    run_init(&run, *(const int *)context, 7);
    metrics_test(&run.metrics, 3, 0.5, 3, 4);
    run_free(&run);
}

/* Every rank knows the accuracy; rank 0 alone records it. */
static void test_accuracy(void **state)
{
    (void)state;
    char tests[112];
    snprintf(tests, sizeof tests, "%s/test.jsonl", dir);
    for (int rank = 1; rank >= 0; rank--) {
        assert_int_equal(access(tests, F_OK), -1);
        assert_int_equal(child_run(finish_epoch, &rank), 0);
        assert_string_equal(out, "Test Epoch: 3 Loss: 0.5000 Accuracy: 75.00% (3/4)\n");
    }
    assert_string_equal(read_file(tests),
                        "{\"epoch\":3,\"step\":7,\"loss\":0.5,\"accuracy\":0.75}\n");
}

/* Only closing tells some file systems that the disk is full: any failure of it stands for that. */
static void fail_to_close(const void *context)
{
    Run run;
    run_init(&run, 0, 0);
    if (context != NULL)
        close(fileno(*(const int *)context == 0 ? run.metrics.steps : run.metrics.tests));
    metrics_free(&run.metrics);
}

static void test_last_lines(void **state)
{
    (void)state;
    assert_int_equal(child_run(fail_to_close, NULL), 0);
    assert_string_equal(err, "");
    for (int file = 0; file < 2; file++) {
        assert_int_equal(child_run(fail_to_close, &file), 0);
        assert_non_null(strstr(err, "cannot write the last metrics: Bad file descriptor"));
    }
}

/* Any float is read back exactly, including the smallest and the largest. */
static void test_exact(void **state)
{
    (void)state;
    Run run;
    Rng rng;
    rng_seed(&rng, 7);
    run_init(&run, 2, 0);
    for (int i = 0; i < 300; i++) {
        run_step(&run, 0, ldexpf(rng_uniform(&rng) + 0.5f, i % 128 - 70));
        const char *text = read_file(path), *line = text;
        for (const char *end; (end = strchr(line, '\n')) != NULL && end[1] != '\0';)
            line = end + 1;
        json_t *object = json_loads(line, 0, NULL);
        const float loss = (float)json_number_value(json_object_get(object, "loss"));
        const float expected = model_loss(&run.model);
        assert_memory_equal(&loss, &expected, sizeof loss);
        json_decref(object);
    }
    run_free(&run);
}

#define LINE(step) "{\"epoch\":0,\"step\":" #step ",\"rank\":2,\"loss\":1}\n"

static void test_resume(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        uint64_t step;
        const char *after;
    } cases[] = {
        { LINE(1) LINE(2) LINE(3), 2, LINE(1) LINE(2) },
        { LINE(1) LINE(2) LINE(3), 3, LINE(1) LINE(2) LINE(3) },
        { LINE(1) LINE(2) LINE(3), 9, LINE(1) LINE(2) LINE(3) },
        { LINE(1) LINE(2) LINE(3), 0, "" },
        { LINE(1) "{\"epoch\":0,\"step\":2,\"ra", 2, LINE(1) },
        { LINE(1) "{\"epoch\":0,\"step\":2,\"rank\":2,\"loss\":1}", 2, LINE(1) },
        { LINE(1) "nonsense\n" LINE(2), 2, LINE(1) },
        { LINE(1) "[]\n" LINE(2), 2, LINE(1) },
        { "", 5, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Run run;
        write_file(cases[i].before);
        run_init(&run, 2, cases[i].step);
        assert_string_equal(read_file(path), cases[i].after);
        run_step(&run, 8, 0);
        char expected[512];
        snprintf(expected, sizeof expected, "%s{\"epoch\":8,\"step\":%d,\"rank\":2,\"loss\":0}\n",
                 cases[i].after, (int)cases[i].step + 1);
        assert_string_equal(read_file(path), expected);
        run_free(&run);
    }
}

/* Without --metrics-dir there is no file, and no wait for the device. */
static void test_off(void **state)
{
    (void)state;
    Run run;
    run_init(&run, 2, 0);
    metrics_free(&run.metrics);
    run.args.metrics_dir = NULL;
    metrics_init(&run.metrics, &run.args, &run.model, 2, 10);
    assert_null(run.metrics.steps);
    run_step(&run, 0, 1);
    assert_string_equal(read_file(path), "");
    run_free(&run);
}

static void fill_the_disk(const void *context)
{
    (void)context;
    Run run;
    run_init(&run, 2, 0);
    const int file = fileno(run.metrics.steps); // its descriptor is free again when it is closed
    run_step(&run, 0, 1);
    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(60); // in the middle of the second line
    run_step(&run, 0, 1);
    if (run.metrics.steps != NULL || dup(STDERR_FILENO) != file)
        _exit(3);
    run_step(&run, 0, 1);
    limit_file_size(RLIM_INFINITY);
    run_free(&run);
}

/* A full disk ends the metrics, not the training. The next start drops the torn line. */
static void test_disk_full(void **state)
{
    (void)state;
    assert_int_equal(child_run(fill_the_disk, NULL), 0);
    assert_non_null(strstr(err, "cannot write metrics from step 2 on"));
    Run run;
    run_init(&run, 2, 2);
    assert_string_equal(read_file(path), LINE(1));
    run_free(&run);
}

static void write_below_a_file(const void *context)
{
    (void)context;
    Run run;
    strcpy(dir, "/dev/null/below");
    run_init(&run, 2, 0);
}

static void test_cannot_write(void **state)
{
    (void)state;
    assert_int_equal(child_run(write_below_a_file, NULL), 2);
    assert_non_null(
        strstr(err, "/dev/null/below: Not a directory: name another with --metrics-dir"));
}

static void write_in_place(const void *context)
{
    (void)context;
    Run run;
    alarm(30); // no wait
    run_init(&run, 2, 0);
}

static bool truncate_fails, seek_fails;

/* In place of libc's. */
int ftruncate(int fd, off_t length)
{
    return truncate_fails ? errno = EIO, -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int fseeko(FILE *file, off_t offset, int whence)
{
    return seek_fails ? errno = EIO, -1 : fseek(file, offset, whence);
}

static void test_cannot_shorten(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        truncate_fails = i == 0;
        seek_fails = i == 1;
        assert_dies_saying(write_in_place, NULL, 1, "cannot shorten ", path, "Input/output error");
    }
    seek_fails = false;
}

static void open_long(const void *dir)
{
    fclose(step_file_open(dir, "rank2.jsonl", 0));
}

/* The longest path, and one that is too long. */
static void test_long_path(void **state)
{
    (void)state;
    char long_dir[PATH_MAX];
    const size_t longest = PATH_MAX - sizeof "/rank2.jsonl";
    memset(long_dir, '/', sizeof long_dir);
    memcpy(long_dir, dir, strlen(dir));
    long_dir[longest] = '\0';
    assert_int_equal(child_run(open_long, long_dir), 0);
    long_dir[longest] = '/';
    long_dir[longest + 1] = '\0';
    assert_dies_saying(open_long, long_dir, 1, "the path of --metrics-dir is too long: ");
}

static void resume(void *context)
{
    (void)context;
    Run run;
    write_file(LINE(1));
    run_init(&run, 0, 1);
    metrics_step(&run.metrics, &run.model, 1);
    run_free(&run);
}

static void test_leaves_nothing(void **state)
{
    (void)state;
    assert_leaves_nothing(resume, NULL);
}

/* With something else in the file's place, no run waits for a pipe or reads a device forever. */
static void test_no_regular_file(void **state)
{
    (void)state;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_dies_saying(write_in_place, NULL, 1, path, "is no regular file", "--metrics-dir");
    unlink(path);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_dies_saying(write_in_place, NULL, 1, path, "symbolic links", "--metrics-dir");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_dies_saying(write_in_place, NULL, 1, path, "s a directory", "--metrics-dir");
    rmdir(path);
}

/* Another user may have made a link to another file, which must not change. */
static void test_links(void **state)
{
    (void)state;
    char other[PATH_MAX];
    struct stat kept;
    snprintf(other, sizeof other, "%s/precious", folder);
    file_put(other, "data", 4);
    assert_int_equal(symlink(other, path), 0);
    assert_dies_saying(write_in_place, NULL, 1, path, "symbolic links", "--metrics-dir");
    unlink(path);
    assert_int_equal(link(other, path), 0);
    assert_dies_saying(write_in_place, NULL, 1, path, "is no regular file", "--metrics-dir");
    unlink(path);
    assert_int_equal(stat(other, &kept), 0);
    assert_int_equal(kept.st_size, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),           cmocka_unit_test(test_exact),
        cmocka_unit_test(test_resume),          cmocka_unit_test(test_off),
        cmocka_unit_test(test_disk_full),       cmocka_unit_test(test_cannot_write),
        cmocka_unit_test(test_no_regular_file), cmocka_unit_test(test_links),
        cmocka_unit_test(test_cannot_shorten),  cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_accuracy),        cmocka_unit_test(test_leaves_nothing),
        cmocka_unit_test(test_last_lines),      cmocka_unit_test(test_what_the_curves_are_told),
    };
    return cmocka_run_group_tests(tests, make_metrics_folder, remove_folder);
}
