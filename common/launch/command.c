/*
 * What a worker is started with: its words, and the GPU that it sees.
 *
 * torchrun hands every program to Python unless it is told not to. ddprun is for programs of any
 * kind, and asks Python only for what cannot be started by itself.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/launch/flags.h"

/* What torchrun does in a process of its own. */
#define RUN_PATH_PROGRAM \
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"

static bool is_in_path(const char *name)
{
    char *folders = strdup(getenv("PATH") != NULL ? getenv("PATH") : ""), *rest = NULL;
    CHECK(folders != NULL, "out of memory");
    bool found = false;
    for (char *at = strtok_r(folders, ":", &rest); at != NULL && !found;
         at = strtok_r(NULL, ":", &rest)) {
        char path[PATH_MAX];
        found = snprintf(path, sizeof path, "%s/%s", at, name) < (int)sizeof path &&
                access(path, X_OK) == 0;
    }
    free(folders);
    return found;
}

/* A program of another kind, which lacks only the permission to be started: then that is said. */
static bool is_foreign(const char *path)
{
    char line[256] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    return strncmp(line, "\177ELF", 4) == 0 ||
           (strncmp(line, "#!", 2) == 0 && strstr(line, "python") == NULL);
}

static bool is_for_python(const char *path)
{
    const char *extension = strrchr(path, '.');
    if (extension != NULL && strcmp(extension, ".py") == 0)
        return true;
    struct stat info;
    if (stat(path, &info) != 0 || (strchr(path, '/') == NULL && is_in_path(path)))
        return false;
    char main_file[PATH_MAX];
    if (S_ISDIR(info.st_mode))
        return snprintf(main_file, sizeof main_file, "%s/__main__.py", path) <
                   (int)sizeof main_file &&
               access(main_file, F_OK) == 0;
    return S_ISREG(info.st_mode) && (info.st_mode & 0111) == 0 && !is_foreign(path);
}

/* Python runs unbuffered (-u), as under torchrun. */
void command_read(Flags *flags, const char *const texts[NUM_FLAGS], char **words)
{
    if (words[0] == NULL)
        usage_error("which program? ddprun [flags] program [arguments]; see ddprun --help");
    const bool is_module = texts[MODULE] != NULL, run_path = texts[RUN_PATH] != NULL;
    if (is_module && texts[NO_PYTHON] != NULL && !run_path)
        usage_error("--module and --no-python exclude each other");

    int num_words = 0;
    while (words[num_words] != NULL)
        num_words++;
    flags->program = words[0];
    flags->command = mem_calloc((size_t)num_words + 6, sizeof *flags->command);
    char **next = flags->command;
    if (run_path || is_module || (texts[NO_PYTHON] == NULL && is_for_python(words[0]))) {
        *next++ = getenv("PYTHON_EXEC") != NULL ? getenv("PYTHON_EXEC") : "python3";
        *next++ = "-u";
        if (run_path)
            *next++ = "-c";
        if (run_path)
            *next++ = RUN_PATH_PROGRAM;
        else if (is_module)
            *next++ = "-m";
    }
    *next++ = words[0];
    if (texts[PASS_LOCAL_RANK] != NULL)
        *next++ = flags->local_rank_argument;
    for (int i = 1; i < num_words; i++)
        *next++ = words[i];
}

/* NULL: the list, with commas, has no such item. */
static const char *list_item(const char *list, int index)
{
    for (; list != NULL && index > 0; index--) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return list;
}

void command_read_gpus(Flags *flags, bool virtual_local_rank)
{
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    flags->virtual_local_rank = virtual_local_rank;
    if (!virtual_local_rank || gpus == NULL)
        return;
    if (list_item(gpus, flags->nproc_per_node - 1) == NULL)
        usage_error("--virtual-local-rank: CUDA_VISIBLE_DEVICES=%s has fewer GPUs than the %d "
                    "ranks of --nproc-per-node",
                    gpus, flags->nproc_per_node);
    flags->gpus = strdup(gpus);
    CHECK(flags->gpus != NULL, "out of memory");
}

void command_set_gpu(const Flags *flags, int local_rank)
{
    char text[64];
    if (!flags->virtual_local_rank)
        return;
    const char *gpu = list_item(flags->gpus, local_rank);
    if (gpu == NULL)
        snprintf(text, sizeof text, "%d", local_rank);
    else
        snprintf(text, sizeof text, "%.*s", (int)strcspn(gpu, ","), gpu);
    SYS_CHECK(setenv("CUDA_VISIBLE_DEVICES", text, 1));
}
