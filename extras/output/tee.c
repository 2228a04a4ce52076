/*
 * ddprun --tee: a pipe for each stream of a worker, and one thread that copies the output from all
 * of them. The launcher's own thread must never wait for a slow terminal, or it would not notice
 * that a worker died. A line goes to the console in one write, so that those of several ranks do
 * not mix; an endless one is cut.
 */
#include "extras/output/tee.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"

#define PREFIX_BYTES 256
#define LINE_BYTES (64 << 10) // where lines are cut
#define PIECE_BYTES (64 << 10) // bytes copied at a time: what most pipes hold

typedef struct {
    int file_fd, console_fd, filtered_fd; // -1 if it is not written, or no longer
    char *filters; // each ends with a NUL, and the last with two
    size_t prefix_bytes;
    size_t length; // length of `line`
    char line[LINE_BYTES + 1]; // the prefix and the line so far
} Stream;

struct Tee {
    int num_streams;
    Stream **streams;
    struct pollfd *pipes; // [num_streams], fd -1 at its end; one more for `stop`
    pthread_t thread;
};

/* Expands the ${names} in the template; cuts the result if it is too long. */
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
    const char *from = flags->line_prefix;
    while (*from != '\0' && length + 1 < PREFIX_BYTES) {
        size_t i = 0;
        while (i < 4 && strncmp(from, names[i][0], strlen(names[i][0])) != 0)
            i++;
        length += (size_t)snprintf(text + length, PREFIX_BYTES - length, "%.*s", i < 4 ? -1 : 1,
                                   i < 4 ? names[i][1] : from);
        from += i < 4 ? strlen(names[i][0]) : 1;
    }
}

/* Drops this output if its reader is gone or the disk is full. */
static void write_or_drop(int *fd, const char *data, size_t bytes)
{
    if (*fd < 0 || write_all(*fd, data, bytes))
        return;
    if (errno != EPIPE)
        log_warning("a worker's output is lost from here on: %s", strerror(errno));
    *fd = -1;
}

/* Splits "apple,or,,ange" into "apple\0or,ange\0\0". Omits an empty text, which every line has. */
static char *split_filters(const char *list)
{
    char *filters = mem_calloc(strlen(list) + 2, 1), *to = filters;
    for (; *list != '\0'; list++) {
        if (*list != ',' || list[1] == ',')
            *to++ = *list;
        else if (to > filters && to[-1] != '\0')
            to++;
        list += *list == ',' && list[1] == ',';
    }
    return filters;
}

/* Returns true if the rank's own text in this line has one of the texts. */
static bool passes_filters(const Stream *stream)
{
    const size_t bytes = stream->length - stream->prefix_bytes;
    for (const char *text = stream->filters; *text != '\0'; text += strlen(text) + 1)
        if (memmem(stream->line + stream->prefix_bytes, bytes, text, strlen(text)) != NULL)
            return true;
    return false;
}

static void end_line(Stream *stream)
{
    const bool passes = passes_filters(stream);
    stream->line[stream->length++] = '\n';
    write_or_drop(&stream->console_fd, stream->line, stream->length);
    if (passes)
        write_or_drop(&stream->filtered_fd, stream->line, stream->length);
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

/* Copies a piece of the available output. Returns its length; closes the stream at its end. */
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
                copy(tee->streams[i], &tee->pipes[i]);
        }
    }
    return NULL;
}

/* Copies the rest. Does not wait for other processes that still hold the stream open, but does for
 * the console, like every program: one that is stopped (Ctrl-S, a pager) may go on at any time. */
static void finish_stream(Stream *stream, struct pollfd *pipe)
{
    int left = 0; // bytes left of the workers' output, all of which is in the pipe by now
    ioctl(pipe->fd, FIONREAD, &left);
    for (size_t n; left > 0 && (n = copy(stream, pipe)) > 0;)
        left -= (int)n;
    if (stream->length > stream->prefix_bytes)
        end_line(stream);
    if (pipe->fd >= 0)
        close(pipe->fd);
    close(stream->file_fd);
    if (stream->filtered_fd >= 0)
        close(stream->filtered_fd);
    free(stream->filters);
}

int tee_add(Tee **tee, const TeeTarget *target, const Flags *flags, int rank, int local_rank)
{
    if (*tee == NULL) {
        const size_t most = 2 * (size_t)flags->nproc_per_node; // number of streams
        *tee = mem_calloc(1, sizeof **tee);
        (*tee)->streams = mem_calloc(most, sizeof *(*tee)->streams);
        (*tee)->pipes = mem_calloc(most + 1, sizeof *(*tee)->pipes);
    }
    int fds[2];
    SYS_CHECK(pipe2(fds, O_CLOEXEC));
    SYS_CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK));
    Stream *stream = mem_calloc(1, sizeof *stream);
    stream->file_fd = target->file_fd;
    stream->console_fd = target->console_fd;
    stream->filtered_fd = target->filtered_fd;
    stream->filters = split_filters(target->filters != NULL ? target->filters : "");
    expand_prefix(flags, rank, local_rank, stream->line);
    stream->prefix_bytes = stream->length = strlen(stream->line);
    (*tee)->pipes[(*tee)->num_streams] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
    (*tee)->streams[(*tee)->num_streams++] = stream;
    return fds[1];
}

void tee_start(Tee *tee)
{
    if (tee == NULL)
        return;
    const int stop_fd = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(stop_fd);
    tee->pipes[tee->num_streams] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
    const int error = thread_start(&tee->thread, run, tee);
    CHECK(error == 0, "cannot start a thread for the logs: %s", strerror(error));
}

void tee_finish(Tee *tee)
{
    if (tee == NULL)
        return;
    const int stop_fd = tee->pipes[tee->num_streams].fd;
    eventfd_write(stop_fd, 1);
    pthread_join(tee->thread, NULL);
    close(stop_fd);
    for (int i = 0; i < tee->num_streams; i++) {
        finish_stream(tee->streams[i], &tee->pipes[i]);
        free(tee->streams[i]);
    }
    free(tee->pipes);
    free(tee->streams);
    free(tee);
}
