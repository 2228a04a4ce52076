/*
 * A line is formatted first and written in one call: stdio would split lines at the ends of its
 * buffers, and those of several ranks would mix.
 */
#include "common/base/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/exit_status.h"
#include "common/base/json_text.h"
#include "common/base/launcher.h"

#define LINE_MAX_BYTES 4096 // PIPE_BUF on Linux: writes of up to this size to a pipe are atomic

static char prefix[64];
static int own_rank; // 0 until it is known
static char *error_copy; // see log_copy_error; NULL: none
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

/* False and errno unless all bytes were written. */
static bool write_all(int fd, const char *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = write(fd, bytes + done, count - done);
        if (n < 0 && errno == EAGAIN) // another process made it non-blocking; we wait
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
        else if (n < 0 && errno != EINTR)
            return false;
        done += n < 0 ? 0 : (size_t)n;
    }
    return true;
}

/* File names and arguments may contain line breaks or terminal escapes. */
static void disarm(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)text[i]))
            text[i] = '?';
}

/* Past the progress bar. Returns 0 or an errno. */
static int write_text(int fd, const char *text, size_t length)
{
    progress_bar.erase();
    const int reason = write_all(fd, text, length) ? 0 : errno;
    progress_bar.redraw();
    return reason;
}

static int write_line(int fd, const char *label, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];
    size_t length = (size_t)snprintf(line, sizeof line, "%s", label);
    const int n = vsnprintf(line + length, sizeof line - length - 1, format, args);
    length += n < 0 ? 0 : (size_t)n;
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    disarm(line, length);
    line[length++] = '\n';
    return write_text(fd, line, length);
}

/* To standard error, after the name of this rank or program. */
static void write_message(const char *kind, const char *format, va_list args)
{
    char label[LOG_LABEL_BYTES + 16];
    strcat(log_label(label), kind);
    write_line(STDERR_FILENO, label, format, args); // a failure cannot be reported anywhere
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
    write_message("", format, args);
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_message("warning: ", format, args);
    va_end(args);
}

void log_block(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    CHECK(vasprintf(&text, format, args) >= 0, "out of memory");
    va_end(args);
    write_text(STDERR_FILENO, text, strlen(text)); // a failure cannot be reported anywhere
    free(text);
}

void log_copy_error(char *buffer, size_t bytes)
{
    error_copy = buffer;
    error_copy_bytes = bytes;
}

void log_record_error(char *message)
{
    if (error_copy != NULL && error_copy[0] == '\0')
        snprintf(error_copy, error_copy_bytes, "%s", message);
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    const int fd = path != NULL && prefix[0] != '\0'
                       ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                       : -1;
    if (fd < 0)
        return;
    disarm(message, strlen(message));
    json_t *error =
        json_pack("{s:o, s:I}", "message", json_text(message), "timestamp", (json_int_t)time(NULL));
    json_dumpfd(error, fd, 0);
    json_decref(error);
    close(fd);
}

void die(const char *format, ...)
{
    progress_bar.finish();
    char message[LINE_MAX_BYTES];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    write_message("fatal: ", format, args);
    vsnprintf(message, sizeof message, format, again);
    va_end(again);
    va_end(args);
    log_record_error(message);
    _exit(EXIT_FAILURE);
}

bool log_speaks_for_node(void)
{
    const Launcher *launcher = launcher_find();
    const char *local_rank = launcher != NULL ? getenv(launcher->local_rank) : NULL;
    return local_rank != NULL ? atoi(local_rank) == 0 : own_rank == 0;
}

bool log_speaks_for_job(void)
{
    return own_rank == 0;
}

void usage_error(const char *format, ...)
{
    progress_bar.finish();
    if (log_speaks_for_node()) {
        va_list args;
        va_start(args, format);
        write_message("", format, args);
        va_end(args);
    } else {
        sleep(1); // the first rank to end has the others killed: let the one that prints go first
    }
    _exit(EXIT_USAGE);
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
