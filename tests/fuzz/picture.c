/* Uploaded pictures: JSON, PGM and PNG, and the classification of their digit. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/targets.h"
#include "tools/model/picture_request.h"

void fuzz_picture(Input input)
{
    static const char *const types[] = { "application/json; charset=utf-8",
                                         "image/x-portable-graymap", "image/png", "text/plain" };
    const uint8_t kind = input_byte(&input);
    uint8_t pixels[MNIST_PIXELS];
    char error[64];
    const int status =
        picture_request_read(types[kind % 4], input.data, input.size, pixels, error, sizeof error);
    if (status != 200) {
        EXPECT(strlen(error) > 0 && strlen(error) < sizeof error);
        return;
    }
    world_passed();
    unsigned sum = 0;
    for (int i = 0; i < MNIST_PIXELS; i++)
        sum += pixels[i];
    EXPECT(sum > 0);

    ModelFile from = { .num_labels = 2, .label = { "a", "\"b\"" } };
    const float probability[] = { 0.25f, 0.75f };
    free(picture_request_answer(&from, 1, probability, kind & 4 ? pixels : NULL));
}
