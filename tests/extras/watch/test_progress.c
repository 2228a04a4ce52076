/* The progress bar on a terminal, and how it is erased for other lines. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "common/base/log.h"
#include "extras/watch/progress.h"
#include "tests/helpers/child.h"

enum { NUM_LINES = 60 };

static unsigned short columns = 80; // the terminal's width

/* Like child_run, but stderr is a terminal, and so is stdout unless out_fd is given. */
static int run_with_output(Body *body, int out_fd)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct termios mode;
    assert_int_equal(tcgetattr(side, &mode), 0);
    cfmakeraw(&mode); // so that output is read back unchanged
    assert_int_equal(tcsetattr(side, TCSANOW, &mode), 0);
    assert_int_equal(ioctl(side, TIOCSWINSZ, &(struct winsize){ .ws_col = columns }), 0);

    const pid_t pid = child_start(body, NULL, out_fd >= 0 ? out_fd : side, side);
    close(side);
    size_t length = 0;
    for (ssize_t n = 0; (n = read(terminal, err + length, sizeof err - 1 - length)) > 0;)
        length += (size_t)n; // up to EIO: the other side is closed
    err[length] = '\0';
    close(terminal);
    return child_wait(pid);
}

static int run_on_terminal(Body *body)
{
    return run_with_output(body, -1);
}

#define ERASE "\r\033[K"
#define BAR(text) ERASE "\033[?7l" text "\033[?7h"

static void show_bar(const void *context)
{
    (void)context;
    progress_update("Epoch 1", 0, 0); // a total of 0
    progress_update("Epoch 1", 1, 4);
    log_print("a line");
    progress_update("Epoch 1", 4, 4);
    progress_bar_finish();
    log_info("another");
}

static void die_with_bar(const void *context)
{
    (void)context;
    progress_update("Epoch 1", 0, 4);
    die("enough");
}

static void test_bar(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    assert_int_equal(run_on_terminal(show_bar), 0);
    assert_string_equal(err, BAR("Epoch 1 [=======>                      ] 1/4") ERASE
                        "a line\n" BAR("Epoch 1 [=======>                      ] 1/4")
                            BAR("Epoch 1 [==============================] 4/4") ERASE ERASE
                        "test_progress: another\n");
    assert_int_equal(run_on_terminal(die_with_bar), 1);
    assert_string_equal(err, BAR("Epoch 1 [>                             ] 0/4") ERASE ERASE
                        "test_progress: fatal: enough\n");
}

static void show_narrow_bar(const void *context)
{
    (void)context;
    ioctl(STDERR_FILENO, TIOCSWINSZ, &(struct winsize){ .ws_col = 40 });
    progress_update("Epoch 1 | 12 s left", 0, 15);
    ioctl(STDERR_FILENO, TIOCSWINSZ, &(struct winsize){ .ws_col = 20 });
    progress_update("Epoch 1 | 12 s left", 15, 15);
}

/* The counter stays whole in the last columns of a narrow terminal, whose width may change. */
static void test_narrow_bar(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    assert_int_equal(run_on_terminal(show_narrow_bar), 0);
    assert_string_equal(err,
                        BAR("Epoch 1 | 12 s left [>           ] 0/15") BAR("Epoch 1 |  [] 15/15"));
}

static void test_no_bar(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    assert_int_equal(child_run(show_bar, NULL), 0);
    assert_string_equal(err, "test_progress: another\n");
    assert_string_equal(out, "a line\n");
    setenv("TERM", "dumb", 1);
    assert_int_equal(run_on_terminal(show_bar), 0);
    assert_string_equal(err, "a line\ntest_progress: another\n");
    setenv("TERM", "xterm", 1);
    columns = 0; // as in Open MPI's terminals
    assert_int_equal(run_on_terminal(show_bar), 0);
    columns = 80;
    assert_string_equal(err, "a line\ntest_progress: another\n");
}

/* With `| grep Test` in a terminal, lines arrive through a pipe at any time. */
static void test_no_bar_beside_a_pipe(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(run_with_output(show_bar, ends[1]), 0);
    assert_string_equal(err, "test_progress: another\n");
    const int file = open("/dev/null", O_WRONLY);
    assert_int_equal(run_with_output(show_bar, file), 0);
    assert_non_null(strstr(err, "4/4"));
    close(file);
    close(ends[0]);
    close(ends[1]);
}

static void draw_for_a_while(const void *context)
{
    (void)context;
    const double start = seconds_now();
    for (size_t i = 0; seconds_now() < start + 0.35; i++)
        progress_update("x", i, SIZE_MAX);
    char text[2000];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    progress_update(text, 1, 1); // wider than the terminal
}

static void test_bar_is_slow(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    assert_int_equal(run_on_terminal(draw_for_a_while), 0);
    int num_bars = 0;
    for (const char *at = err; (at = strstr(at, "\033[?7l")) != NULL; at++)
        num_bars++;
    assert_in_range(num_bars, 2, 6); // at most ten a second, and the last
    assert_non_null(strstr(err, "yyy [] 1/1\033[?7h"));
}

static void *log_lines(void *context)
{
    for (int i = 0; i < NUM_LINES; i++)
        log_print("%s %d", (const char *)context, i);
    return NULL;
}

static void draw_while_logging(const void *context)
{
    (void)context;
    pthread_t thread;
    pthread_create(&thread, NULL, log_lines, "line");
    for (size_t i = 0; i < NUM_LINES; i++)
        progress_update("x", 1, 1);
    pthread_join(thread, NULL);
    progress_bar_finish();
}

/* Another thread's line never appears inside the bar: the screen line is erased first. */
static void test_bar_and_threads(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    assert_int_equal(run_on_terminal(draw_while_logging), 0);
    int num_lines = 0;
    for (const char *at = err; (at = strstr(at, "line ")) != NULL; at++, num_lines++)
        assert_true(at == err || at[-1] == '\n' || strncmp(at - 4, ERASE, 4) == 0);
    assert_int_equal(num_lines, NUM_LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bar),         cmocka_unit_test(test_narrow_bar),
        cmocka_unit_test(test_no_bar),      cmocka_unit_test(test_no_bar_beside_a_pipe),
        cmocka_unit_test(test_bar_is_slow), cmocka_unit_test(test_bar_and_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
