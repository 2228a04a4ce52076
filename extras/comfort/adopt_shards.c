/* A model in several files of one folder, as transformers writes large ones, and DCP all:
 * model-00001-of-00003.safetensors and so on, with or without an index that names them. */
#include <dirent.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/checkpoint.h"
#include "extras/comfort/parts.h"

#define reject(...) file_reject(file, __VA_ARGS__)
#define INDEX "model.safetensors.index.json"

enum { MAX_INDEX_BYTES = 16 << 20 };

/* Appends a tensor of a shard: its data, and its entry of the header, which keeps its texts. */
static void take_tensor(Safetensors *file, StoredTensor *tensor, json_t *entry)
{
    if (tensor->own == NULL)
        tensor->own = memcpy(mem_alloc(tensor->bytes, 1), tensor->data, tensor->bytes);
    tensor->data = tensor->own;
    json_object_set(file->header, tensor->name, entry);
    tensor->name = json_object_iter_key(json_object_iter_at(file->header, tensor->name));
    file->tensor = realloc(file->tensor, (size_t)(file->num_tensors + 1) * sizeof *tensor);
    CHECK(file->tensor != NULL, "out of memory");
    file->tensor[file->num_tensors++] = *tensor;
    tensor->own = NULL;
}

static bool add_shard(Safetensors *file, const char *name)
{
    Safetensors shard;
    char path[PATH_MAX];
    size_t available = 0;
    if (snprintf(path, sizeof path, "%s/%s", file->path, name) >= PATH_MAX)
        return reject("the path of %s is too long", name);
    bool ok = safetensors_open(&shard, path, WITH_DATA) ||
              reject("its part is missing or damaged: %s", shard.error);
    ok = ok &&
         (mem_fits(shard.data_bytes, &available) || reject("%s does not fit into memory", name));
    for (int i = 0; ok && i < shard.num_tensors; i++) {
        StoredTensor *tensor = &shard.tensor[i];
        if (json_object_get(file->header, tensor->name) != NULL) // safetensors_find takes longer
            ok = reject("has \"%.80s\" in two files, %s is the second", tensor->name, name);
        else
            take_tensor(file, tensor, json_object_get(shard.header, tensor->name));
    }
    safetensors_free(&shard);
    return ok;
}

/* Opens the files that the index names, and checks that they have its tensors. */
static bool open_indexed(Safetensors *file, const char *index)
{
    struct stat status;
    json_error_t problem = { .text = "is no regular file, or too long" };
    json_t *parsed = NULL, *opened = json_object(), *value;
    if (stat(index, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < MAX_INDEX_BYTES)
        parsed = json_load_file(index, JSON_REJECT_DUPLICATES, &problem);
    const char *tensor;
    bool ok = json_object_size(json_object_get(parsed, "weight_map")) > 0 ||
              reject("its " INDEX " has no weight_map: %s", problem.text);
    json_object_foreach(json_object_get(parsed, "weight_map"), tensor, value)
    {
        const char *name = json_string_value(value);
        if (!ok)
            break;
        if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL)
            ok = reject("its " INDEX " names no file for \"%.80s\"", tensor);
        else if (json_object_get(opened, name) == NULL)
            ok = add_shard(file, name) && json_object_set_new(opened, name, json_true()) == 0;
        if (ok && json_object_get(file->header, tensor) == NULL)
            ok = reject("its " INDEX " has %.80s for \"%.80s\", which is not in it", name, tensor);
    }
    json_decref(opened);
    json_decref(parsed);
    return ok;
}

/* Returns how many parts there are, as the first of them says; 0 if there is none, -1 for the parts
 * of two models. */
static int count_parts(const char *folder)
{
    static const char part[] = "model-00001-of-[0-9][0-9][0-9][0-9][0-9].safetensors";
    int total = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (fnmatch(part, entry->d_name, 0) == 0) {
            const int parts = atoi(entry->d_name + strcspn(part, "["));
            total = total == 0 || total == parts ? parts : -1;
        }
    if (directory != NULL)
        closedir(directory);
    return total;
}

static bool open_numbered(Safetensors *file, int total)
{
    bool ok = total > 0 || reject("has the parts of two models: move one to another folder");
    for (int i = 1; ok && i <= total; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, total);
        ok = add_shard(file, name);
    }
    return ok;
}

/* Says what is in the folder instead, if it is known; else the error stays. Returns false. */
static bool explain_folder(Safetensors *file)
{
    static const char *const others[] = { "pytorch_model.bin", "model.pt",  "snapshot.pt",
                                          "weights.npz",       "model.npz", "model.h5" };
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/.metadata", file->path);
    if (access(path, F_OK) == 0)
        return reject(
            "is a distributed checkpoint of PyTorch (\"python3 -m "
            "torch.distributed.checkpoint.format_utils dcp_to_torch %s model.pt\", then "
            "\"python3 tools/to_safetensors.py model.pt weights.safetensors\" convert it)",
            file->path);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", file->path, others[i]);
        if (access(path, F_OK) == 0)
            return reject("has no model.safetensors, but %s (\"python3 tools/to_safetensors.py %s "
                          "weights.safetensors\" converts it)",
                          others[i], path);
    }
    return false;
}

bool adopt_file(Safetensors *file)
{
    char index[PATH_MAX + 64];
    char *slash = strrchr(file->path, '/');
    if (slash == NULL || strcmp(slash, "/model.safetensors") != 0 ||
        access(file->path, F_OK) == 0) {
        adopt_explain(file);
        return false;
    }
    *slash = '\0'; // the folder is what the user has named
    snprintf(index, sizeof index, "%s/" INDEX, file->path);
    const int total = count_parts(file->path);
    file->header = json_object();
    if (!(access(index, F_OK) == 0 ? open_indexed(file, index)
          : total != 0             ? open_numbered(file, total)
                                   : explain_folder(file)))
        return false;
    file->data = mem_calloc(1, 1); // what was read is each tensor's own
    return true;
}
