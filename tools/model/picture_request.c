/* Reads the bodies of requests; separate from HTTP, so that it can be tested without a server. */
#include "tools/model/picture_request.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/log.h"

enum { OK = 200, BAD_REQUEST = 400, UNSUPPORTED_MEDIA_TYPE = 415, UNPROCESSABLE = 422 };

/* Returns true if this is the type. Parameters ("; charset=utf-8") may follow it. */
static bool is_type(const char *type, const char *name)
{
    const size_t length = strlen(name);
    return strncasecmp(type, name, length) == 0 && strchr("; \t", type[length]) != NULL;
}

/* Returns false, leaving pixels unchanged, if the list is not valid. */
static bool copy_pixels(const json_t *list, uint8_t *pixels)
{
    if (json_array_size(list) != MNIST_PIXELS)
        return false;
    uint8_t taken[MNIST_PIXELS];
    for (size_t i = 0; i < MNIST_PIXELS; i++) {
        const json_t *number = json_array_get(list, i);
        const double value = json_number_value(number);
        if (!json_is_number(number) || !(value >= 0 && value <= 255))
            return false;
        taken[i] = (uint8_t)lround(value);
    }
    memcpy(pixels, taken, MNIST_PIXELS);
    return true;
}

static bool read_json(Image *image, const uint8_t *body, size_t size, char *error,
                      size_t error_bytes)
{
    json_error_t problem;
    json_t *request = json_loadb((const char *)body, size, JSON_REJECT_DUPLICATES, &problem);
    if (request == NULL) {
        snprintf(error, error_bytes, "it is not JSON: %s", problem.text);
        return false;
    }
    *image = (Image){ MNIST_SIDE, MNIST_SIDE, malloc(MNIST_PIXELS) };
    CHECK(image->pixels != NULL, "out of memory");
    const bool valid = copy_pixels(json_object_get(request, "pixels"), image->pixels);
    json_decref(request);
    if (!valid) {
        snprintf(error, error_bytes, "\"pixels\" must be a list of %d numbers from 0 to 255",
                 MNIST_PIXELS);
        image_free(image);
    }
    return valid;
}

int picture_request_read(const char *type, const uint8_t *body, size_t size,
                         uint8_t pixels[MNIST_PIXELS], char *error, size_t error_bytes)
{
    const bool json = type != NULL && is_type(type, "application/json");
    if (type == NULL ||
        !(json || is_type(type, "image/png") || is_type(type, "image/x-portable-graymap"))) {
        snprintf(error, error_bytes,
                 "the type must be application/json, image/png or image/x-portable-graymap");
        return UNSUPPORTED_MEDIA_TYPE;
    }
    Image image;
    if (!(json ? read_json(&image, body, size, error, error_bytes)
               : image_read(&image, body, size, error, error_bytes)))
        return BAD_REQUEST;
    const bool shows = mnist_form(&image, pixels);
    image_free(&image);
    if (!shows) {
        snprintf(error, error_bytes, "the picture shows nothing: all of it has one shade");
        return UNPROCESSABLE;
    }
    return OK;
}

static char *to_text(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(6));
    CHECK(text != NULL, "out of memory");
    json_decref(value);
    return text;
}

char *picture_request_answer(const ModelFile *from, int best, const float *probability,
                             const uint8_t *seen)
{
    json_t *labels = json_array(), *probabilities = json_array();
    for (int i = 0; i < from->num_labels; i++) {
        json_array_append_new(labels, json_string(from->label[i]));
        json_array_append_new(probabilities, json_real((double)probability[i]));
    }
    json_t *answer = json_pack("{s:s, s:o, s:o}", "label", from->label[best], "labels", labels,
                               "probabilities", probabilities);
    if (seen != NULL) {
        json_t *pixels = json_array();
        for (int i = 0; i < MNIST_PIXELS; i++)
            json_array_append_new(pixels, json_integer(seen[i]));
        json_object_set_new(answer, "seen", pixels);
    }
    return to_text(answer);
}

char *picture_request_health(const ModelFile *from)
{
    const char *slash = strrchr(from->file.path, '/');
    return to_text(json_pack("{s:s, s:s, s:s?, s:s?}", "status", "ok", "file",
                             slash != NULL ? slash + 1 : from->file.path, "epoch",
                             safetensors_metadata(&from->file, "epoch"), "step",
                             safetensors_metadata(&from->file, "step")));
}
