/*
 * A line is formatted first and written in one call: stdio would split lines at the ends of its
 * buffers, and those of several ranks would mix.
 */
#include "common/base/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/host.h"

#define LINE_MAX_BYTES 4096 // PIPE_BUF on Linux: writes of up to this size to a pipe are atomic
#define REPLACEMENT "\xef\xbf\xbd" // U+FFFD

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

/* File names and arguments may contain line breaks or terminal escapes. */
static void disarm(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)text[i]))
            text[i] = '?';
}

int write_text(int fd, const char *text, size_t length)
{
    progress_bar.erase();
    const int reason = write_all(fd, text, length) ? 0 : errno;
    progress_bar.redraw();
    return reason;
}

/* Writes one line; on standard error it begins with the rank or program and the kind of message. */
static int write_line(int fd, const char *kind, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES] = "";
    if (fd == STDERR_FILENO)
        strcat(log_label(line), kind);
    size_t length = strlen(line);
    const int n = vsnprintf(line + length, sizeof line - length - 1, format, args);
    length += n < 0 ? 0 : (size_t)n;
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    disarm(line, length);
    line[length++] = '\n';
    return write_text(fd, line, length);
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

/* jansson checks UTF-8, so it says where a text stops being valid: no character is longer than 4
 * bytes. */
json_t *json_text(const char *text)
{
    char *valid = malloc(strlen(REPLACEMENT) * strlen(text) + 1), *end = valid;
    while (valid != NULL && *text != '\0') {
        size_t bytes = strnlen(text, 4);
        json_t *piece = NULL;
        while (bytes > 0 && (piece = json_stringn(text, bytes)) == NULL)
            bytes--;
        json_decref(piece);
        end = mempcpy(end, bytes > 0 ? text : REPLACEMENT, bytes > 0 ? bytes : strlen(REPLACEMENT));
        text += bytes > 0 ? bytes : 1;
    }
    json_t *string = valid != NULL ? json_stringn(valid, (size_t)(end - valid)) : NULL;
    free(valid);
    return string;
}

void log_copy_error(char *buffer, size_t bytes)
{
    error_copy = buffer;
    error_copy_bytes = bytes;
}

static void record_error(char *message, bool restart)
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
    json_t *error = json_pack("{s:o, s:I, s:b}", "message", json_text(message), "timestamp",
                              (json_int_t)time(NULL), "restart", restart);
    json_dumpfd(error, fd, 0);
    json_decref(error);
    close(fd);
}

void log_record_error(char *message)
{
    record_error(message, true);
}

void log_final_error(char *message, bool print)
{
    progress_bar.finish();
    if (print)
        log_info("fatal: %s", message);
    record_error(message, false);
}

void die(const char *format, ...)
{
    char message[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    progress_bar.finish();
    log_info("fatal: %s", message);
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
    va_list args;
    progress_bar.finish();
    va_start(args, format);
    if (log_speaks_for_node())
        write_line(STDERR_FILENO, "", format, args);
    else
        sleep(1); // the first rank to end has the others killed: let the one that prints go first
    va_end(args);
    _exit(EXIT_USAGE);
}

/* The two variables are read once, at the first call. */
static const char *const topic_names[NUM_LOG_TOPICS] = { "distributed", "bucket", "store",
                                                         "sampler" };
static unsigned wanted; // a bit for each topic
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Adds the topics in a variable's list of words, if they are among `known`. */
static void read_variable(const char *name, unsigned known, bool complain)
{
    char *words = strdup(getenv(name) != NULL ? getenv(name) : ""), *rest = words;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        word += word[0] == '+' && !complain; // PyTorch's "+" asks for more, "-" for less
        unsigned topics = strcmp(word, "all") == 0 ? known : 0;
        for (int topic = 0; topic < NUM_LOG_TOPICS; topic++)
            if (strcmp(word, topic_names[topic]) == 0)
                topics |= known & 1u << topic;
        wanted |= topics;
        if (complain && topics == 0 && word[0] != '\0' && log_speaks_for_job())
            log_warning("DDP_LOG=%s: there are distributed, bucket, store, sampler and all", word);
    }
    free(words);
}

static void read_variables(void)
{
    read_variable("DDP_LOG", (1u << NUM_LOG_TOPICS) - 1, true);
    read_variable("TORCH_LOGS", 1u << LOG_DISTRIBUTED, false);
}

bool log_wants(LogTopic topic)
{
    pthread_once(&once, read_variables);
    return (wanted & 1u << topic) != 0;
}

void log_detail(LogTopic topic, const char *format, ...)
{
    if (!log_wants(topic))
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    struct timespec now;
    struct tm day;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &day);
    log_info("%02d:%02d:%02d.%06ld %s: %s", day.tm_hour, day.tm_min, day.tm_sec, now.tv_nsec / 1000,
             topic_names[topic], text);
}

/* The standard streams may be anything: a full disk, a terminal, or nothing at all. open() returns
 * the lowest free number, so in a program started with its output closed, the next file or socket
 * would become "standard output". A closed stream is opened in the wrong mode instead, so that
 * using it fails. */
void streams_guard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            SYS_CHECK(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY)); // takes fd
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
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
