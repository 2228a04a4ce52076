/* The progress bar of a run: its text, and that only one rank shows it. */
#include <pty.h>
#include <sys/wait.h>

#include "tests/common/save/metrics_run.h"

/* Returns rank's terminal output after the third step of ten in the second epoch of two. */
static const char *on_terminal(int rank)
{
    static char shown[4096];
    int terminal;
    const pid_t pid = forkpty(&terminal, NULL, NULL, &(struct winsize){ .ws_col = 80 });
    if (pid == 0) {
        Run run;
        alarm(120);
        setenv("TERM", "xterm", 1);
        run_init(&run, rank, 12);
        run_step(&run, 1, 0.5f);
        _exit(0);
    }
    size_t length = 0;
    ssize_t n;
    while ((n = read(terminal, shown + length, sizeof shown - 1 - length)) > 0)
        length += (size_t)n;
    shown[length] = '\0';
    close(terminal);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return shown;
}

static void test_bar(void **state)
{
    (void)state;
    const char *shown = on_terminal(0);
    assert_non_null(strstr(shown, "epoch 1, loss 0.2500, "));
    double samples = 0;
    int minutes = -1, seconds = -1; // for the seven steps that are left
    assert_int_equal(sscanf(strstr(shown, "0.2500, "), "0.2500, %lf samples/s, %d:%d left",
                            &samples, &minutes, &seconds),
                     3);
    const double left = minutes * 60 + seconds; // truncated, and from a rounded rate
    assert_true(left >= 7 / (samples + 0.5) - 1.001);
    assert_true(samples < 1 || left <= 7 / (samples - 0.5) + 0.001);
    assert_non_null(strstr(shown, " left [="));
    assert_non_null(strstr(shown, "] 3/10"));
    assert_string_equal(on_terminal(1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bar) };
    return cmocka_run_group_tests(tests, make_metrics_folder, remove_folder);
}
