/*
 * serve - a trained model behind HTTP, and a page on which to draw a digit and see the answer.
 *
 *     tools/serve checkpoints/cnn_digits.safetensors      # then open http://127.0.0.1:8000/
 *     curl --data-binary @seven.png -H 'Content-Type: image/png' http://127.0.0.1:8000/predict
 *
 * One thread does it all: libmicrohttpd watches the connections, and an answer takes too little
 * time to be worth a second thread. Each request has a time limit, whether the client sends nothing
 * or too little or does not read the answer; then the connection is closed.
 */
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "tools/model/classifier.h"
#include "tools/model/picture_request.h"
#include "tools/model/tool.h"

enum { MAX_BODY_BYTES = 64 << 10, MAX_HEADER_BYTES = 16 << 10, MAX_CLIENTS = 64 };
enum { CONTENT_TOO_LARGE = 413, POLL_MS = 250 };

typedef struct {
    int port;
    const char *bind;
    double timeout;
} Options;

static const Tool tool = {
    .name = "tools/serve",
    .arguments = "MODEL",
    .about =
        "MODEL: a checkpoint, or a folder of tools/export. GET / is a page to draw on; POST\n"
        "/predict takes {\"pixels\": [784 numbers from 0 to 255]}, PNG or PGM, and answers with\n"
        "JSON; GET /healthz answers {\"status\":\"ok\"}. Ends on SIGTERM or Ctrl+C.\n",
    .shared = (const char *const[]){ "device", NULL },
    .own =
        (const Option[]){
            { "port", "N", "8000", .kind = OPTION_INT, .offset = offsetof(Options, port),
              .help = "where to listen; 0: any free one", .high = 65535 },
            { "bind", "ADDRESS", "127.0.0.1", .kind = OPTION_STRING,
              .offset = offsetof(Options, bind), .help = "on which interface" },
            { "request-timeout", "SECONDS", "10", .kind = OPTION_REAL,
              .offset = offsetof(Options, timeout),
              .help = "from a request to the end of its answer", .low = 0.1, .high = 3600 },
            { .name = NULL } },
};

// The path is relative to the top of the repository, where make runs the compiler.
__asm__(".pushsection .rodata\n"
        ".global serve_html, serve_html_end\n"
        "serve_html: .incbin \"tools/serve.html\"\n"
        "serve_html_end:\n"
        ".popsection\n");
extern const char serve_html[], serve_html_end[];

/* A connection. */
typedef struct Client {
    int fd;
    double deadline; // of the current request, or of the next one
    struct Client *next;
} Client;

typedef struct {
    ModelFile from;
    Classifier classifier;
    double timeout;
    Client *clients;
} Server;

/* A request while it comes in. */
typedef struct {
    size_t size; // of the body so far; bytes beyond MAX_BODY_BYTES are not kept
    uint8_t body[MAX_BODY_BYTES];
} Upload;

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               const void *text, size_t bytes, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, (void *)text, mode);
    CHECK(response != NULL, "out of memory");
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; connect-src 'self'; img-src data:; "
                            "script-src 'unsafe-inline'; style-src 'unsafe-inline'");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    const enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* Takes the text, which is freed when it has been sent. */
static enum MHD_Result respond_json(struct MHD_Connection *connection, unsigned status, char *text)
{
    return respond(connection, status, "application/json", text, strlen(text),
                   MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *error)
{
    return respond_json(connection, status, picture_request_refusal(error));
}

static enum MHD_Result refuse_size(struct MHD_Connection *connection)
{
    return refuse(connection, CONTENT_TOO_LARGE, "a request must not exceed 64 KiB");
}

/* Answers a complete request to /predict. */
static enum MHD_Result predict(Server *server, struct MHD_Connection *connection,
                               const Upload *upload)
{
    if (upload->size > MAX_BODY_BYTES)
        return refuse_size(connection);
    const char *type =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    uint8_t pixels[MNIST_PIXELS];
    char error[256];
    const int status =
        picture_request_read(type, upload->body, upload->size, pixels, error, sizeof error);
    if (status != MHD_HTTP_OK)
        return refuse(connection, (unsigned)status, error);

    float probability[MODEL_FILE_MAX_LABELS];
    const int best = classifier_predict(&server->classifier, pixels, probability);
    const bool seen =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "seen") != NULL;
    return respond_json(
        connection, MHD_HTTP_OK,
        picture_request_answer(&server->from, best, probability, seen ? pixels : NULL));
}

/* Answers a complete request. */
static enum MHD_Result answer(Server *server, struct MHD_Connection *connection, const char *url,
                              const char *method, const Upload *upload)
{
    const bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (strcmp(url, "/predict") == 0 && strcmp(method, "POST") == 0)
        return predict(server, connection, upload);
    if (strcmp(url, "/") == 0 && get)
        return respond(connection, MHD_HTTP_OK, "text/html; charset=utf-8", serve_html,
                       (size_t)(serve_html_end - serve_html), MHD_RESPMEM_PERSISTENT);
    if (strcmp(url, "/healthz") == 0 && get)
        return respond_json(connection, MHD_HTTP_OK, picture_request_health(&server->from));
    if (strcmp(url, "/") == 0 || strcmp(url, "/healthz") == 0 || strcmp(url, "/predict") == 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                      "GET / and /healthz, POST /predict: no other method");
    return refuse(connection, MHD_HTTP_NOT_FOUND, "there is only /, /healthz and /predict");
}

/* Called for each request when its header is there, for each part of its body, and at its end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *part,
                                  size_t *part_bytes, void **request)
{
    (void)version;
    Upload *upload = *request;
    if (upload == NULL) { // an answer now would end the connection
        const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                         MHD_HTTP_HEADER_CONTENT_LENGTH);
        if (length != NULL && strtoull(length, NULL, 10) > MAX_BODY_BYTES)
            return refuse_size(connection);
        *request = mem_calloc(1, sizeof *upload);
        return MHD_YES;
    }
    if (*part_bytes == 0)
        return answer(context, connection, url, method, upload);
    if (upload->size + *part_bytes <= MAX_BODY_BYTES)
        memcpy(upload->body + upload->size, part, *part_bytes);
    upload->size += *part_bytes;
    *part_bytes = 0;
    return MHD_YES;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)code;
    Server *server = context;
    free(*request);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    Client *client = info != NULL ? info->socket_context : NULL;
    if (client != NULL)
        client->deadline = seconds_now() + server->timeout;
}

/* A connection begins or ends. */
static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    Server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        Client *client = mem_calloc(1, sizeof *client);
        *client = (Client){
            .fd =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            .deadline = seconds_now() + server->timeout,
            .next = server->clients,
        };
        server->clients = *socket_context = client;
        return;
    }
    for (Client **at = &server->clients; *at != NULL; at = &(*at)->next)
        if (*at == *socket_context) {
            Client *gone = *at;
            *at = gone->next;
            free(gone);
            return;
        }
}

/* Closes the connections that libmicrohttpd's own timeout misses: of clients that send a byte now
 * and then. */
static void close_late_clients(const Server *server)
{
    const double now = seconds_now();
    for (const Client *client = server->clients; client != NULL; client = client->next)
        if (client->deadline < now)
            shutdown(client->fd, SHUT_RDWR);
}

/* Returns a listening socket; sets *port to its own, and *loopback. */
static int listen_on(const Options *options, int *port, bool *loopback)
{
    char service[16];
    snprintf(service, sizeof service, "%d", options->port);
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo *address = NULL;
    const int problem = getaddrinfo(options->bind, service, &hints, &address);
    if (problem != 0)
        usage_error("--bind %s: %s; it is an address of this machine, as 127.0.0.1", options->bind,
                    gai_strerror(problem));

    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    SYS_CHECK(fd);
    SYS_CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)));
    CHECK(bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, MAX_CLIENTS) == 0,
          "cannot listen on %s port %d: %s; choose another with --port or --bind", options->bind,
          options->port, strerror(errno));
    freeaddrinfo(address);

    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    SYS_CHECK(getsockname(fd, (struct sockaddr *)&own, &length));
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&own;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&own;
    const bool is_v6 = own.ss_family == AF_INET6;
    *port = ntohs(is_v6 ? v6->sin6_port : v4->sin_port);
    *loopback =
        is_v6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) : ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return fd;
}

static void serve(Server *server, int listen_fd)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CLIENTS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)MAX_HEADER_BYTES, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    CHECK(daemon != NULL, "libmicrohttpd does not start: %s", strerror(errno));
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd events = { .fd = info->epoll_fd, .events = POLLIN };
    while (!stop) {
        MHD_UNSIGNED_LONG_LONG wait_ms = POLL_MS;
        if (MHD_get_timeout(daemon, &wait_ms) != MHD_YES || wait_ms > POLL_MS)
            wait_ms = POLL_MS;
        poll(&events, 1, (int)wait_ms);
        MHD_run(daemon);
        close_late_clients(server);
    }
    MHD_stop_daemon(daemon);
}

int main(int argc, char **argv)
{
    Args args;
    Options options;
    const char *path;
    tool_parse(&tool, &args, &options, &path, argc, argv);
    args.threads = 1; // for one image a second thread costs more than it saves
    static Server server;
    server.timeout = options.timeout;
    model_file_open(&server.from, path);
    classifier_init(&server.classifier, &args, &server.from, 1, 0);

    int port = 0;
    bool loopback = false;
    const int listen_fd = listen_on(&options, &port, &loopback);
    if (!loopback)
        log_warning("--bind %s: whoever reaches this machine may ask; nothing is encrypted",
                    options.bind);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    const bool v6 = strchr(options.bind, ':') != NULL;
    log_print("Serving %s at http://%s%s%s:%d/ until Ctrl+C", server.from.file.path, v6 ? "[" : "",
              options.bind, v6 ? "]" : "", port);
    serve(&server, listen_fd);

    classifier_free(&server.classifier);
    model_file_close(&server.from);
    return 0;
}
