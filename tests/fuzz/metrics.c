/* A run's metrics, read back when it is resumed. */
#include "common/save/metrics.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"

void fuzz_metrics(Input input)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/rank0.jsonl", world_folder());
    const uint64_t last_step = input_byte(&input);
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(input.data, 1, input.size, file) == input.size);
    EXPECT(fclose(file) == 0);

    FILE *steps = step_file_open(world_folder(), "rank0.jsonl", last_step);
    struct stat status;
    EXPECT(fstat(fileno(steps), &status) == 0 && (size_t)status.st_size <= input.size);
    fclose(steps);
    if (status.st_size > 0)
        world_passed();

    // Only whole lines are kept.
    EXPECT(status.st_size == 0 || input.data[status.st_size - 1] == '\n');
    unlink(path);
}
