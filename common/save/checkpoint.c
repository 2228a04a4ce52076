/* Nothing in the file depends on time, machine or folder: the same run writes the same bytes.
 *
 * Before any of a file is used to resume, it is checked: it must be complete, ours, and of the same
 * model and optimizer. A check returns one line about what is wrong, which may end a program that
 * has to use this file, but not one that has others to try. */
#include "common/save/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/comfort.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "common/save/metrics.h"

#define MAX_COUNT (1ull << 53) // every count up to here is exact in a double too
#define OPTIMIZER "optimizer." // prefix of its tensors' names
#define METADATA_CHECKSUM "metadata_checksum"
#define reject(...) file_reject(file, __VA_ARGS__)

enum { NAME_BYTES = 128, WEIGHTS = -1 };

void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size)
{
    *checkpoint = (Checkpoint){ args, optim, sampler, dataset, world_size, .done = false };
    if (log_prints_for_job())
        folder_check(args->checkpoint_dir, "--checkpoint-dir");
    comfort_announce(args, world_size, optim->model->device->name);
}

/* Adds the settings; the first are those that identify a run. */
static void add_settings(Safetensors *file, const Checkpoint *checkpoint)
{
    char key[NAME_BYTES], value[ARGS_VALUE_BYTES];
    const Args *args = checkpoint->args;
    const Optimizer *optim = checkpoint->optim;
    const long long world_size = checkpoint->world_size;
    safetensors_add_metadata(file, "model", "%s", optim->model->name);
    safetensors_add_metadata(file, "dataset", "%s", checkpoint->dataset->name);
    safetensors_add_metadata(file, "num_samples", "%zu", checkpoint->dataset->size);
    safetensors_add_metadata(file, "seed", "%llu", (unsigned long long)args->seed);
    safetensors_add_metadata(file, "optimizer", "%s", optim->name);
    safetensors_add_metadata(file, "global_batch_size", "%lld",
                             world_size * args_batch_size(args, (int)world_size));
    if (args->lr_schedule == LR_COSINE) // it ends with them
        safetensors_add_metadata(file, "epochs", "%d", args->epochs);
    for (const Option *option = args_options; option->name != NULL; option++) {
        snprintf(key, sizeof key, "%s", option->name);
        for (char *dash; (dash = strchr(key, '-')) != NULL;)
            *dash = '_';
        if (option->scope == OF_RUN)
            safetensors_add_metadata(file, key, "%s", args_value(args, option, value));
    }
}

int checkpoint_difference(const Checkpoint *checkpoint, Safetensors *file, int i)
{
    Safetensors run;
    safetensors_create(&run, "");
    add_settings(&run, checkpoint);
    const char *key;
    for (; (key = safetensors_metadata_key(&run, i)) != NULL; i++) {
        const char *theirs = safetensors_metadata(file, key),
                   *ours = safetensors_metadata(&run, key);
        if (theirs == NULL ? i < NUM_IDENTITY_SETTINGS : strcmp(theirs, ours) != 0) {
            reject("was saved with %s %.80s, this run has %.64s", key,
                   theirs != NULL ? theirs : "(none)", ours);
            break;
        }
    }
    safetensors_free(&run);
    return key != NULL ? i : NO_SETTING;
}

/* Adds what was run, where it stands, and what inference needs. */
static void add_metadata(Safetensors *file, const Checkpoint *checkpoint, Position next)
{
    const Dataset *dataset = checkpoint->dataset;
    const bool digits = dataset->num_classes > 0; // the labels are in the order of the outputs
    char scale[LOSS_SCALE_TEXT_BYTES];
    safetensors_add_metadata(file, "format", "pt"); // as in PyTorch's own files
    safetensors_add_metadata(file, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION);
    add_settings(file, checkpoint);
    safetensors_add_metadata(file, "world_size", "%d", checkpoint->world_size);
    safetensors_add_metadata(file, "input_shape", digits ? "1,28,28" : "20");
    safetensors_add_metadata(file, "class_labels", digits ? "0,1,2,3,4,5,6,7,8,9" : "");
    safetensors_add_metadata(file, "mean", "%.7g", (double)dataset->mean);
    safetensors_add_metadata(file, "std", "%.7g", (double)dataset->std);
    safetensors_add_metadata(file, "epoch", "%d", next.epoch);
    safetensors_add_metadata(file, "position", "%zu", next.samples);
    safetensors_add_metadata(file, "step", "%llu", (unsigned long long)next.step);
    if (loss_scale_save(checkpoint->optim->model->device, scale))
        safetensors_add_metadata(file, "loss_scale", "%s", scale);
}

void checkpoint_add_checksums(Safetensors *file)
{
    safetensors_add_metadata(file, "tensors_checksum", "%08x", safetensors_checksum(file, false));
    safetensors_add_metadata(file, METADATA_CHECKSUM, "%08x",
                             safetensors_metadata_checksum(file, METADATA_CHECKSUM));
}

/* Returns the name of parameter i's weights, or of its state s: "optimizer.fc1.weight.exp_avg". */
static const char *tensor_name(const Optimizer *optim, int i, int s, char name[NAME_BYTES])
{
    const char *parameter = optim->model->parameter[i].name;
    if (s == WEIGHTS)
        return parameter;
    snprintf(name, NAME_BYTES, OPTIMIZER "%s.%s", parameter, optim->state_name[s]);
    return name;
}

/* Copies the weights, then the states of each, in PyTorch's layout. */
static void add_tensors(CheckpointCopy *copy, const Optimizer *optim)
{
    // Allocates one piece, since up to 32 MiB malloc reuses what was freed after the copy before.
    // New pages would have to be fetched one by one.
    const Model *model = optim->model;
    const int num_weights = model->num_parameters, num_states = optim->num_states;
    float *values = mem_alloc((size_t)(1 + num_states) * model->numel, sizeof *values);
    copy->state = values;
    copy->num_weights = model->numel;
    safetensors_add(&copy->file, CHECKPOINT_STEP, INT64, 0, NULL, &copy->step);
    for (int n = 0; n < num_weights * (1 + num_states); n++) {
        const int i = n < num_weights ? n : (n - num_weights) / num_states;
        const int s = n < num_weights ? WEIGHTS : (n - num_weights) % num_states;
        const Tensor *parameter = &model->parameter[i];
        char name[NAME_BYTES];
        model_export(model, i, s == WEIGHTS ? model->params : optim->state[s], values);
        safetensors_add(&copy->file, tensor_name(optim, i, s, name), FLOAT32, parameter->ndim,
                        parameter->shape, values);
        values += parameter->numel;
    }
}

Position checkpoint_next(const Checkpoint *checkpoint)
{
    const Sampler *sampler = checkpoint->sampler;
    const bool ended = sampler->position >= sampler->size; // the loader may not have ended yet
    return (Position){ sampler->epoch + ended,
                       ended ? 0 : sampler->position * (size_t)sampler->world_size,
                       checkpoint->optim->model->step };
}

static void path_of(const Checkpoint *checkpoint, const char *name, char path[PATH_MAX])
{
    const char *dir = checkpoint->args->checkpoint_dir;
    CHECK(snprintf(path, PATH_MAX, "%s/%s.safetensors", dir, name) < PATH_MAX,
          "the path of --checkpoint-dir is too long: %s", dir);
}

void checkpoint_copy(const Checkpoint *checkpoint, const char *name, Position position,
                     CheckpointCopy *copy)
{
    char path[PATH_MAX];
    path_of(checkpoint, name, path);
    watch_save(position.step, path);
    copy->kind = "checkpoint";
    copy->epoch = position.epoch - (position.samples == 0 && position.epoch > 0);
    copy->step = position.step;
    safetensors_create(&copy->file, path);
    add_metadata(&copy->file, checkpoint, position);
    add_tensors(copy, checkpoint->optim);
}

/* Has no early exit, so that the compiler can vectorize it. */
static bool are_finite(const float *values, size_t numel)
{
    int count = 0;
    for (size_t i = 0; i < numel; i++)
        count += isfinite(values[i]) == 0;
    return count == 0;
}

bool checkpoint_commit(CheckpointCopy *copy)
{
    Safetensors *file = &copy->file;
    const bool is_finite = are_finite(copy->state, copy->num_weights);
    checkpoint_add_checksums(file);
    const bool ok = !is_finite || safetensors_commit(file);
    if (!is_finite)
        log_warning("%s is not written: weights are nan or infinite", file->path);
    else if (ok)
        log_print("Epoch %d | Training %s saved at %s", copy->epoch, copy->kind, file->path);
    safetensors_free(file);
    free(copy->state);
    return ok;
}

static void write_now(const Checkpoint *checkpoint, const char *name)
{
    CheckpointCopy copy;
    folder_create(checkpoint->args->checkpoint_dir, "--checkpoint-dir");
    checkpoint_copy(checkpoint, name, checkpoint_next(checkpoint), &copy);
    CHECK(checkpoint_commit(&copy), "%s: make room, or name another folder with --checkpoint-dir",
          copy.file.error);
}

bool checkpoint_epoch_name(const Checkpoint *checkpoint, char name[CHECKPOINT_NAME_BYTES])
{
    const Position next = checkpoint_next(checkpoint);
    snprintf(name, CHECKPOINT_NAME_BYTES, "epoch_%d", next.epoch);
    return next.samples == 0;
}

void checkpoint_save(const Checkpoint *checkpoint)
{
    char name[CHECKPOINT_NAME_BYTES];
    if (checkpoint_epoch_name(checkpoint, name))
        write_now(checkpoint, name);
}

/* Returns whether there is a result of this run that is no older than where it stands. */
static bool has_result(const Checkpoint *checkpoint, const char *name)
{
    char path[PATH_MAX];
    Safetensors file;
    Position position;
    path_of(checkpoint, name, path);
    const bool ok = checkpoint_verify(checkpoint, &file, path, &position) &&
                    checkpoint_difference(checkpoint, &file, 0) >= NUM_IDENTITY_SETTINGS &&
                    position.step >= checkpoint->optim->model->step;
    safetensors_free(&file);
    return ok;
}

bool checkpoint_final_name(const Checkpoint *checkpoint, char name[CHECKPOINT_NAME_BYTES])
{
    if (checkpoint->args->epochs == 0)
        return checkpoint_epoch_name(checkpoint, name);
    snprintf(name, CHECKPOINT_NAME_BYTES, "%s_%s", checkpoint->optim->model->name,
             checkpoint->dataset->name);
    return !checkpoint->done || !has_result(checkpoint, name);
}

void checkpoint_save_final(const Checkpoint *checkpoint)
{
    char name[CHECKPOINT_NAME_BYTES];
    if (checkpoint_final_name(checkpoint, name))
        write_now(checkpoint, name);
}

bool checkpoint_open(Safetensors *file, const char *path)
{
    char in_folder[PATH_MAX];
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
        snprintf(in_folder, PATH_MAX, "%s/model.safetensors", path) < PATH_MAX)
        path = in_folder;
    if (!safetensors_open(file, path, WITH_DATA) && !adopt_file(file))
        return false;
    if (safetensors_metadata(file, CHECKPOINT_VERSION_KEY) == NULL &&
        safetensors_metadata(file, EXPORT_VERSION_KEY) == NULL)
        return true; // not ours, so what its checksum covers is unknown
    const char *const keys[] = { METADATA_CHECKSUM, "tensors_checksum", "checksum" }; // that: 1.0.0
    for (int i = 0; i < 3; i++) {
        char actual[9];
        const char *named = safetensors_metadata(file, keys[i]);
        snprintf(actual, sizeof actual, "%08x",
                 i == 0 ? safetensors_metadata_checksum(file, METADATA_CHECKSUM)
                        : safetensors_checksum(file, i == 2));
        if (named != NULL && strcmp(named, actual) != 0)
            return reject("is damaged: its %s do not have the checksum it names; use another one",
                          i == 0 ? "metadata" : "tensors");
    }
    return true;
}

/* Returns whether it is the state of a run with this model and optimizer. */
static bool check_run(Safetensors *file, const Optimizer *optim)
{
    static const char *const identity[] = { "model", "dataset",   "num_samples",
                                            "seed",  "optimizer", "global_batch_size" };
    const char *ours = optim->model->name;
    const char *version = safetensors_metadata(file, CHECKPOINT_VERSION_KEY);
    const char *model = safetensors_metadata(file, "model");
    const char *optimizer = safetensors_metadata(file, "optimizer");
    // sgd has a state if it has momentum.
    const int num_tensors = 1 + optim->model->num_parameters * (1 + optim->num_states);
    if (version == NULL)
        return reject("has weights, but not the state of a run; use --init-from %s to start from "
                      "them",
                      file->path);
    if (strcmp(version, CHECKPOINT_VERSION) != 0)
        return reject("has format version %s, this program knows " CHECKPOINT_VERSION, version);
    for (int i = 0; i < NUM_IDENTITY_SETTINGS; i++)
        if (safetensors_metadata(file, identity[i]) == NULL)
            return reject("its metadata has no \"%s\"", identity[i]);
    if (strcmp(model, ours) != 0)
        return reject("is of model %s; use --model %s, not %s", model, model, ours);
    if (strcmp(optimizer, optim->name) != 0)
        return reject("was saved with optimizer %s; use --optimizer %s, not %s, or --init-from to "
                      "take only the weights",
                      optimizer, optimizer, optim->name);
    return file->num_tensors == num_tensors ||
           reject("has %d tensors, not the %d of %s with momentum %g; use the --momentum it was "
                  "saved with, or --init-from to take only the weights",
                  file->num_tensors, num_tensors, optim->name, optim->momentum);
}

bool checkpoint_position(Safetensors *file, Position *position)
{
    static const char *const keys[] = { "epoch", "position" };
    uint64_t step = UINT64_MAX, found[2];
    const StoredTensor *stored = safetensors_find(file, CHECKPOINT_STEP);
    if (stored != NULL && stored->type == INT64 && stored->ndim == 0)
        memcpy(&step, stored->data, sizeof step);
    if (step > MAX_COUNT)
        return reject("\"" CHECKPOINT_STEP "\" is not a step from 0 to %llu", MAX_COUNT);
    for (int i = 0; i < 2; i++) {
        const unsigned long long max = i == 0 ? INT_MAX - 1 : MAX_COUNT;
        const char *text = safetensors_metadata(file, keys[i]);
        if (text == NULL || !parse_whole(text, 0, max, &found[i]))
            return reject("\"%s\" in its metadata is \"%s\", not a number from 0 to %llu", keys[i],
                          text != NULL ? text : "(none)", max);
    }
    *position = (Position){ (int)found[0], found[1], step };
    return true;
}

/* Writes "[1, 20]" to text and returns it. */
static const char *shape_text(int ndim, const size_t *shape, char text[256])
{
    int length = sprintf(text, "[");
    for (int i = 0; i < ndim && i < SAFETENSORS_MAX_DIMS; i++)
        length += sprintf(text + length, i > 0 ? ", %zu" : "%zu", shape[i]);
    strcpy(text + length, ndim > SAFETENSORS_MAX_DIMS ? ", ...]" : "]");
    return text;
}

const float *checkpoint_tensor(Safetensors *file, const char *name, const Model *model, int i)
{
    char theirs[256], ours[256];
    const Tensor *parameter = &model->parameter[i];
    const StoredTensor *stored = safetensors_find(file, name);
    if (stored == NULL)
        reject("has no tensor \"%s\", which model %s needs", name, model->name);
    else if (stored->type != FLOAT32)
        reject("tensor \"%s\" is %.16s instead of float32", name,
               stored->type < NUM_DTYPES ? dtype_name(stored->type) : stored->dtype);
    else if (stored->ndim != parameter->ndim ||
             memcmp(stored->shape, parameter->shape, (size_t)stored->ndim * sizeof(size_t)) != 0)
        reject("tensor \"%s\" has shape %s, model %s needs %s", name,
               shape_text(stored->ndim, stored->shape, theirs), model->name,
               shape_text(parameter->ndim, parameter->shape, ours));
    else if (strncmp(name, OPTIMIZER, strlen(OPTIMIZER)) == 0 ||
             are_finite(stored->data, parameter->numel))
        return stored->data;
    else
        reject("tensor \"%s\" has values that are no numbers: its training had failed; use an "
               "earlier checkpoint",
               name);
    return NULL;
}

/* Loads model and optimizer from the file; without `import`, only checks that it could. */
static bool read_tensors(Safetensors *file, const Optimizer *optim, bool import)
{
    Model *model = optim->model;
    char name[NAME_BYTES];
    for (int i = 0; i < model->num_parameters; i++)
        for (int s = WEIGHTS; s < optim->num_states; s++) {
            const float *values = checkpoint_tensor(file, tensor_name(optim, i, s, name), model, i);
            if (values == NULL)
                return false;
            if (import)
                model_import(model, i, values, s == WEIGHTS ? model->params : optim->state[s]);
        }
    return true;
}

bool checkpoint_load_weights(Safetensors *file, Model *model)
{
    return adopt_weights(file, model) && read_tensors(file, &(Optimizer){ .model = model }, true);
}

bool checkpoint_verify(const Checkpoint *checkpoint, Safetensors *file, const char *path,
                       Position *position)
{
    return checkpoint_open(file, path) && check_run(file, checkpoint->optim) &&
           read_tensors(file, checkpoint->optim, false) && checkpoint_position(file, position);
}

bool checkpoint_resume(Checkpoint *checkpoint, Safetensors *file, const char *path)
{
    const Args *args = checkpoint->args;
    Model *model = checkpoint->optim->model;
    Position position;
    if (!checkpoint_verify(checkpoint, file, path, &position))
        return false;
    const char *scale = safetensors_metadata(file, "loss_scale"); // --amp fp16 saved it
    if (scale != NULL && !loss_scale_load(model->device, scale, position.step, true))
        return reject("\"loss_scale\" in its metadata is \"%.64s\", not a scale, its age, and the "
                      "steps left out",
                      scale);
    if (log_prints_for_job()) // all ranks may see it, one reports it
        for (int i = 0; (i = checkpoint_difference(checkpoint, file, i)) != NO_SETTING; i++)
            log_warning("%s", file->error);
    read_tensors(file, checkpoint->optim, true);
    model->step = position.step;
    checkpoint->sampler->epoch = position.epoch;
    sampler_seek(checkpoint->sampler, position.samples);
    checkpoint->done = position.epoch >= args->epochs || position.step >= args->max_steps;
    if (checkpoint->done && log_prints_for_job())
        log_info("nothing left to do: %s has %d epochs and %llu steps behind it (ask for more "
                 "--epochs, or start afresh with --resume none)",
                 file->path, position.epoch, (unsigned long long)position.step);
    return true;
}

int checkpoint_load(Checkpoint *checkpoint)
{
    const Args *args = checkpoint->args;
    Safetensors file = { .data = NULL };
    bool ok = true;
    if (args->resume != NULL)
        ok = checkpoint_resume(checkpoint, &file, args->resume);
    else if (args->init_from != NULL)
        ok = checkpoint_open(&file, args->init_from) &&
             checkpoint_load_weights(&file, checkpoint->optim->model);
    if (!ok) // a usage error, because a restart would not change the file
        usage_error("%s%s", file.error,
                    file.data == NULL ? ": name another file with --resume or --init-from" : "");
    safetensors_free(&file);
    return checkpoint->sampler->epoch;
}
