/*
 * serve - a trained model behind HTTP, and a page on which to draw a digit and see the answer.
 *
 *     tools/serve checkpoints/cnn_digits.safetensors      # then open http://127.0.0.1:8000/
 *     curl --data-binary @seven.png -H 'Content-Type: image/png' http://127.0.0.1:8000/predict
 *
 * An answer takes too little time to be worth a second thread (tools/http).
 */
#include <string.h>

#include "common/base/log.h"
#include "tools/http/http_server.h"
#include "tools/model/classifier.h"
#include "tools/model/picture_request.h"
#include "tools/model/tool.h"

static const Tool tool = {
    .name = "tools/serve",
    .arguments = "MODEL",
    .about =
        "MODEL: a checkpoint, or a folder of tools/export. GET / is a page to draw on; POST\n"
        "/predict takes {\"pixels\": [784 numbers from 0 to 255]}, PNG or PGM, and answers with\n"
        "JSON; GET /healthz answers {\"status\":\"ok\"}. Ends on SIGTERM or Ctrl+C.\n",
    .shared = (const char *const[]){ "device", NULL },
    .own = (const Option[]){ HTTP_OPTION_ROWS("8000"), { .name = NULL } },
};

// The path is relative to the top of the repository, where make runs the compiler.
__asm__(".pushsection .rodata\n"
        ".global serve_html, serve_html_end\n"
        "serve_html: .incbin \"tools/serve.html\"\n"
        "serve_html_end:\n"
        ".popsection\n");
extern const char serve_html[], serve_html_end[];

typedef struct {
    ModelFile from;
    Classifier classifier;
} Server;

/* Answers a complete request to /predict. */
static enum MHD_Result predict(Server *server, struct MHD_Connection *connection,
                               const HttpUpload *upload)
{
    if (upload->size > HTTP_MAX_BODY_BYTES)
        return http_refuse_size(connection);
    const char *type =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    uint8_t pixels[MNIST_PIXELS];
    char error[256];
    const int status =
        picture_request_read(type, upload->body, upload->size, pixels, error, sizeof error);
    if (status != MHD_HTTP_OK)
        return http_refuse(connection, (unsigned)status, error);

    float probability[MODEL_FILE_MAX_LABELS];
    const int best = classifier_predict(&server->classifier, pixels, probability);
    const bool seen =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "seen") != NULL;
    return http_respond_json(
        connection, MHD_HTTP_OK,
        picture_request_answer(&server->from, best, probability, seen ? pixels : NULL));
}

/* Answers a complete request. */
static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const HttpUpload *upload)
{
    Server *server = context;
    const bool get = http_is_get(method);
    if (strcmp(url, "/predict") == 0 && strcmp(method, "POST") == 0)
        return predict(server, connection, upload);
    if (strcmp(url, "/") == 0 && get)
        return http_respond(connection, MHD_HTTP_OK, "text/html; charset=utf-8", serve_html,
                            (size_t)(serve_html_end - serve_html), MHD_RESPMEM_PERSISTENT);
    if (strcmp(url, "/healthz") == 0 && get)
        return http_respond_json(connection, MHD_HTTP_OK, picture_request_health(&server->from));
    if (strcmp(url, "/") == 0 || strcmp(url, "/healthz") == 0 || strcmp(url, "/predict") == 0)
        return http_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                           "GET / and /healthz, POST /predict: no other method");
    return http_refuse(connection, MHD_HTTP_NOT_FOUND, "there is only /, /healthz and /predict");
}

int main(int argc, char **argv)
{
    Args args;
    HttpOptions options;
    const char *path;
    tool_parse(&tool, &args, &options, &path, argc, argv);
    args.threads = 1; // for one image a second thread costs more than it saves
    static Server server;
    model_file_open(&server.from, path);
    classifier_init(&server.classifier, &args, &server.from, 1, 0);

    HttpServer http = { .options = &options, .tool = &server, .answer = answer };
    http_listen(&http);
    log_print("Serving %s at %s until Ctrl+C", server.from.file.path, http.url);
    http_serve(&http);

    classifier_free(&server.classifier);
    model_file_close(&server.from);
    return 0;
}
