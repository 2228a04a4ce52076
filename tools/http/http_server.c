/* The server of tools/serve and tools/watch. */
#include "tools/http/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define FULL_SECONDS 1.0 // limit for a request while others wait for a slot

enum { MAX_HEADER_BYTES = 16 << 10, POLL_MS = 250 };

/* A connection. */
typedef struct HttpClient {
    int fd;
    double deadline; // for the current request, or the next one
    struct HttpClient *next;
} HttpClient;

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
    (void)signal;
    stopped = 1;
}

/* ---- answers ---- */

enum MHD_Result http_queue(struct MHD_Connection *connection, unsigned status, const char *type,
                           struct MHD_Response *response)
{
    CHECK(response != NULL, "out of memory");
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; connect-src 'self'; img-src data:; "
                            "script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                            "frame-ancestors 'none'");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    const enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_respond(struct MHD_Connection *connection, unsigned status, const char *type,
                             const void *text, size_t bytes, enum MHD_ResponseMemoryMode mode)
{
    return http_queue(connection, status, type,
                      MHD_create_response_from_buffer(bytes, (void *)text, mode));
}

enum MHD_Result http_respond_json(struct MHD_Connection *connection, unsigned status, char *text)
{
    return http_respond(connection, status, "application/json", text, strlen(text),
                        MHD_RESPMEM_MUST_FREE);
}

enum MHD_Result http_refuse(struct MHD_Connection *connection, unsigned status, const char *error)
{
    json_t *refusal = json_pack("{s:o}", "error", json_text(error));
    char *text = json_dumps(refusal, JSON_COMPACT);
    CHECK(text != NULL, "out of memory");
    json_decref(refusal);
    return http_respond_json(connection, status, text);
}

enum MHD_Result http_refuse_size(struct MHD_Connection *connection)
{
    return http_refuse(connection, HTTP_CONTENT_TOO_LARGE, "a request must not exceed 64 KiB");
}

bool http_is_get(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* ---- requests ---- */

static HttpClient *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

void http_allow(struct MHD_Connection *connection, double seconds)
{
    HttpClient *client = client_of(connection);
    if (client != NULL)
        client->deadline = seconds_now() + seconds;
}

/* Returns true if the header Host names this machine, as a client on it does. A page of another
 * site has a name there, not an address: a browser looks up no name that is an address. */
static bool is_our_host(const HttpServer *server, const char *host)
{
    char name[256];
    struct in6_addr address;
    const char *begin = host + (host[0] == '['); // [::1]:8000
    const size_t length = strcspn(begin, begin > host ? "]" : ":");
    if (length == 0 || length >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length - (begin[length - 1] == '.'), begin);
    if (begin > host)
        return begin[length] == ']' && inet_pton(AF_INET6, name, &address) == 1;
    return inet_pton(AF_INET, name, &address) == 1 || strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, server->options->bind) == 0;
}

/* Called for each request: after its header, for each part of its body, and at its end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *part,
                                  size_t *part_bytes, void **request)
{
    (void)version;
    const HttpServer *server = context;
    HttpUpload *upload = *request;
    if (upload == NULL) { // an answer now would end the connection
        const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                         MHD_HTTP_HEADER_CONTENT_LENGTH);
        if (length != NULL && strtoull(length, NULL, 10) > HTTP_MAX_BODY_BYTES)
            return http_refuse_size(connection);
        *request = mem_calloc(1, sizeof *upload);
        http_allow(connection, server->options->timeout);
        return MHD_YES;
    }
    if (*part_bytes == 0) {
        const char *host =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
        if (server->loopback && strcmp(url, "/healthz") != 0 &&
            (host == NULL || !is_our_host(server, host)))
            return http_refuse(connection, MHD_HTTP_FORBIDDEN,
                               "the header Host does not name this machine: ask for its address, "
                               "or for localhost");
        return server->answer(server->tool, connection, url, method, upload);
    }
    if (upload->size + *part_bytes <= HTTP_MAX_BODY_BYTES)
        memcpy(upload->body + upload->size, part, *part_bytes);
    upload->size += *part_bytes;
    *part_bytes = 0;
    return MHD_YES;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)code;
    const HttpServer *server = context;
    free(*request);
    http_allow(connection, server->options->timeout);
}

/* Called when a connection begins or ends. */
static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    HttpServer *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        HttpClient *client = mem_calloc(1, sizeof *client);
        *client = (HttpClient){
            .fd =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            .deadline = seconds_now() + server->options->timeout,
            .next = server->clients,
        };
        server->clients = *socket_context = client;
        return;
    }
    for (HttpClient **at = &server->clients; *at != NULL; at = &(*at)->next)
        if (*at == *socket_context) {
            HttpClient *gone = *at;
            *at = gone->next;
            free(gone);
            return;
        }
}

/* Closes connections that libmicrohttpd's own timeout misses: those of clients that send a byte now
 * and then. While no slot is free, closes all that have been idle for a second. */
static void close_late_clients(const HttpServer *server)
{
    const double timeout = server->options->timeout;
    int count = 0;
    for (const HttpClient *client = server->clients; client != NULL; client = client->next)
        count++;
    const bool is_full = count >= HTTP_MAX_CLIENTS && timeout > FULL_SECONDS;
    const double latest = seconds_now() + (is_full ? timeout - FULL_SECONDS : 0);
    for (const HttpClient *client = server->clients; client != NULL; client = client->next)
        if (client->deadline < latest)
            shutdown(client->fd, SHUT_RDWR);
}

void http_listen(HttpServer *server)
{
    const HttpOptions *options = server->options;
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
    CHECK(bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, HTTP_MAX_CLIENTS) == 0,
          "cannot listen on %s port %d: %s; choose another with --port or --bind", options->bind,
          options->port, strerror(errno));
    freeaddrinfo(address);

    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    SYS_CHECK(getsockname(fd, (struct sockaddr *)&own, &length));
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&own;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&own;
    const bool is_v6 = own.ss_family == AF_INET6;
    server->loopback =
        is_v6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) : ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    server->listen_fd = fd;
    snprintf(server->url, sizeof server->url, is_v6 ? "http://[%s]:%d/" : "http://%s:%d/",
             options->bind, ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    if (!server->loopback)
        log_warning("--bind %s: whoever reaches this machine may ask; nothing is encrypted",
                    options->bind);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
}

void http_serve(HttpServer *server)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
        MHD_OPTION_LISTEN_SOCKET, server->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_MAX_CLIENTS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MAX_HEADER_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_END);
    CHECK(daemon != NULL, "libmicrohttpd does not start: %s", strerror(errno));
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd events = { .fd = info->epoll_fd, .events = POLLIN };
    while (!stopped) {
        MHD_UNSIGNED_LONG_LONG wait_ms = POLL_MS;
        if (MHD_get_timeout(daemon, &wait_ms) != MHD_YES || wait_ms > POLL_MS)
            wait_ms = POLL_MS;
        poll(&events, 1, (int)wait_ms);
        MHD_run(daemon);
        close_late_clients(server);
        if (server->tick != NULL)
            server->tick(server->tool);
    }
    if (server->stop != NULL)
        server->stop(server->tool);
    MHD_stop_daemon(daemon);
}
