/* picture_request.h - the body of a request about one picture, and the answer, as JSON. */
#ifndef TOOLS_MODEL_PICTURE_REQUEST_H
#define TOOLS_MODEL_PICTURE_REQUEST_H

#include "tools/model/mnist_form.h"
#include "tools/model/model_file.h"

/* Reads a picture from a request into MNIST's form: {"pixels": [784 numbers from 0 to 255]}
 * (application/json), PGM (image/x-portable-graymap) or PNG (image/png). type is the Content-Type,
 * or NULL. Returns 200, or the HTTP status of the error and one sentence in error. */
int picture_request_read(const char *type, const uint8_t *body, size_t size,
                         uint8_t pixels[MNIST_PIXELS], char *error, size_t error_bytes);

/* Writes {"label": "7", "labels": [...], "probabilities": [...]}; with `seen`, unless NULL, the
 * pixels given to the model. Free it with free(). */
char *picture_request_answer(const ModelFile *from, int best, const float *probability,
                             const uint8_t *seen);

/* Writes {"status": "ok", "file": "cnn_mnist.safetensors", "epoch": "9", "step": "9380"}: the
 * model, and how far it is trained; null if the file has no such fact. Free it with free(). */
char *picture_request_health(const ModelFile *from);

#endif
