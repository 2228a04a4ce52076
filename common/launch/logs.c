/*
 * Folders and files of the workers' output, and the thread that copies what is teed: a pipe per
 * stream and one thread for all of them. The launcher's own thread must never wait for a slow
 * terminal, or it would not see a worker die. A line goes to the console in one write, so that
 * those of several ranks do not mix; an endless one is cut.
 *
 * Empty folders are removed at the end; rmdir itself refuses others.
 */
#include "common/launch/logs.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/thread.h"

#define PREFIX_BYTES 256
#define LINE_BYTES (64 << 10) // where lines are cut
#define PIECE_BYTES (64 << 10) // copied at a time: what most pipes hold

typedef struct {
    int file_fd, console_fd; // -1: not written, or no longer
    size_t prefix_bytes;
    size_t length; // of line
    char line[LINE_BYTES + 1]; // the prefix and the line so far
} Stream;

typedef struct Tee {
    int num_streams;
    Stream *streams;
    struct pollfd *pipes; // [num_streams], fd -1 at its end; one more for `stop`
    pthread_t thread;
} Tee;

/* Adds a stream: what is written to the returned descriptor goes unchanged to file_fd (owned by the
 * tee from now on), and to console_fd, unless that is -1, with the prefix before each line. */
static int tee_add(Tee *tee, int file_fd, int console_fd, const char *prefix)
{
    int fds[2];
    SYS_CHECK(pipe2(fds, O_CLOEXEC));
    SYS_CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK));
    tee->pipes[tee->num_streams] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
    Stream *stream = &tee->streams[tee->num_streams++];
    stream->file_fd = file_fd;
    stream->console_fd = console_fd;
    stream->prefix_bytes = strnlen(prefix, LINE_BYTES / 2);
    memcpy(stream->line, prefix, stream->prefix_bytes);
    stream->length = stream->prefix_bytes;
    return fds[1];
}

/* If nobody reads or the disk is full, drops this output. */
static void write_or_drop(int *fd, const char *data, size_t bytes)
{
    if (*fd < 0 || write_all(*fd, data, bytes))
        return;
    if (errno != EPIPE)
        log_warning("a worker's output is lost from here on: %s", strerror(errno));
    *fd = -1;
}

static void end_line(Stream *stream)
{
    stream->line[stream->length++] = '\n';
    write_or_drop(&stream->console_fd, stream->line, stream->length);
    stream->length = stream->prefix_bytes;
}

static void show(Stream *stream, const char *text, size_t bytes)
{
    for (const char *end = text + bytes; text < end; text++) {
        if (*text == '\n' || stream->length == LINE_BYTES)
            end_line(stream);
        if (*text != '\n')
            stream->line[stream->length++] = *text;
    }
}

/* Copies a piece of what is available. Returns its length; closes the stream at its end. */
static size_t copy(Stream *stream, struct pollfd *pipe)
{
    char data[PIECE_BYTES];
    const ssize_t n = read(pipe->fd, data, sizeof data);
    if (n > 0) {
        write_or_drop(&stream->file_fd, data, (size_t)n);
        show(stream, data, (size_t)n);
        return (size_t)n;
    }
    if (n == 0) {
        close(pipe->fd);
        pipe->fd = -1; // poll ignores it
    }
    return 0;
}

static void *run(void *argument)
{
    Tee *tee = argument;
    const struct pollfd *stop = &tee->pipes[tee->num_streams];
    while (stop->revents == 0) {
        poll(tee->pipes, (nfds_t)tee->num_streams + 1, -1);
        for (int i = 0; i < tee->num_streams; i++) {
            if (tee->pipes[i].revents != 0)
                copy(&tee->streams[i], &tee->pipes[i]);
        }
    }
    return NULL;
}

/* Copies the rest. Does not wait for other processes that still hold the stream open, but for the
 * console, as every program does: one that is stopped (Ctrl-S, a pager) may go on at any time. */
static void finish_stream(Stream *stream, struct pollfd *pipe)
{
    int left = 0; // of the workers' output, which is in the pipe completely by now
    ioctl(pipe->fd, FIONREAD, &left);
    for (size_t n; left > 0 && (n = copy(stream, pipe)) > 0;)
        left -= (int)n;
    if (stream->length > stream->prefix_bytes)
        end_line(stream);
    if (pipe->fd >= 0)
        close(pipe->fd);
    close(stream->file_fd);
}

static void tee_finish(Tee *tee)
{
    if (tee->num_streams > 0) {
        const int stop_fd = tee->pipes[tee->num_streams].fd;
        eventfd_write(stop_fd, 1);
        pthread_join(tee->thread, NULL);
        close(stop_fd);
    }
    for (int i = 0; i < tee->num_streams; i++)
        finish_stream(&tee->streams[i], &tee->pipes[i]);
    free(tee->pipes);
    free(tee->streams);
    free(tee);
}

static void format_path(char path[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, PATH_MAX, format, arguments);
    va_end(arguments);
    CHECK(length < PATH_MAX, "--log-dir: the path %s... is too long", path);
}

void logs_init(Logs *logs, const Flags *flags)
{
    *logs = (Logs){ .flags = flags };
}

static void make_folder(Logs *logs)
{
    const Flags *flags = logs->flags;
    const char *temporary = getenv("TMPDIR");
    if (temporary == NULL || temporary[0] == '\0')
        temporary = "/tmp";
    if (flags->log_dir != NULL)
        folder_create(flags->log_dir, "--log-dir");
    char path[PATH_MAX];
    // Eight characters, as torchrun has it; mkdtemp makes six.
    format_path(path, "%s/%s_%02xXXXXXX", flags->log_dir != NULL ? flags->log_dir : temporary,
                flags->run_id, (unsigned)getpid() & 0xff);
    // From the root: a rank may leave the folder it was started in.
    CHECK(mkdtemp(path) != NULL && realpath(path, logs->folder) != NULL,
          "cannot create the folder %s: %s: name another place with --log-dir", path,
          strerror(errno));
}

void logs_free(Logs *logs)
{
    if (logs->folder[0] != '\0' && logs->flags->log_dir == NULL)
        log_info("logs are in %s", logs->folder);
}

void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX])
{
    format_path(path, "%s/%d/%s", logs->attempt, local_rank, name);
}

/* The template with its ${names} replaced, cut if too long. */
static void expand_prefix(const Flags *flags, int rank, int local_rank, char text[PREFIX_BYTES])
{
    char host[HOST_NAME_MAX + 1] = "", numbers[2][16];
    gethostname(host, sizeof host - 1);
    snprintf(numbers[0], sizeof numbers[0], "%d", rank);
    snprintf(numbers[1], sizeof numbers[1], "%d", local_rank);
    const char *const names[4][2] = { { "${role_name}", flags->role },
                                      { "${rank}", numbers[0] },
                                      { "${local_rank}", numbers[1] },
                                      { "${hostname}", host } };
    size_t length = 0;
    const char *from = flags->log_line_prefix_template;
    while (*from != '\0' && length + 1 < PREFIX_BYTES) {
        size_t i = 0;
        while (i < 4 && strncmp(from, names[i][0], strlen(names[i][0])) != 0)
            i++;
        length += (size_t)snprintf(text + length, PREFIX_BYTES - length, "%.*s", i < 4 ? -1 : 1,
                                   i < 4 ? names[i][1] : from);
        from += i < 4 ? strlen(names[i][0]) : 1;
    }
}

/* The descriptor for a worker's stream (0: stdout, 1: stderr). */
static int open_stream(Logs *logs, int rank, int local_rank, int stream)
{
    const Flags *flags = logs->flags;
    const bool is_teed = flags->tee[local_rank] >> stream & 1;
    const bool is_redirected = flags->redirects[local_rank] >> stream & 1;
    const bool is_shown = flags->shown[local_rank];
    if (!is_teed && !is_redirected)
        return is_shown ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);

    char path[PATH_MAX];
    logs_path(logs, local_rank, stream == 0 ? "stdout.log" : "stderr.log", path);
    const int file_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    CHECK(file_fd >= 0, "cannot write %s: %s", path, strerror(errno));
    if (!is_teed)
        return file_fd;

    char prefix[PREFIX_BYTES] = "";
    expand_prefix(flags, rank, local_rank, prefix);
    return tee_add(logs->tee, file_fd, is_shown ? stream + 1 : -1, prefix);
}

void logs_open(Logs *logs, int first_rank, int restart_count)
{
    const Flags *flags = logs->flags;
    const int num_workers = flags->nproc_per_node;
    if (logs->folder[0] == '\0')
        make_folder(logs);
    format_path(logs->attempt, "%s/attempt_%d", logs->folder, restart_count);
    folder_create(logs->attempt, "--log-dir");
    logs->tee = mem_calloc(1, sizeof *logs->tee);
    size_t num_tees = 0; // as a rule none
    for (int i = 0; i < num_workers; i++)
        num_tees += (size_t)(flags->tee[i] & 1) + (size_t)(flags->tee[i] >> 1 & 1);
    logs->tee->streams = mem_calloc(num_tees, sizeof *logs->tee->streams);
    logs->tee->pipes = mem_calloc(num_tees + 1, sizeof *logs->tee->pipes);
    logs->output = mem_calloc((size_t)num_workers, sizeof *logs->output);
    for (int i = 0; i < num_workers; i++) {
        char folder[PATH_MAX];
        logs_path(logs, i, "", folder);
        folder_create(folder, "--log-dir");
        for (int stream = 0; stream < 2; stream++)
            logs->output[i][stream] = open_stream(logs, first_rank + i, i, stream);
    }
}

void logs_start(Logs *logs)
{
    for (int i = 0; i < logs->flags->nproc_per_node; i++) {
        for (int stream = 0; stream < 2; stream++) {
            if (logs->output[i][stream] >= 0)
                close(logs->output[i][stream]);
        }
    }
    free(logs->output);
    Tee *tee = logs->tee;
    if (tee->num_streams == 0)
        return;
    const int stop_fd = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(stop_fd);
    tee->pipes[tee->num_streams] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
    const int error = thread_start(&tee->thread, run, tee);
    CHECK(error == 0, "cannot start a thread for the logs: %s", strerror(error));
}

/* Our ranks write one line, which the report has shown. PyTorch's also write a traceback: that
 * stays. */
static bool is_in_report(const char *path)
{
    static const char ours[] = "{\"message\": \"";
    char begin[sizeof ours] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const size_t bytes = fread(begin, 1, sizeof begin - 1, file);
    fclose(file);
    return memcmp(begin, ours, bytes) == 0; // or as much of it as was written
}

void logs_close(Logs *logs)
{
    tee_finish(logs->tee);
    for (int i = 0; i < logs->flags->nproc_per_node; i++) {
        char path[PATH_MAX];
        logs_path(logs, i, "error.json", path);
        if (logs->flags->log_dir == NULL && is_in_report(path))
            unlink(path);
        logs_path(logs, i, "", path);
        rmdir(path);
    }
    rmdir(logs->attempt);
    if (rmdir(logs->folder) == 0)
        logs->folder[0] = '\0';
}
