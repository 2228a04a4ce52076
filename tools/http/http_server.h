/*
 * http_server.h - what tools/serve and tools/watch share: a small HTTP server.
 *
 * One thread does it all: libmicrohttpd watches the connections. Each request has a time limit,
 * whether the client sends nothing or too little or does not read the answer; then the connection
 * is closed.
 *
 * A page of another site cannot send requests: its name may be made to lead here (DNS rebinding),
 * but then that name is in the header Host. So on the loopback interface Host must be an address or
 * localhost. Beyond it any client may ask: tools/watch wants its token, tools/serve warns.
 */
#ifndef TOOLS_HTTP_HTTP_SERVER_H
#define TOOLS_HTTP_HTTP_SERVER_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/options.h"

enum { HTTP_MAX_BODY_BYTES = 64 << 10, HTTP_CONTENT_TOO_LARGE = 413, HTTP_MAX_CLIENTS = 64 };

typedef struct {
    int port;
    const char *bind;
    double timeout;
} HttpOptions;

/* The rows of these options, for a tool whose own fields begin with an HttpOptions. */
#define HTTP_OPTION_ROWS(default_port) \
    { "port", \
      "N", \
      default_port, \
      .kind = OPTION_INT, \
      .offset = offsetof(HttpOptions, port), \
      .help = "where to listen; 0: any free one", \
      .high = 65535 }, \
        { "bind", \
          "ADDRESS", \
          "127.0.0.1", \
          .kind = OPTION_STRING, \
          .offset = offsetof(HttpOptions, bind), \
          .help = "on which interface" }, \
    { \
        "request-timeout", "SECONDS", "10", \
            .kind = OPTION_REAL, .offset = offsetof(HttpOptions, timeout), \
            .help = "from a request to the end of its answer", .low = 0.1, .high = 3600 \
    }

/* A request being received. */
typedef struct {
    size_t size; // bytes of the body so far; those beyond HTTP_MAX_BODY_BYTES are not kept
    uint8_t body[HTTP_MAX_BODY_BYTES];
} HttpUpload;

typedef struct HttpServer {
    const HttpOptions *options;
    void *tool; // the argument of the functions below
    /* Answers a complete request. */
    enum MHD_Result (*answer)(void *tool, struct MHD_Connection *connection, const char *url,
                              const char *method, const HttpUpload *upload);
    void (*tick)(void *tool); // called several times a second; may be NULL
    void (*stop)(void *tool); // called at the end: resumes suspended connections; may be NULL
    bool loopback; // whether only this machine can reach it
    int listen_fd;
    char url[300]; // "http://127.0.0.1:8000/"
    struct HttpClient *clients;
} HttpServer;

/* Listens, and sets url and loopback; dies if it cannot. Then serves until SIGTERM or Ctrl+C. */
void http_listen(HttpServer *server);
void http_serve(HttpServer *server);

/* ---- answers ---- */

enum MHD_Result http_respond(struct MHD_Connection *connection, unsigned status, const char *type,
                             const void *text, size_t bytes, enum MHD_ResponseMemoryMode mode);

/* Queues a response with the headers of every answer, and destroys it. */
enum MHD_Result http_queue(struct MHD_Connection *connection, unsigned status, const char *type,
                           struct MHD_Response *response);

/* Sends the text as JSON; frees it when it has been sent. */
enum MHD_Result http_respond_json(struct MHD_Connection *connection, unsigned status, char *text);

/* Sends {"error": why}. */
enum MHD_Result http_refuse(struct MHD_Connection *connection, unsigned status, const char *error);
enum MHD_Result http_refuse_size(struct MHD_Connection *connection);

bool http_is_get(const char *method); // true for GET and HEAD

/* Gives the client that many seconds from now, for endless answers; INFINITY for no limit. */
void http_allow(struct MHD_Connection *connection, double seconds);

#endif
