/*
 * watch - a running job in a browser: its ranks, waits, losses, snapshots and store.
 *
 *     tools/watch checkpoints      # the job's --checkpoint-dir, or the port of its store
 *
 * It reads what the ranks write anyway, and only while a page is open: a job that is not watched
 * does not notice. Each viewer gets a report a second as server-sent events. One that reads slowly
 * misses reports, but delays no other. A report needs the token of the URL, because other users of
 * this machine could ask, too. On loopback a viewer may stop, continue or kill a rank.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "tools/http/http_server.h"
#include "tools/live/live_report.h"
#include "tools/model/tool.h"

#define REPORT_SECONDS 1.0

enum { MAX_VIEWERS = 32, TOKEN_BYTES = 16, BLOCK_BYTES = 4096, SEND_BYTES = 32 << 10 };

typedef struct {
    HttpOptions http; // first, because of HTTP_OPTION_ROWS
    const char *metrics_dir;
    enum { AUTO, ON, OFF } control;
} Options;

static const Tool tool = {
    .name = "tools/watch",
    .arguments = "DIR|PORT",
    .about =
        "Shows a running job of step 05 in a browser. DIR: its --checkpoint-dir; PORT: that of "
        "its\n"
        "store (MASTER_PORT). GET / is the page, GET /events?token=T its reports, one a second, "
        "as\n"
        "server-sent events; POST /rank?rank=R&do=stop|continue|kill&token=T sends a signal to a\n"
        "rank of this machine. T is in the URL that it prints. Ends on SIGTERM or Ctrl+C.\n",
    .shared = (const char *const[]){ NULL },
    .own =
        (const Option[]){
            HTTP_OPTION_ROWS("8001"),
            { "metrics-dir", "DIR", "off", .kind = OPTION_OPTIONAL,
              .offset = offsetof(Options, metrics_dir),
              .help = "the job's, if it has ended; that of a running job is found" },
            { "control", "auto|on|off", "auto", .kind = OPTION_CHOICE,
              .offset = offsetof(Options, control),
              .help = "may the page stop, continue and kill ranks? auto: on loopback" },
            { .name = NULL } },
};

__asm__(".pushsection .rodata\n"
        ".global watch_html, watch_html_end\n"
        "watch_html: .incbin \"tools/watch.html\"\n"
        "watch_html_end:\n"
        ".popsection\n");
extern const char watch_html[], watch_html_end[];

/* A report, as sent: "data: {...}\n\n". Freed when its last viewer has moved on. */
typedef struct {
    char *text;
    size_t length;
    int users;
} Event;

struct Watcher;

/* A connection that gets events. */
typedef struct {
    struct Watcher *watcher;
    struct MHD_Connection *connection; // NULL if the slot is free
    Event *event; // the event being sent; NULL if none
    size_t sent; // bytes sent of `event`
    unsigned long number; // the number of the last event that it got
    unsigned long arrived; // how many viewers had come, including it
    bool suspended; // until there is another event
    bool leaves; // whether it has given its place to another
} Viewer;

typedef struct Watcher {
    LiveJob job;
    StorePeek peek;
    double timeout;
    char token[2 * TOKEN_BYTES + 1];
    bool control; // whether the page may send signals
    Viewer viewer[HTTP_MAX_CLIENTS];
    int num_viewers; // the number of viewers, without those that leave
    unsigned long arrived; // how many viewers have come so far
    Event *newest;
    unsigned long number; // the number of the newest event
    double next_report;
} Watcher;

/* ---- events ---- */

static void event_drop(Event *event)
{
    if (event == NULL || --event->users > 0)
        return;
    free(event->text);
    free(event);
}

static void resume(Viewer *viewer)
{
    if (!viewer->suspended)
        return;
    viewer->suspended = false;
    http_allow(viewer->connection, viewer->watcher->timeout);
    MHD_resume_connection(viewer->connection);
}

static void make_event(Watcher *watcher)
{
    char *report = live_report(&watcher->job, &watcher->peek, watcher->control);
    Event *event = mem_calloc(1, sizeof *event);
    const int length = asprintf(&event->text, "data: %s\n\n", report);
    CHECK(length > 0, "out of memory");
    free(report);
    event->length = (size_t)length;
    event->users = 1;
    event_drop(watcher->newest);
    watcher->newest = event;
    watcher->number++;
}

/* Called several times a second. Does nothing while there is no viewer. */
static void tick(void *context)
{
    Watcher *watcher = context;
    if (watcher->num_viewers == 0)
        return;
    store_peek(&watcher->peek, &watcher->job);
    if (seconds_now() < watcher->next_report)
        return;
    make_event(watcher);
    watcher->next_report = seconds_now() + REPORT_SECONDS;
    for (Viewer *viewer = watcher->viewer; viewer < watcher->viewer + HTTP_MAX_CLIENTS; viewer++)
        resume(viewer);
}

static void stop(void *context)
{
    Watcher *watcher = context;
    for (Viewer *viewer = watcher->viewer; viewer < watcher->viewer + HTTP_MAX_CLIENTS; viewer++)
        resume(viewer);
}

/* Copies the rest of the last event; then the answer ends. */
static ssize_t send_leave_event(Viewer *viewer, char *to, size_t room)
{
    static const char event[] = "event: leave\ndata: too many pages\n\n";
    const size_t left = sizeof event - 1 - viewer->sent, count = left < room ? left : room;
    memcpy(to, event + viewer->sent, count);
    viewer->sent += count;
    return count > 0 ? (ssize_t)count : MHD_CONTENT_READER_END_OF_STREAM;
}

/* Fills the next bytes. libmicrohttpd asks for more when it has sent what it has, so a slow viewer
 * asks seldom, and then gets the newest event. */
static ssize_t next_bytes(void *context, uint64_t position, char *to, size_t room)
{
    (void)position;
    Viewer *viewer = context;
    Watcher *watcher = viewer->watcher;
    if (viewer->event != NULL && viewer->sent == viewer->event->length) {
        event_drop(viewer->event);
        viewer->event = NULL;
        viewer->sent = 0;
    }
    if (viewer->event == NULL && viewer->leaves)
        return send_leave_event(viewer, to, room);
    if (viewer->event == NULL && viewer->number < watcher->number) {
        viewer->event = watcher->newest;
        viewer->event->users++;
        viewer->number = watcher->number;
    }
    if (viewer->event == NULL) {
        viewer->suspended = true;
        http_allow(viewer->connection, INFINITY);
        MHD_suspend_connection(viewer->connection);
        return 0;
    }
    http_allow(viewer->connection, watcher->timeout);
    const size_t left = viewer->event->length - viewer->sent, count = left < room ? left : room;
    memcpy(to, viewer->event->text + viewer->sent, count);
    viewer->sent += count;
    return (ssize_t)count;
}

static void end_viewer(void *context)
{
    Viewer *viewer = context;
    event_drop(viewer->event);
    viewer->watcher->num_viewers -= !viewer->leaves;
    *viewer = (Viewer){ 0 };
}

/* Makes the page that was opened first give its place to a new one, because pages that are never
 * closed must not keep out new ones. */
static void evict_oldest(Watcher *watcher)
{
    Viewer *oldest = NULL;
    for (Viewer *viewer = watcher->viewer; viewer < watcher->viewer + HTTP_MAX_CLIENTS; viewer++)
        if (viewer->connection != NULL && !viewer->leaves &&
            (oldest == NULL || viewer->arrived < oldest->arrived))
            oldest = viewer;
    oldest->leaves = true;
    watcher->num_viewers--;
    resume(oldest);
}

static const char *argument(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
    return value != NULL ? value : "";
}

/* Compares all of it, so that the time it takes does not reveal where they differ. */
static bool is_token(const Watcher *watcher, const char *text)
{
    if (strlen(text) != 2 * TOKEN_BYTES)
        return false;
    unsigned char different = 0;
    for (size_t i = 0; i < 2 * TOKEN_BYTES; i++)
        different |= (unsigned char)(text[i] ^ watcher->token[i]);
    return different == 0;
}

static enum MHD_Result send_events(Watcher *watcher, struct MHD_Connection *connection)
{
    if (!is_token(watcher, argument(connection, "token")))
        return http_refuse(connection, MHD_HTTP_FORBIDDEN,
                           "only the page of the URL that tools/watch has printed may read that");
    if (watcher->num_viewers == MAX_VIEWERS)
        evict_oldest(watcher);
    Viewer *viewer = watcher->viewer; // there is a place for every connection
    while (viewer->connection != NULL)
        viewer++;
    *viewer =
        (Viewer){ .watcher = watcher, .connection = connection, .arrived = ++watcher->arrived };
    watcher->num_viewers++;
    watcher->next_report = 0; // the viewer gets the first report at once
    // What waits in the kernel is old when it comes: a slow viewer gets few reports, but new ones.
    const int fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ SEND_BYTES }, sizeof(int));
    return http_queue(connection, MHD_HTTP_OK, "text/event-stream",
                      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, next_bytes,
                                                        viewer, end_viewer));
}

/* ---- signals ---- */

static enum MHD_Result signal_rank(Watcher *watcher, struct MHD_Connection *connection)
{
    static const char *const actions[] = {
        [LIVE_STOP] = "stop", [LIVE_CONTINUE] = "continue", [LIVE_KILL] = "kill"
    };
    if (!watcher->control || !is_token(watcher, argument(connection, "token")))
        return http_refuse(connection, MHD_HTTP_FORBIDDEN,
                           "only the page of the URL that tools/watch has printed may do that, "
                           "and on other addresses than loopback it needs --control on");
    const char *rank = argument(connection, "rank"), *action = argument(connection, "do");
    int number = 0;
    while (number <= LIVE_KILL && strcmp(actions[number], action) != 0)
        number++;
    if (number > LIVE_KILL || rank[0] == '\0' || strlen(rank) > 4 ||
        rank[strspn(rank, "0123456789")] != '\0')
        return http_refuse(connection, MHD_HTTP_BAD_REQUEST,
                           "say rank=NUMBER and do=stop, continue or kill");
    const char *problem = live_signal(&watcher->job, atoi(rank), (LiveAction)number);
    if (problem != NULL)
        return http_refuse(connection, MHD_HTTP_CONFLICT, problem);
    log_print("rank %s: %s, as the page asked", rank, action);
    watcher->next_report = 0;
    return http_respond_json(connection, MHD_HTTP_OK, strdup("{\"status\":\"ok\"}"));
}

/* ---- the server ---- */

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const HttpUpload *upload)
{
    Watcher *watcher = context;
    const bool get = strcmp(method, "GET") == 0;
    if (upload->size > HTTP_MAX_BODY_BYTES)
        return http_refuse_size(connection);
    if (strcmp(url, "/") == 0 && http_is_get(method))
        return http_respond(connection, MHD_HTTP_OK, "text/html; charset=utf-8", watch_html,
                            (size_t)(watch_html_end - watch_html), MHD_RESPMEM_PERSISTENT);
    if (strcmp(url, "/events") == 0 && get)
        return send_events(watcher, connection);
    if (strcmp(url, "/rank") == 0 && strcmp(method, "POST") == 0)
        return signal_rank(watcher, connection);
    if (strcmp(url, "/") == 0 || strcmp(url, "/events") == 0 || strcmp(url, "/rank") == 0)
        return http_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                           "GET / and /events, POST /rank: no other method");
    return http_refuse(connection, MHD_HTTP_NOT_FOUND, "there is only /, /events and /rank");
}

static void make_token(Watcher *watcher)
{
    unsigned char random[TOKEN_BYTES];
    SYS_CHECK(getrandom(random, sizeof random, 0));
    for (int i = 0; i < TOKEN_BYTES; i++)
        snprintf(watcher->token + 2 * i, 3, "%02x", random[i]);
}

int main(int argc, char **argv)
{
    Args args;
    Options options;
    const char *what;
    tool_parse(&tool, &args, &options, &what, argc, argv);
    static Watcher watcher;
    if (!live_job_find(&watcher.job, what))
        die("no rank on this machine has MASTER_PORT=%s and a flight record: name the "
            "--checkpoint-dir of a run of step 05",
            what);
    if (options.metrics_dir != NULL)
        snprintf(watcher.job.metrics_dir, sizeof watcher.job.metrics_dir, "%s",
                 options.metrics_dir);
    watcher.timeout = options.http.timeout;

    HttpServer http = {
        .options = &options.http, .tool = &watcher, .answer = answer, .tick = tick, .stop = stop
    };
    http_listen(&http);
    watcher.control = options.control == ON || (http.loopback && options.control != OFF);
    make_token(&watcher);
    log_print("Watching %s at %s?token=%s until Ctrl+C", watcher.job.dir, http.url, watcher.token);
    http_serve(&http);
    store_peek_stop(&watcher.peek);
    json_decref(watcher.peek.keys);
    free(watcher.peek.text);
    event_drop(watcher.newest);
    return 0;
}
