/* Failures are sent between nodes as JSON and decoded unchanged; invalid ones are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/launch.h"
#include "tests/helpers/unit.h"

static const Failure EXAMPLE = {
    .status = 137,
    .signal = 9,
    .is_unread = true,
    .time = 1763700000.25,
    .node = 3,
    .rank = 27,
    .local_rank = 3,
    .pid = 4711,
    .host = "alpha",
    .message = "ValueError: \"b\u00f6se\"\n\ttab",
    .log = "/tmp/a b/attempt_0/3/stderr.log",
};

static void assert_same(const Failure *a, const Failure *b)
{
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->signal, b->signal);
    assert_true(a->is_unread == b->is_unread);
    assert_true(a->time == b->time);
    assert_int_equal(a->node, b->node);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->local_rank, b->local_rank);
    assert_int_equal(a->pid, b->pid);
    assert_string_equal(a->host, b->host);
    assert_string_equal(a->message, b->message);
    assert_string_equal(a->log, b->log);
}

static void round_trip(const Failure *from, Failure *to)
{
    char *text = failure_encode(from);
    assert_null(strchr(text, '\n')); // one line
    assert_true(failure_decode(to, text, strlen(text)));
    free(text);
}

static void test_round_trip(void **state)
{
    (void)state;
    Failure back;
    round_trip(&EXAMPLE, &back);
    assert_same(&EXAMPLE, &back);
}

/* A file name may be any bytes; JSON is UTF-8. */
static void test_text_that_is_not_utf8(void **state)
{
    (void)state;
    Failure failure = EXAMPLE, back;
    strcpy(failure.log, "/tmp/\xff\xfe");
    round_trip(&failure, &back);
    strcpy(failure.log, "/tmp/??");
    assert_same(&failure, &back);
}

static void test_text_that_steers_a_terminal(void **state)
{
    (void)state;
    Failure hostile = EXAMPLE, back;
    strcpy(hostile.host, "\033[2Jalpha\xc2\x9b");
    strcpy(hostile.message, "one\r\n\ttwo \a\177 \xc3\xa4");
    strcpy(hostile.log, "/tmp/\033]0;title\a");
    round_trip(&hostile, &back);
    assert_string_equal(back.host, "?[2Jalpha??");
    assert_string_equal(back.message, "one?\n\ttwo ?? \xc3\xa4");
    assert_string_equal(back.log, "/tmp/?]0;title?");
}

static void test_long_text_is_cut_between_letters(void **state)
{
    (void)state;
    Failure back;
    char text[8192];
    const char *frame =
        "{\"status\":1,\"signal\":0,\"time\":1,\"node\":0,\"rank\":0,\"local_rank\":0,"
        "\"pid\":1,\"host\":\"\",\"log\":\"\",\"message\":\"%s\"}";
    char letters[2 * sizeof back.message + 1] = "";
    for (size_t i = 0; i < sizeof back.message; i++)
        strcat(letters, "\u00e9"); // two bytes each
    const int length = snprintf(text, sizeof text, frame, letters);
    assert_true(failure_decode(&back, text, (size_t)length));
    const size_t odd = sizeof back.message - 1; // 1023 bytes cannot hold 511.5 letters
    assert_int_equal(strlen(back.message), odd - odd % 2);
    assert_memory_equal(back.message, letters, odd - odd % 2);
}

static void test_nonsense(void **state)
{
    (void)state;
    const char *const texts[] = {
        "", "{", "[]", "null", "{}", "{\"status\":1}", "{\"status\":\"1\"}", "\xff",
    };
    Failure failure;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(failure_decode(&failure, texts[i], strlen(texts[i])));

    const struct {
        int status;
        double time;
    } limits[] = { { 1, 0 }, { 255, 253402300799.0 } };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        Failure right = EXAMPLE;
        right.status = limits[i].status;
        right.time = limits[i].time;
        round_trip(&right, &failure);
        assert_same(&failure, &right);
    }

    const int statuses[] = { 0, -1, 256 }; // none may count as success
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        Failure wrong = EXAMPLE;
        wrong.status = statuses[i];
        char *text = failure_encode(&wrong);
        assert_false(failure_decode(&failure, text, strlen(text)));
        free(text);
    }

    const double times[] = { -1, 253402300800.0, 9e18, 1e300 }; // not dates, or beyond year 9999
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        Failure wrong = EXAMPLE;
        wrong.time = times[i];
        char *text = failure_encode(&wrong);
        assert_false(failure_decode(&failure, text, strlen(text)));
        free(text);
    }
}

static void test_cut_off_json(void **state)
{
    (void)state;
    char *text = failure_encode(&EXAMPLE);
    Failure failure;
    for (size_t length = 0; length < strlen(text); length++)
        assert_false(failure_decode(&failure, text, length));
    free(text);
}

/* A worker may leave anything in place of its error file, even something endless. */
static void test_error_file_that_is_a_pipe(void **state)
{
    (void)state;
    static Flags flags;
    static Logs logs = { .flags = &flags, .attempt = "/tmp/test_failure_XXXXXX" };
    assert_non_null(mkdtemp(logs.attempt));
    char folder[PATH_MAX], path[PATH_MAX];
    logs_path(&logs, 0, "", folder);
    logs_path(&logs, 0, "error.json", path);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkfifo(path, 0600), 0);

    Failure failure;
    alarm(120);
    failure_of_worker(&failure, &(Worker){ .status = 3 }, 0, 0, &logs);
    alarm(0);
    assert_int_equal(failure.status, 3);
    assert_string_equal(failure.message, "");
    unlink(path);
    rmdir(folder);
    rmdir(logs.attempt);
}

static void test_the_earlier_one(void **state)
{
    (void)state;
    const Failure none = { 0 };
    Failure later = EXAMPLE;
    later.time += 0.001;
    assert_true(failure_is_earlier(&EXAMPLE, &later));
    assert_false(failure_is_earlier(&later, &EXAMPLE));
    assert_true(failure_is_earlier(&later, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_text_that_is_not_utf8),
        cmocka_unit_test(test_text_that_steers_a_terminal),
        cmocka_unit_test(test_long_text_is_cut_between_letters),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_cut_off_json),
        cmocka_unit_test(test_error_file_that_is_a_pipe),
        cmocka_unit_test(test_the_earlier_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
