#include "common/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/progress.h"

#define LINE_MAX_BYTES 4096 // PIPE_BUF on Linux: up to here a write to a pipe is not torn

static char prefix[64];

void log_set_rank(int rank, int world_size)
{
    snprintf(prefix, sizeof prefix, "[rank %d/%d] ", rank, world_size);
}

/* One write per line: stdio would cut lines of several ranks at its buffer's end. */
static void write_line(int fd, const char *label, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];
    size_t length = (size_t)snprintf(line, sizeof line, "%s", label);
    const int n = vsnprintf(line + length, sizeof line - length - 1, format, args);
    length += n < 0 ? 0 : (size_t)n;
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';

    progress_erase();
    for (size_t done = 0; done < length;) {
        const ssize_t written = write(fd, line + done, length - done);
        if (written < 0 && errno != EINTR)
            break; // nowhere left to say so
        done += written < 0 ? 0 : (size_t)written;
    }
    progress_redraw();
}

void log_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(STDOUT_FILENO, "", format, args);
    va_end(args);
}

void log_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(STDERR_FILENO, prefix, format, args);
    va_end(args);
}

static void write_labelled(const char *label, const char *format, va_list args)
{
    char text[128];
    if (prefix[0] != '\0')
        snprintf(text, sizeof text, "%s%s: ", prefix, label);
    else
        snprintf(text, sizeof text, "%s: %s: ", program_invocation_short_name, label);
    write_line(STDERR_FILENO, text, format, args);
}

void log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_labelled("warning", format, args);
    va_end(args);
}

void die(const char *format, ...)
{
    progress_finish();
    va_list args;
    va_start(args, format);
    write_labelled("fatal", format, args);
    va_end(args);
    _exit(EXIT_FAILURE);
}

void usage_error(const char *format, ...)
{
    const char *local_rank = getenv("LOCAL_RANK");
    progress_finish();
    if (local_rank == NULL || atoi(local_rank) == 0) {
        char label[128];
        snprintf(label, sizeof label, "%s: ", program_invocation_short_name);
        va_list args;
        va_start(args, format);
        write_line(STDERR_FILENO, label, format, args);
        va_end(args);
    }
    _exit(2);
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
