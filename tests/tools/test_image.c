/*
 * Pictures: valid and invalid PGM, and MNIST's form, which MNIST itself confirms: its images,
 * enlarged, moved and inverted, are restored unchanged.
 */
#include "tests/helpers/child.h"

#include <math.h>

#include "common/data/dataset.h"
#include "tools/model/mnist_form.h"

#define READ(image, text) \
    image_read(image, (const uint8_t *)(text), sizeof(text) - 1, error, sizeof error)

static char error[128];

static void test_pgm(void **state)
{
    (void)state;
    static const uint8_t wanted[] = { 0, 51, 102, 153, 204, 255 };
    Image image;
    assert_true(READ(&image, "P2 # three wide\n3 2\n# the largest\n5\n0 1 2\n3 4 5\n"));
    assert_int_equal(image.width, 3);
    assert_int_equal(image.height, 2);
    assert_memory_equal(image.pixels, wanted, 6);
    image_free(&image);
    assert_true(READ(&image, "P5 3 2 5\n\0\1\2\3\4\5"));
    assert_memory_equal(image.pixels, wanted, 6);
    image_free(&image);
    assert_true(READ(&image, "P5\n2 1\n65535\n\x80\x00\xff\xff")); // two bytes, the higher first
    assert_int_equal(image.pixels[0], 128);
    assert_int_equal(image.pixels[1], 255);
    image_free(&image);
    assert_true(READ(&image, "P5 2 1 256\n\0\x80\1\0")); // no longer fits into one byte
    assert_int_equal(image.pixels[0], 128);
    assert_int_equal(image.pixels[1], 255);
    image_free(&image);
}

static void test_damaged(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {
        { "", "neither" },
        { "GIF89a", "neither" },
        { "P6 1 1 255\n123", "neither" },
        { "P5", "header" },
        { "P5 3", "header" },
        { "P5 0 2 255\n", "header" },
        { "P5 2 0 255\n", "header" },
        { "P5 -1 2 255\n", "header" },
        { "P5 4097 1 255\n", "exceed" },
        { "P5 99999999999999999999 1 255\n", "header" },
        { "P5 1 1 65536\n1", "header" },
        { "P5 4096 4096 255\nshort", "of 4096 x 4096 pixels 0 are there" },
        { "P5 3 2 255\n12345", "cut off" },
        { "P5 2 1 65535\n123", "of 2 x 1 pixels 1 are there" },
        { "P2 2 1 9\n1 10\n", "damaged" }, // above its own maximum
        { "P5 2 1 9\n\1\12", "of 2 x 1 pixels 1 are there" }, // and so is this
        { "P2 2 1 9\n1 x\n", "damaged" },
        { "\x89PNG", "PNG" },
        { "\x89PNG\r\n\x1a\nmuch of nothing", "PNG" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        Image image;
        const size_t size = strlen(cases[i].text);
        if (image_read(&image, (const uint8_t *)cases[i].text, size, error, sizeof error))
            fail_msg("took \"%s\"", cases[i].text);
        if (strstr(error, cases[i].word) == NULL)
            fail_msg("\"%s\": did not say \"%s\" but \"%s\"", cases[i].text, cases[i].word, error);
    }
}

/* Returns a sheet of paper with an enlarged image on it. */
static Image sheet(const uint8_t *digit, int side, int times, int left, int top, bool dark_on_light)
{
    Image image = { side, side, malloc((size_t)side * side) };
    memset(image.pixels, dark_on_light ? 255 : 0, (size_t)side * side);
    for (int y = 0; y < MNIST_SIDE * times; y++)
        for (int x = 0; x < MNIST_SIDE * times; x++) {
            const uint8_t ink = digit[y / times * MNIST_SIDE + x / times];
            image.pixels[(top + y) * side + left + x] = dark_on_light ? 255 - ink : ink;
        }
    return image;
}

/* Draws a hook of ink, 10 wide and 20 high. */
static void draw_hook(uint8_t digit[MNIST_PIXELS])
{
    memset(digit, 0, MNIST_PIXELS);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 3; j++) {
            digit[(4 + i) * MNIST_SIDE + 8 + j] = 255;
            digit[(21 + j) * MNIST_SIDE + 8 + i / 2] = 255;
        }
}

static double centre_of_mass(const uint8_t *pixels, bool vertical)
{
    double mass = 0, moment = 0;
    for (int i = 0; i < MNIST_PIXELS; i++) {
        mass += pixels[i];
        moment += pixels[i] * ((vertical ? i / MNIST_SIDE : i % MNIST_SIDE));
    }
    return moment / mass;
}

static void test_size_place_and_polarity(void **state)
{
    (void)state;
    uint8_t hook[MNIST_PIXELS], first[MNIST_PIXELS], other[MNIST_PIXELS];
    draw_hook(hook);
    for (int i = 0; i < 12; i++) {
        const int times = 1 + i / 2;
        Image image = sheet(hook, 200, times, 3 * i, 31 - i, i % 2 == 0);
        assert_true(mnist_form(&image, other));
        image_free(&image);
        if (i == 0)
            memcpy(first, other, sizeof first);
        assert_memory_equal(first, other, sizeof first);
    }

    // The box is still 20 high, so it has only been shifted by whole pixels.
    int rows = 0, ink = 0;
    for (int i = 0; i < MNIST_PIXELS; i++)
        ink += first[i] == 255;
    for (int y = 0; y < MNIST_SIDE; y++)
        rows += memcmp(first + y * MNIST_SIDE, (uint8_t[MNIST_SIDE]){ 0 }, MNIST_SIDE) != 0;
    assert_int_equal(rows, 20);
    assert_int_equal(ink, 3 * 20 + 3 * 10 - 3 * 3);
    assert_true(fabs(centre_of_mass(first, false) - 14) <= 0.5);
    assert_true(fabs(centre_of_mass(first, true) - 14) <= 0.5);
}

static void test_as_it_is(void **state)
{
    (void)state;
    uint8_t hook[MNIST_PIXELS], other[MNIST_PIXELS];
    draw_hook(hook); // not in the middle
    assert_true(mnist_form(&(Image){ MNIST_SIDE, MNIST_SIDE, hook }, other));
    assert_memory_equal(hook, other, sizeof hook);

    // Dark on light it is not in MNIST's form, whatever its size.
    uint8_t inverted[MNIST_PIXELS], moved[MNIST_PIXELS];
    for (int i = 0; i < MNIST_PIXELS; i++)
        inverted[i] = 255 - hook[i];
    assert_true(mnist_form(&(Image){ MNIST_SIDE, MNIST_SIDE, inverted }, other));
    Image image = sheet(hook, 100, 1, 9, 9, false);
    assert_true(mnist_form(&image, moved));
    image_free(&image);
    assert_memory_equal(other, moved, sizeof other);
}

/* Neither paper of many shades nor a stroke that leaves the picture changes the result. */
static void test_paper_and_edge(void **state)
{
    (void)state;
    uint8_t hook[MNIST_PIXELS], clean[MNIST_PIXELS], other[MNIST_PIXELS];
    draw_hook(hook);
    Image image = sheet(hook, 60, 1, 20, 20, false);
    assert_true(mnist_form(&image, clean));
    for (int i = 0; i < 60 * 60; i++)
        if (image.pixels[i] == 0)
            image.pixels[i] = (uint8_t)(i % 31); // less than an eighth of the ink
    assert_true(mnist_form(&image, other));
    image_free(&image);
    assert_memory_equal(clean, other, sizeof clean);

    uint8_t cut[24 * 20]; // the hook runs along the left edge and the lower one
    for (int i = 0; i < 24 * 20; i++)
        cut[i] = hook[i / 20 * MNIST_SIDE + 8 + i % 20];
    assert_true(mnist_form(&(Image){ 20, 24, cut }, other));
    assert_memory_equal(clean, other, sizeof clean);
}

/* A bar at the left and a dot at the far right, 20 wide: the centre of mass belongs in the
 * middle, but no part of the digit may be lost. */
static void test_lopsided(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint8_t digit[60 * 60] = { 0 }, pixels[MNIST_PIXELS];
        for (int j = 0; j < 20; j++)
            for (int k = 0; k < 3; k++) {
                const int along = 10 + j, across = i % 2 == 0 ? 10 + k : 29 - k;
                digit[i < 2 ? along * 60 + across : across * 60 + along] = 255;
            }
        const int dot = i % 2 == 0 ? 29 : 10;
        digit[i < 2 ? 20 * 60 + dot : dot * 60 + 20] = 255;
        assert_true(mnist_form(&(Image){ 60, 60, digit }, pixels));
        int ink = 0, at_edge = 0; // a bar at the left is as far to the right as 20 of 28 can be
        for (int j = 0; j < MNIST_PIXELS; j++)
            ink += pixels[j] == 255;
        for (int j = 0, edge = i % 2 == 0 ? 27 : 0; j < MNIST_SIDE; j++)
            at_edge += pixels[i < 2 ? j * MNIST_SIDE + edge : edge * MNIST_SIDE + j] == 255;
        assert_int_equal(ink, 3 * 20 + 1);
        assert_int_equal(at_edge, 1);
    }
}

static void test_small_and_empty(void **state)
{
    (void)state;
    uint8_t pixels[MNIST_PIXELS], one = 77, two[] = { 0, 255 }, wide[3 * 4096] = { 0 };
    assert_false(mnist_form(&(Image){ 1, 1, &one }, pixels));
    assert_false(mnist_form(&(Image){ 4096, 3, wide }, pixels));
    assert_true(mnist_form(&(Image){ 2, 1, two }, pixels));
    assert_int_equal(pixels[14 * MNIST_SIDE + 14], 255); // a dot fills the box
    memset(wide + 4096 + 10, 255, 4000); // a line of 4000 x 1 becomes one of 20 x 1
    assert_true(mnist_form(&(Image){ 4096, 3, wide }, pixels));
    int ink = 0;
    for (int i = 0; i < MNIST_PIXELS; i++)
        ink += pixels[i] == 255;
    assert_int_equal(ink, 20);
    ink = 0; // and one of 1 x 4000 one of 1 x 20
    memset(wide, 0, sizeof wide);
    for (int y = 10; y < 4010; y++)
        wide[3 * y + 1] = 255;
    assert_true(mnist_form(&(Image){ 3, 4096, wide }, pixels));
    for (int i = 0; i < MNIST_PIXELS; i++)
        ink += pixels[i] == 255;
    assert_int_equal(ink, 20);
    assert_true(mnist_form(&(Image){ 1, 4096, wide }, pixels)); // all of it is edge
    memset(wide, 0, sizeof wide);
    for (int i = 10; i < 90; i++) // thin strokes grow faint when they shrink, and are made strong
        wide[i * 102] = 200;
    assert_true(mnist_form(&(Image){ 101, 100, wide }, pixels));
    ink = 0;
    for (int i = 0; i < MNIST_PIXELS; i++)
        ink += pixels[i] == 255;
    assert_in_range(ink, 1, 20);
    for (int i = 0; i < 3 * 4096; i++)
        wide[i] = 200 + i % 20; // paper is never all of one shade
    assert_false(mnist_form(&(Image){ 4096, 3, wide }, pixels));
}

static void test_mnist_comes_back(void **state)
{
    (void)state;
    const char *dir = access("data/mnist/t10k-images-idx3-ubyte.gz", F_OK) == 0
                          ? "data/mnist"
                          : "../shared/data/mnist";
    char path[128];
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte.gz", dir);
    if (access(path, F_OK) < 0) {
        print_message("# skipped: no MNIST here, run data/get_mnist.sh\n");
        return;
    }
    size_t shape[3];
    uint8_t *images = idx_read(dir, "t10k-images-idx3-ubyte", 3, shape);
    enum { IMAGES = 1000 };
    int same = 0;
    double worst_mean = 0;
    for (int i = 0; i < IMAGES; i++) {
        const uint8_t *digit = images + i * MNIST_PIXELS;
        uint8_t back[MNIST_PIXELS];
        Image image = sheet(digit, 100, 3, 12, 5, true);
        assert_true(mnist_form(&image, back));
        image_free(&image);
        double off = 0, ink = 0;
        for (int j = 0; j < MNIST_PIXELS; j++) {
            off += abs(digit[j] - back[j]);
            ink += digit[j];
        }
        same += off / ink < 0.05;
        worst_mean += off / ink / IMAGES;
    }
    free(images);
    print_message("# %d of %d come back, off by %.3f of their ink on average\n", same, IMAGES,
                  worst_mean);
    assert_in_range(same, IMAGES * 9 / 10, IMAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pgm),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_size_place_and_polarity),
        cmocka_unit_test(test_as_it_is),
        cmocka_unit_test(test_paper_and_edge),
        cmocka_unit_test(test_lopsided),
        cmocka_unit_test(test_small_and_empty),
        cmocka_unit_test(test_mnist_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
