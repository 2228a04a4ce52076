/*
 * export - writes a trained model as a folder: weights, their description, and a script that loads
 * them.
 *
 *     tools/export checkpoints/cnn_digits.safetensors my_model
 *     python my_model/load_in_pytorch.py
 *
 * The folder is made under another name and renamed when it is complete, so that an incomplete one
 * is never seen. A folder that it replaces is deleted only if that was an export, too.
 */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/checkpoint.h"
#include "tools/model/model_file.h"
#include "tools/model/tool.h"

typedef struct {
    bool force;
} Options;

static const Tool tool = {
    .name = "tools/export",
    .arguments = "FILE DIR",
    .about =
        "Makes DIR from a checkpoint: model.safetensors (the weights), config.json (what they\n"
        "are), load_in_pytorch.py. An earlier export in DIR is replaced.\n",
    .shared = (const char *const[]){ NULL },
    .own = (const Option[]){ { "force", "", "", .kind = OPTION_FLAG,
                               .offset = offsetof(Options, force),
                               .help = "move DIR aside if it is not an export" },
                             { .name = NULL } },
};

static const char *const files[] = { "config.json", "model.safetensors", "load_in_pytorch.py" };
enum { CONFIG, WEIGHTS, SCRIPT, NUM_FILES };
#define CONFIG_FORMAT "ddp.c export"
#define EXPORT_VERSION "1"

// The path is relative to the top of the repository, where make runs the compiler.
__asm__(".pushsection .rodata\n"
        ".global load_in_pytorch, load_in_pytorch_end\n"
        "load_in_pytorch: .incbin \"tools/load_in_pytorch.py\"\n"
        "load_in_pytorch_end:\n"
        ".popsection\n");
extern const char load_in_pytorch[], load_in_pytorch_end[];

/* The facts about the training, for the reader; the keys of a checkpoint's metadata. */
static const char *const facts[] = {
    "dataset",           "num_samples", "epoch", "step",     "seed",         "world_size",
    "global_batch_size", "optimizer",   "lr",    "momentum", "weight_decay", "dropout"
};
enum { NUM_FACTS = sizeof facts / sizeof facts[0] };

/* Returns DIR/NAME. */
static char *join(const char *folder, const char *name)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/%s", folder, name) >= 0, "out of memory");
    return path;
}

/* Deletes our files in a folder, and the folder if nothing else is in it. */
static bool delete_export(const char *folder)
{
    for (int i = 0; i < NUM_FILES; i++) {
        char *path = join(folder, files[i]);
        unlink(path);
        free(path);
    }
    return rmdir(folder) == 0;
}

/* Dies, removing the incomplete folder. */
static noreturn void give_up(const char *folder, const char *reason)
{
    delete_export(folder);
    die("%s", reason);
}

static void write_file(const char *folder, const char *name, const char *text, size_t bytes)
{
    char *path = join(folder, name);
    FILE *file = fopen(path, "wx");
    const bool written = file != NULL && fwrite(text, 1, bytes, file) == bytes &&
                         fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (!written || fclose(file) != 0) {
        char reason[PATH_MAX + 128];
        snprintf(reason, sizeof reason, "cannot write %s: %s", path, strerror(errno));
        give_up(folder, reason);
    }
    free(path);
}

static void write_weights(const char *folder, const ModelFile *from, const Model *model,
                          char checksum[9])
{
    char *path = join(folder, files[WEIGHTS]);
    Safetensors file;
    safetensors_create(&file, path);
    float *weights = mem_calloc(model->numel, sizeof *weights);
    for (int i = 0; i < model->num_parameters; i++) {
        const Tensor *parameter = &model->parameter[i];
        float *host = weights + parameter->offset;
        model_export(model, i, model->params, host);
        safetensors_add(&file, parameter->name, FLOAT32, parameter->ndim, parameter->shape, host);
    }
    char labels[MODEL_FILE_MAX_LABELS * MODEL_FILE_LABEL_BYTES] = "";
    for (int i = 0; i < from->num_labels; i++)
        strcat(strcat(labels, i > 0 ? "," : ""), from->label[i]);
    snprintf(checksum, 9, "%08x", safetensors_checksum(&file, false));
    safetensors_add_metadata(&file, "format", "pt");
    safetensors_add_metadata(&file, EXPORT_VERSION_KEY, EXPORT_VERSION);
    safetensors_add_metadata(&file, "tensors_checksum", "%s", checksum);
    safetensors_add_metadata(&file, "model", "%s", from->model);
    safetensors_add_metadata(&file, "dataset", "%s",
                             from->dataset != NULL ? from->dataset : "mnist");
    safetensors_add_metadata(&file, "input_shape", "%s", from->input_shape);
    safetensors_add_metadata(&file, "class_labels", "%s", labels);
    safetensors_add_metadata(&file, "mean", "%.7g", (double)from->mean);
    safetensors_add_metadata(&file, "std", "%.7g", (double)from->std);

    if (!safetensors_commit(&file))
        give_up(folder, file.error);
    free(path);
    safetensors_free(&file);
    free(weights);
}

/* Returns a fact as JSON: a number if it is one, else a string. */
static json_t *fact(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(value))
        return value;
    json_decref(value);
    return json_string(text);
}

static void write_config(const char *folder, const ModelFile *from, const Model *model,
                         const char *checksum)
{
    json_t *shape = json_array(), *labels = json_array(), *training = json_object();
    char *end = NULL;
    for (const char *size = from->input_shape; *size != '\0'; size = *end == ',' ? end + 1 : end)
        json_array_append_new(shape, json_integer(strtol(size, &end, 10)));
    for (int i = 0; i < from->num_labels; i++)
        json_array_append_new(labels, json_string(from->label[i]));
    for (int i = 0; i < NUM_FACTS; i++) {
        const char *text = safetensors_metadata(&from->file, facts[i]);
        if (text != NULL)
            json_object_set_new(training, facts[i], fact(text));
    }
    json_t *config = json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:f, s:f, s:o, s:o}", "format",
                               CONFIG_FORMAT, "version", EXPORT_VERSION, "model", from->model,
                               "checksum", checksum, "parameters", (json_int_t)model->numel,
                               "input_shape", shape, "mean", (double)from->mean, "std",
                               (double)from->std, "class_labels", labels, "training", training);
    CHECK(config != NULL, "%s: its labels or its metadata are not UTF-8", from->file.path);
    char *text = json_dumps(config, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
    CHECK(text != NULL && asprintf(&end, "%s\n", text) >= 0, "out of memory");
    write_file(folder, files[CONFIG], end, strlen(end));
    free(end);
    free(text);
    json_decref(config);
}

static bool is_export(const char *folder)
{
    char *path = join(folder, files[CONFIG]);
    struct stat status;
    json_t *config = stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < 1 << 20
                         ? json_load_file(path, 0, NULL)
                         : NULL;
    const char *format = json_string_value(json_object_get(config, "format"));
    const bool is = format != NULL && strcmp(format, CONFIG_FORMAT) == 0;
    json_decref(config);
    free(path);
    return is;
}

/* Returns true if the path may be replaced: it is missing, an empty folder, or an export. */
static bool is_replaceable(const char *path)
{
    struct stat status;
    if (lstat(path, &status) < 0)
        return errno == ENOENT;
    if (!S_ISDIR(status.st_mode))
        return false;
    DIR *dir = opendir(path);
    int entries = 0;
    while (dir != NULL && readdir(dir) != NULL)
        entries++;
    if (dir != NULL)
        closedir(dir);
    return entries == 2 || is_export(path); // . and ..
}

/* Gives the complete folder its name. A folder that had that name is deleted if it holds only an
 * export or nothing; otherwise it is renamed. */
static void replace_target(const char *folder, const char *target)
{
    char *old = NULL;
    CHECK(asprintf(&old, "%s.old", folder) >= 0, "out of memory");
    const bool there = access(target, F_OK) == 0, ours = is_export(target);
    const bool aside = there && rename(target, old) == 0;
    if ((there && !aside) || rename(folder, target) < 0) {
        const int reason = errno;
        if (aside)
            rename(old, target);
        delete_export(folder);
        die("cannot write %s: %s", target, strerror(reason));
    }
    if (aside && !(ours ? delete_export(old) : rmdir(old) == 0))
        log_info("what else was in %s is in %s now", target, old);
    free(old);
}

int main(int argc, char **argv)
{
    Args args;
    Options options;
    const char *argument[2];
    tool_parse(&tool, &args, &options, argument, argc, argv);
    char *target = strdup(argument[1]), *folder = NULL;
    for (size_t end = strlen(target); end > 1 && target[end - 1] == '/';)
        target[--end] = '\0';
    CHECK(options.force || is_replaceable(target),
          "%s is there, and is no export: name another folder, or let --force move it aside",
          target);

    ModelFile from;
    model_file_open(&from, argument[0]);
    option_set(args_option("model"), &args, from.model, NULL);
    args.device = DEVICE_CPU;
    args.threads = 1;
    Device device;
    device_init(&device, &args, 0);
    Rng rng; // draws weights that are overwritten
    rng_seed(&rng, 0);
    Model model;
    model_init(&model, &args, 1, &rng, &device);
    model_file_load(&from, &model);

    CHECK(asprintf(&folder, "%s.XXXXXX", target) >= 0, "out of memory");
    CHECK(mkdtemp(folder) != NULL, "cannot create a folder beside %s: %s: name one elsewhere",
          target, strerror(errno));
    SYS_CHECK(chmod(folder, 0755));
    char checksum[9];
    write_weights(folder, &from, &model, checksum);
    write_file(folder, files[SCRIPT], load_in_pytorch,
               (size_t)(load_in_pytorch_end - load_in_pytorch));
    write_config(folder, &from, &model, checksum);
    replace_target(folder, target);
    log_print("%s: model %s, %zu parameters, from %s", target, model.name, model.numel,
              from.file.path);

    model_free(&model);
    device_free(&device);
    model_file_close(&from);
    free(folder);
    free(target);
    return 0;
}
