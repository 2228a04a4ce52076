/*
 * Checkpoints of the linear model, for --resume and --init-from, and folders with an index and two
 * files. The input is a header up to an empty line, then the tensors' bytes; the header's length is
 * put before it here, and its checksum counts as correct (world.h).
 */
#include "common/save/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"

enum { RESUME = 1, FOLDER = 2, MAX_BYTES = 1 << 16 };

/* Writes the file to bytes; returns its size. */
static size_t make_file(Input input, uint8_t *bytes)
{
    const uint8_t *end = memmem(input.data, input.size, "\n\n", 2);
    const uint64_t header = end != NULL ? (size_t)(end - input.data) : input.size;
    const size_t data = end != NULL ? input.size - header - 2 : 0;
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, input.data, header);
    memcpy(bytes + sizeof header + header, input.data + input.size - data, data);
    return sizeof header + header + data;
}

static void write_part(const char *name, const uint8_t *bytes, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", world_folder(), name);
    unlink(path);
    FILE *file = size > 0 ? fopen(path, "wb") : NULL;
    if (file != NULL)
        EXPECT(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* Writes a model in parts: the index, and two files. Removes those whose input is empty. */
static void make_folder(Input input, uint8_t *bytes)
{
    static const char *const names[] = { "model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors" };
    const Input index = input_part(&input);
    write_part("model.safetensors.index.json", index.data, index.size);
    for (int i = 0; i < 2; i++) {
        const Input part = input_part(&input);
        write_part(names[i], bytes, part.size > 0 ? make_file(part, bytes) : 0);
    }
}

void fuzz_checkpoint(Input input)
{
    static uint8_t bytes[MAX_BYTES];
    const uint8_t kind = input_byte(&input);
    if (input.size > MAX_BYTES - sizeof(uint64_t))
        return;
    const bool is_folder = kind & FOLDER;
    if (is_folder)
        make_folder(input, bytes);
    const char *path = is_folder ? world_folder() : world_file(bytes, make_file(input, bytes));

    Args args;
    args_defaults(&args, "linear");
    args.momentum = 0.9;
    args.threads = 1;
    *(kind & RESUME ? &args.resume : &args.init_from) = path;

    Rng rng;
    Device device;
    Model model;
    Optimizer optim;
    Sampler sampler;
    Checkpoint checkpoint;
    const Dataset dataset = { .name = "random", .size = 16, .features = 20, .std = 1 };
    rng_seed(&rng, 0);
    device_init(&device, &args, 0);
    model_init(&model, &args, 1, &rng, &device);
    optim_init(&optim, &args, &model, 1);
    distributed_sampler_init(&sampler, dataset.size, 0, 2, true, false, 0);
    checkpoint_init(&checkpoint, &args, &optim, &sampler, &dataset, 2);
    EXPECT(checkpoint_load(&checkpoint) >= 0);
    sampler_set_epoch(&sampler, sampler.epoch);
    size_t index;
    while (sampler_next(&sampler, &index, 1) > 0)
        EXPECT(index < dataset.size);

    sampler_free(&sampler);
    optim_free(&optim);
    model_free(&model);
    device_free(&device);
}
