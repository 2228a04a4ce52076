/*
 * A pipe per stream and one thread for all of them: the launcher's own thread must never wait for a
 * slow terminal, or it would not see a worker die. A line goes to the console in one write, so that
 * those of several ranks do not mix; an endless one is cut.
 */
#include "common/launch/tee.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/thread.h"

#define LINE_BYTES (64 << 10) // where lines are cut
#define PIECE_BYTES (64 << 10) // copied at a time: what most pipes hold

typedef struct {
    int file_fd, console_fd; // -1: not written, or no longer
    size_t prefix_bytes;
    size_t length; // of line
    char line[LINE_BYTES + 1]; // the prefix and the line so far
} Stream;

struct Tee {
    int num_streams;
    Stream *streams;
    struct pollfd *pipes; // [num_streams], fd -1 at its end; one more for `stop`
    pthread_t thread;
};

Tee *tee_create(int max_streams)
{
    Tee *tee = mem_calloc(1, sizeof *tee);
    tee->streams = mem_calloc((size_t)max_streams, sizeof *tee->streams);
    tee->pipes = mem_calloc((size_t)max_streams + 1, sizeof *tee->pipes);
    return tee;
}

int tee_add(Tee *tee, int file_fd, int console_fd, const char *prefix)
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
static void write_all(int *fd, const char *data, size_t bytes)
{
    while (*fd >= 0 && bytes > 0) {
        const ssize_t n = write(*fd, data, bytes);
        if (n >= 0) {
            data += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN) { // another process made the console non-blocking
            poll(&(struct pollfd){ .fd = *fd, .events = POLLOUT }, 1, -1);
        } else if (errno != EINTR) {
            if (errno != EPIPE)
                log_warning("a worker's output is lost from here on: %s", strerror(errno));
            *fd = -1;
        }
    }
}

static void end_line(Stream *stream)
{
    stream->line[stream->length++] = '\n';
    write_all(&stream->console_fd, stream->line, stream->length);
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
        write_all(&stream->file_fd, data, (size_t)n);
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

void tee_start(Tee *tee)
{
    if (tee->num_streams == 0)
        return;
    const int stop_fd = eventfd(0, EFD_CLOEXEC);
    SYS_CHECK(stop_fd);
    tee->pipes[tee->num_streams] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
    const int error = thread_start(&tee->thread, run, tee);
    CHECK(error == 0, "cannot start a thread for the logs: %s", strerror(error));
}

static void finish_stream(Stream *stream, struct pollfd *pipe)
{
    // The workers' output is in the pipe completely; more can only come from other processes.
    int left = 0;
    ioctl(pipe->fd, FIONREAD, &left);
    for (size_t n; left > 0 && (n = copy(stream, pipe)) > 0;)
        left -= (int)n;
    if (stream->length > stream->prefix_bytes)
        end_line(stream);
    if (pipe->fd >= 0)
        close(pipe->fd);
    close(stream->file_fd);
}

void tee_finish(Tee *tee)
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
