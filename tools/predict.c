/*
 * predict - which digit is this? Asks a trained model about one picture, and draws the picture and
 * the answer.
 *
 *     tools/predict checkpoints/cnn_digits.safetensors digits:7
 *     tools/predict my_model photo.png
 */
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "tools/model/classifier.h"
#include "tools/model/tool.h"

enum { MAX_FILE_BYTES = 32 << 20, BAR = 20, FIRST_BAR = 2 };

static const Tool tool = {
    .name = "tools/predict",
    .arguments = "MODEL INPUT",
    .about =
        "MODEL: a checkpoint, or a folder of tools/export. INPUT: digits:N or mnist:N, number N\n"
        "of the test images; or a file, PGM or PNG, of any size, dark on light or light on dark,\n"
        "which is brought to the form of MNIST's images.\n",
    .shared = (const char *const[]){ "data-dir", "device", "threads", NULL },
    .own = (const Option[]){ { .name = NULL } },
};

/* The input: a row of a data set, or pixels. */
typedef struct {
    bool is_row;
    Dataset dataset;
    size_t row;
    uint8_t pixels[MNIST_PIXELS]; // set in both cases, for the drawing
} Input;

static uint8_t *read_file(const char *path, size_t *size)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // so that a pipe cannot block us
    CHECK(fd >= 0 && fstat(fd, &status) == 0,
          "cannot read %s: %s: name a PGM or PNG file, or an image of a data set, as digits:7",
          path, strerror(errno));
    CHECK(S_ISREG(status.st_mode), "%s is no regular file", path);
    CHECK(status.st_size <= MAX_FILE_BYTES, "%s is larger than %d MiB", path, MAX_FILE_BYTES >> 20);
    uint8_t *bytes = mem_calloc((size_t)status.st_size + 1, 1);
    ssize_t n = 0;
    for (*size = 0; *size < (size_t)status.st_size &&
                    (n = read(fd, bytes + *size, (size_t)status.st_size - *size)) > 0;)
        *size += (size_t)n;
    CHECK(n >= 0, "cannot read %s: %s", path, strerror(errno));
    close(fd);
    return bytes;
}

static void load_picture(Input *input, const char *path)
{
    size_t size = 0;
    uint8_t *bytes = read_file(path, &size);
    Image image;
    char reason[256];
    CHECK(image_read(&image, bytes, size, reason, sizeof reason), "%s: %s", path, reason);
    CHECK(mnist_form(&image, input->pixels), "%s: shows nothing: all of it has one shade", path);
    image_free(&image);
    free(bytes);
}

/* Loads "digits:7" or "mnist:7"; returns false if the text is neither. */
static bool load_row(Input *input, const char *text, Args *args, const ModelFile *from)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if ((length != 6 || strncmp(text, "digits", 6) != 0) &&
        (length != 5 || strncmp(text, "mnist", 5) != 0))
        return false;

    args->dataset = length == 6 ? DATASET_DIGITS : DATASET_MNIST;
    Rng rng = { 0 };
    dataset_init(&input->dataset, args, TEST, &rng);
    dataset_normalise(&input->dataset, from->mean, from->std);
    const Dataset *dataset = &input->dataset;
    char *end = NULL;
    input->is_row = true;
    input->row = strtoull(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || input->row >= dataset->size)
        usage_error("%.80s: %s has test images 0 to %zu", text, dataset->name, dataset->size - 1);
    for (size_t i = 0; i < MNIST_PIXELS; i++) {
        const size_t at = input->row * MNIST_PIXELS + i;
        const float ink = dataset->bytes != NULL
                              ? dataset->bytes[at]
                              : 255 * (dataset->floats[at] * dataset->std + dataset->mean);
        input->pixels[i] = (uint8_t)lroundf(fminf(fmaxf(ink, 0), 255));
    }
    return true;
}

/* Draws two rows of pixels as one line: blocks in two colours, or the mean as a character. */
static void draw_pixels(FILE *line, const uint8_t *upper, bool blocks)
{
    static const char shades[] = " .:-=+*#%@";
    const uint8_t *lower = upper + MNIST_SIDE;
    for (int x = 0; x < MNIST_SIDE; x++) {
        if (blocks) // colours 232 to 255 of the terminal are grey
            fprintf(line, "\033[38;5;%d;48;5;%dm▀", 232 + upper[x] * 23 / 255,
                    232 + lower[x] * 23 / 255);
        else
            fputc(shades[(upper[x] + lower[x]) * 9 / 510], line);
    }
    fprintf(line, "%s", blocks ? "\033[0m" : "");
}

static void draw_bar(FILE *line, const char *label, bool best, double probability, bool blocks)
{
    fprintf(line, "  %s%s %5.1f%% ", best ? ">" : " ", label, 100 * probability);
    for (int i = 0; i < (int)lround(BAR * probability); i++)
        fprintf(line, "%s", blocks ? "█" : "#");
}

/* Returns true if it can show colours and blocks. False if $NO_COLOR is set (no-color.org). */
static bool is_rich_terminal(void)
{
    setlocale(LC_CTYPE, "");
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0 &&
           (no_color == NULL || no_color[0] == '\0') && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static void draw(const Input *input, const ModelFile *from, const float *probability, int best)
{
    const bool blocks = is_rich_terminal();
    for (int row = 0; row < MNIST_SIDE / 2; row++) {
        char *text = NULL;
        size_t length = 0;
        FILE *line = open_memstream(&text, &length);
        CHECK(line != NULL, "out of memory");
        draw_pixels(line, input->pixels + 2 * row * MNIST_SIDE, blocks);
        const int class = row - FIRST_BAR;
        if (class >= 0 && class < from->num_labels)
            draw_bar(line, from->label[class], class == best, (double)probability[class], blocks);
        CHECK(fclose(line) == 0, "out of memory");
        while (length > 0 && text[length - 1] == ' ')
            length--;
        printf("%.*s\n", (int)length, text);
        free(text);
    }
    printf("\nIt is %s, with a probability of %.2f%%", from->label[best],
           100 * (double)probability[best]);
    if (input->is_row)
        printf("; the label says %s", from->label[input->dataset.labels[input->row]]);
    printf("\n");
}

int main(int argc, char **argv)
{
    Args args;
    const char *argument[2];
    tool_parse(&tool, &args, NULL, argument, argc, argv);
    ModelFile from;
    model_file_open(&from, argument[0]);
    Input input = { 0 };
    if (!load_row(&input, argument[1], &args, &from))
        load_picture(&input, argument[1]);
    Classifier classifier;
    classifier_init(&classifier, &args, &from, 1, 0);

    float probability[MODEL_FILE_MAX_LABELS];
    const int best =
        input.is_row ? classifier_predict_row(&classifier, &input.dataset, input.row, probability)
                     : classifier_predict(&classifier, input.pixels, probability);
    draw(&input, &from, probability, best);

    classifier_free(&classifier);
    dataset_free(&input.dataset);
    model_file_close(&from);
    streams_exit();
}
