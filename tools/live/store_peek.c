/* LIST_KEYS of the store's protocol (extras/torch_store); the child prints one key per line. */
#include "tools/live/store_peek.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/store.h"

enum { SECONDS = 2, MAX_KEYS = 400, MAX_BYTES = 256 << 10 };

/* Prints the names of the keys, and exits. */
static noreturn void ask(const LiveJob *job, int fd)
{
    static char key[STORE_MAX_KEY + 1];
    Store store = { 0 };
    alarm(5);
    dup2(fd, STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    if (job->secret_file[0] != '\0')
        setenv("DDP_SECRET_FILE", job->secret_file, 1);
    else
        unsetenv("DDP_SECRET_FILE");
    setenv("TORCHELASTIC_RUN_ID", job->run_id, 1);
    if (!store_connect(&store, job->store_host, job->store_port, 2))
        _exit(EXIT_FAILURE);
    store.may_fail = true;
    StoreRequest request = store_request_begin(&store, STORE_LIST_KEYS, NULL);
    const int64_t count = store_reply_i64(&request);
    for (int64_t i = 0; i < count && i < MAX_KEYS && !store.failed; i++) {
        const size_t length = store_reply_blob(&request, key, sizeof key - 1);
        key[length < sizeof key ? length : sizeof key - 1] = '\0';
        text_disarm(key, "");
        printf("%s\n", key);
    }
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

static void start(StorePeek *peek, const LiveJob *job)
{
    int fds[2];
    SYS_CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK));
    peek->child = fork();
    if (peek->child == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        ask(job, fds[1]);
    }
    close(fds[1]);
    peek->fd = fds[0];
    peek->length = 0;
    if (peek->child < 0)
        store_peek_stop(peek);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void finish(StorePeek *peek)
{
    char *line[MAX_KEYS];
    size_t count = 0;
    peek->text[peek->length] = '\0';
    char *rest = peek->text, *next;
    while ((next = strsep(&rest, "\n")) != NULL && count < MAX_KEYS)
        if (*next != '\0')
            line[count++] = next;
    qsort(line, count, sizeof *line, compare);
    json_decref(peek->keys);
    peek->keys = count > 0 ? json_array() : NULL;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(peek->keys, json_text(line[i]));
}

/* Reads the available bytes. Returns true if the child has ended. */
static bool receive(StorePeek *peek)
{
    if (peek->text == NULL)
        peek->text = mem_calloc(1, MAX_BYTES + 1);
    ssize_t n;
    while ((n = read(peek->fd, peek->text + peek->length, MAX_BYTES - peek->length)) > 0)
        peek->length += (size_t)n;
    return n == 0 || errno != EAGAIN;
}

void store_peek(StorePeek *peek, const LiveJob *job)
{
    const double now = seconds_now();
    if (peek->child > 0 && receive(peek)) {
        finish(peek);
        store_peek_stop(peek);
        peek->next = now + (peek->keys != NULL ? SECONDS : 5 * SECONDS);
    } else if (peek->child == 0 && now >= peek->next && job->store_port > 0) {
        start(peek, job);
    }
}

void store_peek_stop(StorePeek *peek)
{
    if (peek->child > 0) {
        kill(peek->child, SIGKILL);
        waitpid(peek->child, NULL, 0);
    }
    if (peek->child != 0)
        close(peek->fd);
    peek->child = 0;
}
