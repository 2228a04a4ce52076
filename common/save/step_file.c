/* A resumed run appends to the files of the previous one, from the step at which it resumes. */
#include "common/save/step_file.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

/* The step of a line; 0 if it is not a complete line of ours. */
static uint64_t line_step(const char *line, size_t length)
{
    if (length == 0 || line[length - 1] != '\n')
        return 0; // incomplete: its writer was killed
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_int_t step = json_integer_value(json_object_get(object, "step"));
    json_decref(object);
    return step > 0 ? (uint64_t)step : 0;
}

/* The offset of the first line about a step after last_step: from there on steps will be
 * repeated. */
static off_t end_of_steps(FILE *file, uint64_t last_step)
{
    off_t end = 0;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, file)) > 0) {
        const uint64_t step = line_step(line, (size_t)length);
        if (step == 0 || step > last_step)
            break;
        end += length;
    }
    free(line);
    return end;
}

void step_file_open(StepFile *steps, const char *dir, const char *name, uint64_t last_step)
{
    char path[PATH_MAX];
    CHECK(snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path,
          "the path of --metrics-dir is too long: %s", dir);
    steps->file = fopen(path, "a+e"); // reads from the start, writes at the end
    CHECK(steps->file != NULL, "cannot write %s: %s: name another folder with --metrics-dir", path,
          strerror(errno));
    struct stat status; // reading a pipe or a device may block, or never end
    CHECK(fstat(fileno(steps->file), &status) == 0 && S_ISREG(status.st_mode),
          "%s is no regular file: delete it, or name another folder with --metrics-dir", path);
    setvbuf(steps->file, NULL, _IOLBF, BUFSIZ);
    const off_t end = end_of_steps(steps->file, last_step);
    CHECK(fseeko(steps->file, 0, SEEK_END) == 0 && ftruncate(fileno(steps->file), end) == 0,
          "cannot shorten %s: %s", path, strerror(errno));
}

void step_file_write(StepFile *steps, uint64_t step, const char *format, ...)
{
    if (steps->file == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    const int written = vfprintf(steps->file, format, arguments);
    va_end(arguments);
    if (written >= 0)
        return;
    log_warning("cannot write metrics from step %llu on: %s", (unsigned long long)step,
                strerror(errno));
    fclose(steps->file);
    steps->file = NULL;
}

const char *json_number(double value, char text[JSON_NUMBER_BYTES])
{
    snprintf(text, JSON_NUMBER_BYTES, isfinite(value) ? "%.9g" : "null", value);
    return text;
}

void step_file_close(StepFile *steps)
{
    if (steps->file != NULL && fclose(steps->file) != 0)
        log_warning("cannot write the last metrics: %s", strerror(errno));
    steps->file = NULL;
}
