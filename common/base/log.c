/* A line is formatted first and written in one call: stdio would split lines at the ends of its
 * buffers, and those of several ranks would mix. */
#include "common/base/log.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/host.h"

#define LINE_MAX_BYTES 4096 // PIPE_BUF on Linux: writes of up to this size to a pipe are atomic

static char prefix[64];
static int own_rank; // 0 until it is known
static char *error_copy; // see log_copy_error; NULL if none
static size_t error_copy_bytes;

void log_set_rank(int rank, int world_size)
{
    own_rank = rank;
    snprintf(prefix, sizeof prefix, "[rank %d/%d] ", rank, world_size);
}

char *log_label(char label[LOG_LABEL_BYTES])
{
    if (prefix[0] != '\0')
        return strcpy(label, prefix);
    label[0] = '\0';
    return strcat(strncat(label, program_invocation_short_name, 128), ": ");
}

bool write_all(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = write(fd, (const char *)bytes + done, count - done);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
        else if (n < 0 && errno != EINTR)
            return false;
        done += n < 0 ? 0 : (size_t)n;
    }
    return true;
}

void text_disarm(char *text, const char *keep)
{
    for (unsigned char *c = (unsigned char *)text, *end; *c != '\0'; c = end) {
        int more = (*c >= 0xc0) + (*c >= 0xe0) + (*c >= 0xf0); // bytes of the character, in UTF-8
        unsigned code = more == 0 ? *c : *c & (0x3f >> more);
        for (end = c + 1; more > 0 && (*end & 0xc0) == 0x80; more--)
            code = code << 6 | (*end++ & 0x3f);
        if (more > 0 || !code || ((code < ' ' || code - 0x7f < 0x21) && !strchr(keep, (int)code)))
            memset(c, '?', (size_t)(end - c));
    }
}

/* Writes one line; on standard error it begins with the rank or program and the kind of message. */
static int write_line(int fd, const char *kind, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES] = "";
    if (fd == STDERR_FILENO)
        strcat(log_label(line), kind);
    const size_t label = strlen(line);
    vsnprintf(line + label, sizeof line - label - 1, format, args);
    text_disarm(line, "");
    const size_t length = strlen(line);
    line[length] = '\n';
    return write_text(fd, line, length + 1);
}

void log_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int reason = write_line(STDOUT_FILENO, "", format, args);
    va_end(args);
    CHECK(reason == 0, CANNOT_PRINT, strerror(reason));
}

void log_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(STDERR_FILENO, "", format, args); // a failure cannot be reported anywhere
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(STDERR_FILENO, "warning: ", format, args);
    va_end(args);
}

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    char *ascii = strdup(text); // it is not UTF-8
    for (char *c = ascii; c != NULL && *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    string = json_string(ascii);
    free(ascii);
    return string;
}

void log_copy_error(char *buffer, size_t bytes)
{
    error_copy = buffer;
    error_copy_bytes = bytes;
}

void log_last_error(char *message, bool print, bool restart)
{
    progress_bar_finish();
    if (print)
        log_info("fatal: %s", message);
    if (error_copy != NULL && error_copy[0] == '\0')
        snprintf(error_copy, error_copy_bytes, "%s", message);
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    const int fd = path != NULL && prefix[0] != '\0'
                       ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                       : -1;
    if (fd < 0)
        return;
    text_disarm(message, "");
    json_t *error = json_pack("{s:o, s:I, s:b}", "message", json_text(message), "timestamp",
                              (json_int_t)time(NULL), "restart", restart);
    json_dumpfd(error, fd, 0);
    json_decref(error);
    close(fd);
}

void die(const char *format, ...)
{
    char message[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log_last_error(message, true, true);
    _exit(EXIT_FAILURE);
}

bool log_prints_for_node(void)
{
    const Launcher *launcher = launcher_find();
    const char *local_rank = launcher != NULL ? getenv(launcher->local_rank) : NULL;
    return local_rank != NULL ? atoi(local_rank) == 0 : own_rank == 0;
}

bool log_prints_for_job(void)
{
    return own_rank == 0;
}

void usage_error(const char *format, ...)
{
    va_list args;
    progress_bar_finish();
    va_start(args, format);
    if (log_prints_for_node())
        write_line(STDERR_FILENO, "", format, args);
    else
        sleep(10); // the first exit gets the others killed, so the rank that prints goes first
    va_end(args);
    _exit(EXIT_USAGE);
}

static void end_at_once(int number)
{
    _exit(128 + number);
}

/* The kernel drops all signals that PID 1, a container's first process, does not handle. */
static void handle_as_pid_1(void)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (signal(ends[i], end_at_once) == SIG_IGN)
            signal(ends[i], SIG_IGN); // keeps what nohup has set
}

/* open() returns the lowest free descriptor. A closed stream is opened in the wrong mode, so that
 * using it fails. */
void streams_guard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            SYS_CHECK(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY)); // takes fd
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    if (getpid() == 1)
        handle_as_pid_1();
}

void streams_exit(void)
{
    CHECK(fflush(stdout) == 0 && !ferror(stdout), CANNOT_PRINT, strerror(errno));
    exit(EXIT_SUCCESS);
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
