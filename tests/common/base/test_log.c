/* Lines on standard output and error, whole and in order, and the two ways to exit. */
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tests/helpers/child.h"
#include "tests/helpers/leaves.h"

enum { NUM_WRITERS = 6, NUM_LINES = 200 };

static bool has_bar; // a line must not begin in the middle of it

void __wrap_progress_bar_finish(void);

void __wrap_progress_bar_finish(void)
{
    dprintf(STDERR_FILENO, "%s", has_bar ? "bar\n" : "");
}

static void log_all(const void *context)
{
    (void)context;
    log_print("result %d", 1);
    log_info("no rank");
    log_warning("no rank");
    log_set_rank(1, 4);
    log_print("result %d", 2);
    log_info("hello");
    log_warning("hello %s", "again");
    die("the %s", "end");
}

static void test_labels(void **state)
{
    (void)state;
    assert_int_equal(child_run(log_all, NULL), 1);
    assert_string_equal(out, "result 1\nresult 2\n");
    assert_string_equal(err, "test_log: no rank\ntest_log: warning: no rank\n[rank 1/4] hello\n"
                             "[rank 1/4] warning: hello again\n[rank 1/4] fatal: the end\n");
}

static void test_label_is_written_from_its_start(void **state)
{
    (void)state;
    char label[LOG_LABEL_BYTES];
    memset(label, 'x', sizeof label);
    assert_string_equal(log_label(label), "test_log: ");
}

static void print_note(void)
{
    log_print("atexit");
}

static void fail_check(const void *context)
{
    (void)context;
    atexit(print_note); // must not appear, because die runs no exit handlers
    CHECK(1 + 1 == 2, "sum");
    CHECK(1 + 1 == 3, "1 + 1 is %d", 2);
}

static void fail_sys_check(const void *context)
{
    (void)context;
    SYS_CHECK(dup(0));
    SYS_CHECK(close(-1));
}

static void test_checks(void **state)
{
    (void)state;
    assert_int_equal(child_run(fail_check, NULL), 1);
    assert_string_equal(err, "test_log: fatal: 1 + 1 is 2\n");
    assert_string_equal(out, "");
    assert_int_equal(child_run(fail_sys_check, NULL), 1);
    assert_non_null(strstr(err, "test_log.c:"));
    assert_non_null(strstr(err, "close(-1): Bad file descriptor\n"));
}

/* In place of libc's: a rank that is to wait says so instead. */
unsigned sleep(unsigned seconds)
{
    dprintf(STDOUT_FILENO, "waits %u s\n", seconds);
    return 0;
}

static void speak_for_job(const void *context)
{
    log_set_rank(*(const int *)context, 4);
    log_print(log_prints_for_job() ? "for the job" : "silent");
}

static void misuse(const void *context)
{
    (void)context;
    usage_error("type %s", "this");
}

static void die_alone(const void *context)
{
    (void)context;
    die("the end");
}

static void test_a_bar_ends_first(void **state)
{
    (void)state;
    has_bar = true;
    assert_int_equal(child_run(misuse, NULL), 2);
    assert_string_equal(err, "bar\ntest_log: type this\n");
    assert_int_equal(child_run(die_alone, NULL), 1);
    assert_string_equal(err, "bar\ntest_log: fatal: the end\n");
    has_bar = false;
}

/* A record keeps the first of several errors. */
static void test_first_error(void **state)
{
    (void)state;
    char copy[8] = "";
    log_copy_error(copy, sizeof copy);
    log_last_error((char[]){ "1" }, false, true);
    log_last_error((char[]){ "2" }, false, true);
    log_copy_error(NULL, 0);
    assert_string_equal(copy, "1");
}

static void test_one_rank_speaks(void **state)
{
    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(child_run(speak_for_job, &rank), 0);
        assert_string_equal(out, rank == 0 ? "for the job\n" : "silent\n");
    }
}

static void misuse_as_rank(const void *context)
{
    log_set_rank(*(const int *)context, 4);
    usage_error("type this");
}

static void test_usage_error(void **state)
{
    (void)state;
    static const struct {
        const char *local_rank, *message;
    } cases[] = { { NULL, "test_log: type this\n" },
                  { "0", "test_log: type this\n" },
                  { "1", "" } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        if (cases[i].local_rank != NULL) {
            setenv("RANK", "1", 1);
            setenv("WORLD_SIZE", "4", 1);
            setenv("LOCAL_RANK", cases[i].local_rank, 1);
        }
        assert_int_equal(child_run(misuse, NULL), 2);
        assert_string_equal(err, cases[i].message);
        assert_string_equal(out, cases[i].message[0] == '\0' ? "waits 10 s\n" : "");
    }
    unsetenv("RANK"); // because RANK left over in a shell does not describe this process
    assert_int_equal(child_run(misuse, NULL), 2);
    assert_string_equal(err, "test_log: type this\n");
    unsetenv("LOCAL_RANK");
    assert_int_equal(child_run(misuse_as_rank, &(int){ 0 }), 2);
    assert_string_equal(err, "[rank 0/4] type this\n");

    // The launcher may end the others when the first rank ends, so the silent ranks wait for the
    // one that prints.
    assert_int_equal(child_run(misuse_as_rank, &(int){ 1 }), 2);
    assert_string_equal(err, "");
    assert_string_equal(out, "waits 10 s\n");
}

static void log_hostile(const void *context)
{
    (void)context;
    char text[10001] = "";
    memset(text, 'x', sizeof text - 1);
    for (int length = 4093; length <= 4097; length++)
        log_print("%.*s", length, text);
    log_info("%s", text);
    log_print("a\nb\033[2J\tc\xc3\xa4");
    log_print(
        "\x9b[ \xc2\x9b[ \xc2\x80\xc2\x9f \xc0\x9b[ \xe0\x82\x9b \xf0\x80\x82\x9b \xe9\x9b \xe2");
    log_print("\xc2\xa0 \xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"); // a space, ss, a euro, a face
    // The first and the last character of each length; bytes behind a whole one.
    log_print(
        "\xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf a\x80 \xc3\xa4\x80");
    log_print("%s", "");
}

static void test_hostile_lines(void **state)
{
    (void)state;
    assert_int_equal(child_run(log_hostile, NULL), 0);
    const char *at = out;
    for (int length = 4093; length <= 4097; length++, at += strspn(at, "x") + 1)
        assert_int_equal(strspn(at, "x"), length < 4094 ? length : 4094); // ends within PIPE_BUF
    assert_string_equal(at, "a?b?[2J?c\xc3\xa4\n"
                            "?[ ??[ ???? ??[ ??? ???? ?? ?\n"
                            "\xc2\xa0 \xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\n"
                            "\xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf0\x90\x80\x80 "
                            "\xf4\x8f\xbf\xbf a? \xc3\xa4?\n\n");
    assert_int_equal(strlen(err), 4095);
    assert_ptr_equal(strchr(err, '\n'), err + 4094);
}

static void die_with(const void *message)
{
    log_set_rank(0, 1);
    die("%s", (const char *)message);
}

/* The launcher reads JSON, which must be UTF-8; a file's name need not be. */
static void test_recorded_error(void **state)
{
    (void)state;
    static const char *const cases[][2] = { { "a \"\\\x1b[2J", "a \"\\?[2J" },
                                            { "\xc3\xa4", "\xc3\xa4" },
                                            { "\xc3\xa4 \xff\xc3", "\xc3\xa4 ??" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[] = "/tmp/test_log.XXXXXX", path[64];
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/error.json", folder);
        setenv("TORCHELASTIC_ERROR_FILE", path, 1);
        assert_int_equal(child_run(die_with, cases[i][0]), 1);
        unsetenv("TORCHELASTIC_ERROR_FILE");
        json_t *error = json_load_file(path, 0, NULL);
        const char *message = json_string_value(json_object_get(error, "message"));
        assert_non_null(message);
        assert_string_equal(message, cases[i][1]);
        assert_true(json_integer_value(json_object_get(error, "timestamp")) > 0);
        assert_true(json_is_true(json_object_get(error, "restart")));
        json_decref(error);
        unlink(path);
        rmdir(folder);
    }
}

/* Only a rank leaves a record, and none over that of another, which came first. */
static void test_no_second_record(void **state)
{
    (void)state;
    char path[] = "/tmp/test_log.XXXXXX", text[32] = "";
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, "first", 5), 5);
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    assert_int_equal(child_run(die_with, "second"), 1);
    assert_int_equal(pread(fd, text, sizeof text, 0), 5);
    assert_string_equal(text, "first");
    unlink(path);
    assert_int_equal(child_run(die_alone, NULL), 1);
    assert_int_equal(access(path, F_OK), -1);
    unsetenv("TORCHELASTIC_ERROR_FILE");
    close(fd);
}

static void record(void *path)
{
    log_last_error((char[]){ "1" }, false, true);
    assert_int_equal(unlink(path), 0);
}

static void test_a_record_leaves_nothing(void **state)
{
    (void)state;
    char path[] = "/tmp/test_log.XXXXXX";
    close(mkstemp(path));
    unlink(path);
    log_set_rank(0, 1);
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    assert_leaves_nothing(record, path);
    unsetenv("TORCHELASTIC_ERROR_FILE");
}

static void *write_many(void *context)
{
    const int letter = *(const char *)context;
    char text[4000];
    for (int i = 0; i < NUM_LINES; i++) {
        const size_t length = 1 + (size_t)(i * 37 + letter) % (sizeof text - 1);
        memset(text, letter, length);
        text[length] = '\0';
        log_print("<%s>", text);
    }
    return NULL;
}

static void write_from_two_threads(const void *context)
{
    (void)context;
    static char letters[] = { 'a', 'b' };
    pthread_t thread;
    pthread_create(&thread, NULL, write_many, &letters[0]);
    write_many(&letters[1]);
    pthread_join(thread, NULL);
}

/* Many processes with two threads each share a pipe, and each line arrives whole. */
static void test_lines_are_whole(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pids[NUM_WRITERS];
    for (int i = 0; i < NUM_WRITERS; i++)
        pids[i] = child_start(write_from_two_threads, NULL, fds[1], STDERR_FILENO);
    close(fds[1]);

    FILE *file = fdopen(fds[0], "r");
    char line[8192], letters[2] = "";
    int num_lines = 0;
    for (; fgets(line, sizeof line, file) != NULL; num_lines++) {
        letters[0] = line[1];
        assert_true(line[0] == '<' && (line[1] == 'a' || line[1] == 'b'));
        assert_string_equal(line + 1 + strspn(line + 1, letters), ">\n");
    }
    fclose(file);
    assert_int_equal(num_lines, 2 * NUM_WRITERS * NUM_LINES);
    for (int i = 0; i < NUM_WRITERS; i++)
        assert_int_equal(child_wait(pids[i]), 0);
}

static void *die_here(void *context)
{
    die("thread %s", (const char *)context);
}

static void die_in_thread(const void *context)
{
    (void)context;
    pthread_t thread;
    pthread_create(&thread, NULL, die_here, "two");
    pthread_join(thread, NULL); // never returns
    log_print("survived");
}

static void test_die_in_thread(void **state)
{
    (void)state;
    assert_int_equal(child_run(die_in_thread, NULL), 1);
    assert_string_equal(err, "test_log: fatal: thread two\n");
    assert_string_equal(out, "");
}

static void test_clock(void **state)
{
    (void)state;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    const double before = seconds_now();
    usleep(20000);
    const double passed = seconds_now() - before;
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(passed >= 0.02);
    assert_true(passed <= difftime(end.tv_sec, start.tv_sec) +
                              1e-9 * (double)(end.tv_nsec - start.tv_nsec) + 1e-6);
}

int main(void)
{
    unsetenv("LOCAL_RANK");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_label_is_written_from_its_start),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_usage_error),
        cmocka_unit_test(test_hostile_lines),
        cmocka_unit_test(test_lines_are_whole),
        cmocka_unit_test(test_die_in_thread),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_recorded_error),
        cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_one_rank_speaks),
        cmocka_unit_test(test_a_bar_ends_first),
        cmocka_unit_test(test_no_second_record),
        cmocka_unit_test(test_a_record_leaves_nothing), // last, since it has a rank from now on
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
