/*
 * checkpoints - how long it takes to save the CNN with adam's state, all of it: copy, checksum,
 * write, fsync of file and folder, rename; and to load it into a model and an optimizer, from the
 * page cache, with its checksum. Medians, in each folder. See checkpoints.py.
 *
 *     build/bench/checkpoints FOLDER...
 */
#include <stdio.h>
#include <unistd.h>

#include "bench/median.h"
#include "bench/results.h"
#include "bench/training.h"
#include "common/base/words.h"
#include "common/save/checkpoint.h"

enum { TIMES = 15 };

static void measure(Checkpoint *checkpoint, const char *folder, int results)
{
    double saving[TIMES], loading[TIMES];
    Safetensors file;
    for (int i = -1; i < TIMES; i++) { // the first time warms up
        const double begin = seconds_now();
        CheckpointCopy copy;
        checkpoint_copy(checkpoint, "bench", checkpoint_next(checkpoint), &copy);
        CHECK(checkpoint_commit(&copy), "%s", copy.file.error);
        const double saved = seconds_now();
        CHECK(checkpoint_resume(checkpoint, &file, copy.file.path), "%s", file.error);
        safetensors_free(&file);
        if (i >= 0) {
            saving[i] = saved - begin;
            loading[i] = seconds_now() - saved;
        }
    }
    unlink(file.path);
    dprintf(results, "{\"case\": \"save to %s\", \"value\": %.4g, \"unit\": \"ms\"}\n", folder,
            1e3 * median(saving, TIMES));
    dprintf(results, "{\"case\": \"load from %s\", \"value\": %.4g, \"unit\": \"ms\"}\n", folder,
            1e3 * median(loading, TIMES));
}

int main(int argc, char **argv)
{
    words_check(argc, argv, argc,
                "Usage: build/bench/checkpoints FOLDER...\n\n"
                "How long it takes to save and load a checkpoint, in each folder.\n");
    CHECK(argc > 1, "which folder? see --help");
    Args args;
    args_defaults(&args, "cnn");
    args.optimizer = OPTIM_ADAM;
    args.threads = 1;
    args.device = DEVICE_CPU;

    Device device;
    device_init(&device, &args, 0);
    Training training;
    training_init(&training, &args, &device, 0, 1, false);

    const int results = results_alone();
    for (int i = 1; i < argc; i++) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s/checkpoints.XXXXXX", argv[i]);
        CHECK(mkdtemp(folder) != NULL, "cannot make a folder in %s", argv[i]);
        args.checkpoint_dir = folder;
        Checkpoint checkpoint;
        checkpoint_init(&checkpoint, &args, &training.optim, &training.sampler, &training.dataset,
                        1);
        measure(&checkpoint, argv[i], results);
        rmdir(folder);
    }

    training_free(&training);
    device_free(&device);
    return 0;
}
