/* The metrics of a run, read back when it goes on. */
#include "common/io/metrics.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"

void fuzz_metrics(Input input)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/rank0.jsonl", world_folder());
    const Model model = { .step = input_byte(&input) };
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(input.data, 1, input.size, file) == input.size);
    EXPECT(fclose(file) == 0);

    Metrics metrics;
    metrics_init(&metrics, &(Args){ .metrics_dir = world_folder() }, &model, 0, 1);
    struct stat status;
    EXPECT(fstat(fileno(metrics.file), &status) == 0 && (size_t)status.st_size <= input.size);
    metrics_free(&metrics);

    // What is kept are whole lines.
    EXPECT(status.st_size == 0 || input.data[status.st_size - 1] == '\n');
    unlink(path);
}
