/* A failure is recorded where it happens, with all that helps to understand it, since other nodes
 * cannot read this node's files. */
#include "launcher/launch.h"

#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/signals.h"

#define MAX_ERROR_FILE (1 << 20)
#define MAX_TIME 253402300800.0 // the year 10000: times before it can be printed as dates

/* Copies foreign text that goes to a terminal: of control characters only those to `keep`. Cuts it
 * if too long, but never inside a UTF-8 character. */
static void copy_text(char *to, const char *text, size_t bytes, const char *keep)
{
    size_t length = strnlen(text, bytes);
    if (length == bytes)
        for (length--; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--;
    memcpy(to, text, length);
    to[length] = '\0';
    text_disarm(to, keep);
}

json_t *failure_load_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0 || !S_ISREG(info.st_mode) || info.st_size > MAX_ERROR_FILE)
        return NULL; // opening a pipe would block
    return json_load_file(path, 0, NULL);
}

static void start(Failure *failure, int node, int status, double seconds_ago)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *failure = (Failure){ .status = status, .node = node, .rank = -1, .local_rank = -1 };
    failure->time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - seconds_ago;
}

/* Returns whether the program that reads our output, and so the workers', has ended. A worker may
 * also be killed by SIGPIPE for a pipe of its own. */
static bool has_no_reader(void)
{
    struct pollfd outputs[] = { { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } };
    poll(outputs, 2, 0);
    return ((outputs[0].revents | outputs[1].revents) & (POLLERR | POLLHUP)) != 0;
}

void failure_of_worker(Failure *failure, const Worker *worker, int rank, int local_rank,
                       const Logs *logs)
{
    const Flags *flags = logs->flags;
    char path[PATH_MAX];
    start(failure, flags->node_rank, worker->status, seconds_awake() - worker->ended);
    gethostname(failure->host, sizeof failure->host - 1);
    text_disarm(failure->host, "");
    failure->rank = rank;
    failure->local_rank = local_rank;
    failure->pid = worker->pid;
    failure->signal = worker->signal;
    failure->is_unread = worker->signal == SIGPIPE && has_no_reader();
    if (worker->error != 0)
        snprintf(failure->message, sizeof failure->message, "cannot start %.512s: %s%s",
                 flags->command[0], strerror(worker->error),
                 comfort_start_advice(flags->command[0], worker->error));

    // {"message": TEXT} or {"message": {"message": TEXT, ...}}, as PyTorch's @record writes it;
    // "restart": false is ours.
    logs_path(logs, local_rank, "error.json", path);
    json_t *error = failure_load_file(path);
    const json_t *text = json_object_get(error, "message");
    if (json_is_object(text))
        text = json_object_get(text, "message");
    if (json_is_string(text))
        copy_text(failure->message, json_string_value(text), sizeof failure->message, "\n\t");
    failure->is_final = json_is_false(json_object_get(error, "restart"));
    json_decref(error);

    logs_path(logs, local_rank, "stderr.log", failure->log);
    if (access(failure->log, F_OK) != 0)
        logs_path(logs, local_rank, "stdout.log", failure->log);
    if (access(failure->log, F_OK) != 0)
        failure->log[0] = '\0';
}

void failure_of_launcher(Failure *failure, int node, int status, const char *format, ...)
{
    start(failure, node, status, 0);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->message, sizeof failure->message, format, arguments);
    va_end(arguments);
}

bool failure_is_earlier(const Failure *a, const Failure *b)
{
    return b->status == 0 || a->time < b->time;
}

char *failure_encode(const Failure *failure)
{
    json_t *root =
        json_pack("{si si sb sb sf si si si si so so so}", "status", failure->status, "signal",
                  failure->signal, "is_unread", failure->is_unread, "is_final", failure->is_final,
                  "time", failure->time, "node", failure->node, "rank", failure->rank, "local_rank",
                  failure->local_rank, "pid", failure->pid, "host", json_text(failure->host),
                  "message", json_text(failure->message), "log", json_text(failure->log));
    char *text = json_dumps(root, JSON_COMPACT);
    CHECK(text != NULL, "out of memory");
    json_decref(root);
    return text;
}

bool failure_decode(Failure *failure, const char *text, size_t bytes)
{
    *failure = (Failure){ 0 };
    json_t *root = json_loadb(text, bytes, 0, NULL);
    const char *host = "", *message = "", *log = "";
    int is_unread = false, is_final = false;
    const bool valid =
        json_unpack(root, "{si si s?b s?b sF si si si si ss ss ss}", "status", &failure->status,
                    "signal", &failure->signal, "is_unread", &is_unread, "is_final", &is_final,
                    "time", &failure->time, "node", &failure->node, "rank", &failure->rank,
                    "local_rank", &failure->local_rank, "pid", &failure->pid, "host", &host,
                    "message", &message, "log", &log) == 0 &&
        failure->status > 0 && failure->status <= 255 && failure->time >= 0 &&
        failure->time < MAX_TIME;
    failure->is_unread = is_unread;
    failure->is_final = is_final;
    copy_text(failure->host, host, sizeof failure->host, "");
    copy_text(failure->message, message, sizeof failure->message, "\n\t");
    copy_text(failure->log, log, sizeof failure->log, "");
    json_decref(root);
    return valid;
}

const char *end_text(int status, int signal, char text[END_BYTES])
{
    if (signal == 0)
        snprintf(text, END_BYTES, "exit status %d", status);
    else
        snprintf(text, END_BYTES, "killed by %s", signal_name(signal));
    return text;
}

void report_print(const Failure *root, const Workers *workers, int first_rank)
{
    const bool is_here = root->node == workers->logs->flags->node_rank;
    const bool was_requested =
        workers->request != 0; // as another node was, perhaps a moment before
    const bool has_table = has_extras;
    char end[END_BYTES];
    if (root->rank < 0 ? is_here || was_requested || !has_table : is_here && root->pid == 0)
        log_info("%s", root->message);
    else if (root->is_unread) // as with `| head -n 2`: one line, like a shell's
        log_info("rank %d on node %d (%s) was killed by SIGPIPE: its output goes to a program that "
                 "has ended",
                 root->rank, root->node, root->host);
    else if (has_table)
        rank_report(root, workers, first_rank);
    else
        log_info("rank %d on node %d (%s): %s%s%s", root->rank, root->node, root->host,
                 end_text(root->status, root->signal, end), root->message[0] != '\0' ? ": " : "",
                 root->message);
}
