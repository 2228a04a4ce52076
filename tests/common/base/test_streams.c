/* Standard streams that are full, closed, or shared with a process that made them nonblocking. */
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "common/base/log.h"
#include "tests/helpers/child.h"

static bool is_init, is_hasty; // this process is PID 1; its writes are interrupted and short
static int num_writes;

/* In place of libc's. */
pid_t getpid(void)
{
    return is_init ? 1 : (pid_t)syscall(SYS_getpid);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    if (++num_writes > 200000)
        _exit(97); // a spin
    if (num_writes % 3 == 0 && is_hasty)
        return errno = EINTR, -1;
    return syscall(SYS_write, fd, bytes, is_hasty && count > 1 ? count / 2 : count);
}

int poll(struct pollfd *polled, nfds_t count, int timeout)
{
    if (count != 1 || timeout != -1)
        _exit(98);
    return (int)syscall(SYS_poll, polled, count, timeout);
}

sighandler_t signal(int number, sighandler_t handler)
{
    if (is_init && strchr((char[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXFSZ, SIGCHLD, '\0' },
                          number) == NULL)
        _exit(96); // that is no business of ours
    struct sigaction action = { .sa_handler = handler }, before;
    sigemptyset(&action.sa_mask);
    return sigaction(number, &action, &before) < 0 ? SIG_ERR : before.sa_handler;
}

static void redirect(int fd, const char *path)
{
    const int file = open(path, O_WRONLY);
    if (file < 0 || dup2(file, fd) != fd)
        _exit(99);
}

static void print_to_full_disk(const void *context)
{
    (void)context;
    redirect(STDOUT_FILENO, "/dev/full");
    log_print("a result");
    log_info("not to be seen");
}

static void test_full(void **state)
{
    (void)state;
    assert_dies_saying(print_to_full_disk, NULL, 1, "fatal: cannot write to standard output",
                       "No space left on device", "send it elsewhere");
}

static void log_to_full_disk(const void *context)
{
    (void)context;
    redirect(STDERR_FILENO, "/dev/full");
    log_info("lost");
    log_print("a result");
    die("lost too");
}

/* A failure to write messages does not end the run. */
static void test_full_error(void **state)
{
    (void)state;
    assert_int_equal(child_run(log_to_full_disk, NULL), 1);
    assert_string_equal(out, "a result\n");
}

static void exit_printed(const void *path)
{
    if (path != NULL)
        redirect(STDOUT_FILENO, path);
    for (int i = 0; i < 10000; i++) // more than stdio's buffer holds
        printf("line %d\n", i);
    streams_exit();
}

/* There is nothing left to write, but an earlier write has failed. */
static void exit_unbuffered(const void *context)
{
    (void)context;
    redirect(STDOUT_FILENO, "/dev/full");
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("lost");
    streams_exit();
}

static void test_exit(void **state)
{
    (void)state;
    assert_int_equal(child_run(exit_printed, "/dev/null"), 0);
    assert_string_equal(err, "");
    assert_int_equal(child_run(exit_printed, NULL), 0);
    assert_non_null(strstr(out, "line 0\nline 1\n"));
    assert_dies_saying(exit_printed, "/dev/full", 1, "cannot write to standard output");
    assert_dies_saying(exit_unbuffered, NULL, 1, "cannot write to standard output");
}

/* Closes the streams that the text names, "01" for input and output; the next file opened must not
 * become one of them. */
static void open_without_streams(const void *context)
{
    const char *closed = context;
    const int next = dup(STDERR_FILENO);
    close(next);
    for (const char *fd = closed; *fd != '\0'; fd++)
        close(*fd - '0');
    streams_guard();
    if (open("/dev/null", O_RDWR) != next)
        _exit(99);
    if (strchr(closed, '0') != NULL && read(STDIN_FILENO, &(char){ 0 }, 1) != -1)
        _exit(98);
    log_print("a result");
}

static void test_closed(void **state)
{
    (void)state;
    assert_int_equal(child_run(open_without_streams, ""), 0);
    assert_string_equal(out, "a result\n");
    assert_int_equal(child_run(open_without_streams, "0"), 0);
    assert_int_equal(child_run(open_without_streams, "02"), 0);
    assert_string_equal(out, "a result\n");
    assert_dies_saying(open_without_streams, "1", 1, "standard output: Bad file descriptor");
    assert_int_equal(child_run(open_without_streams, "012"), 1);
}

static void outgrow_limit(const void *context)
{
    (void)context;
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 4, 4 });
    streams_guard();
    const int fd = fileno(tmpfile());
    _exit(write(fd, "12345", 5) == 4 && write(fd, "5", 1) == -1 && errno == EFBIG ? 0 : 99);
}

static void test_file_size_limit(void **state)
{
    (void)state;
    assert_int_equal(child_run(outgrow_limit, NULL), 0);
}

static void wait_for_child(const void *context)
{
    (void)context;
    signal(SIGCHLD, SIG_IGN); // as the parent may have set it
    streams_guard();
    const pid_t child = fork();
    if (child == 0)
        _exit(3);
    int status = 0;
    _exit(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 ? 0 : 99);
}

static void test_ignored_child(void **state)
{
    (void)state;
    assert_int_equal(child_run(wait_for_child, NULL), 0);
}

static void print_many(const void *context)
{
    (void)context;
    num_writes = 0;
    for (int i = 0; i < 20000; i++)
        log_print("line %d of more than a pipe holds", i);
    CHECK(num_writes < 60000, "%d writes while the pipe was full", num_writes);
}

static void print_hastily(const void *context)
{
    (void)context;
    is_hasty = true;
    log_print("in pieces, and whole");
    log_print("again");
}

static void test_short_writes(void **state)
{
    (void)state;
    assert_int_equal(child_run(print_hastily, NULL), 0);
    assert_string_equal(out, "in pieces, and whole\nagain\n");
}

typedef struct {
    int signal;
    bool is_init, is_ignored;
} Ending;

static void end_by_signal(const void *context)
{
    const Ending *ending = context;
    is_init = ending->is_init;
    if (ending->is_ignored)
        signal(ending->signal, SIG_IGN);
    streams_guard();
    raise(ending->signal);
    _exit(99);
}

/* PID 1 of a container is not killed by a signal, so it exits as if it were. */
static void test_signals_of_pid_1(void **state)
{
    (void)state;
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    for (int i = 0; i < 16; i++) {
        const Ending ending = { signals[i / 4], i & 1, i & 2 };
        int status = 0;
        const pid_t child = child_start(end_by_signal, &ending, STDOUT_FILENO, STDERR_FILENO);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WIFEXITED(status), ending.is_init || ending.is_ignored);
        if (WIFEXITED(status))
            assert_int_equal(WEXITSTATUS(status), ending.is_ignored ? 99 : 128 + ending.signal);
    }
}

/* O_NONBLOCK belongs to the pipe, not to the process, so another process may have set it. */
static void test_impatient_pipe(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    const pid_t pid = child_start(print_many, NULL, fds[1], STDERR_FILENO);
    close(fds[1]);

    usleep(100 * 1000); // the pipe is full by now
    FILE *file = fdopen(fds[0], "r");
    char line[128], expected[128];
    int num_lines = 0;
    for (; fgets(line, sizeof line, file) != NULL; num_lines++) {
        snprintf(expected, sizeof expected, "line %d of more than a pipe holds\n", num_lines);
        assert_string_equal(line, expected);
    }
    fclose(file);
    assert_int_equal(num_lines, 20000);
    assert_int_equal(child_wait(pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_full_error),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_ignored_child),
        cmocka_unit_test(test_impatient_pipe),
        cmocka_unit_test(test_short_writes),
        cmocka_unit_test(test_signals_of_pid_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
