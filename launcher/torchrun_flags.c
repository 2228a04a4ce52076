/* Each flag is a function; the environment is changed rank by rank, since a worker inherits it. */
#include "launcher/torchrun_flags.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/signals.h"

/* torchrun's run_script_path, as an argument of python -c. */
#define RUN_PATH_CODE \
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

/* Returns whether it is a program of another kind, which lacks only the execute permission. The
 * error then reports that. */
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

static bool needs_python(const char *path)
{
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

static void read_program(Flags *flags)
{
    const bool by_python = strcmp(flags->command[0], flags->program) != 0; // Python runs it already
    if (flags->run_path)
        flags_use_python(flags, "-c", RUN_PATH_CODE);
    else if (!by_python && !flags->no_python && needs_python(flags->program))
        flags_use_python(flags, NULL, NULL);
}

/* Uses --local-addr, as torchrun does, if --master-addr and --master-port do not name node 0. For
 * elastic nodes see elastic_group.c. */
static void read_local_addr(Flags *flags)
{
    const bool is_named = flags->typed_port >= 0 || flags->rdzv_endpoint != NULL;
    const bool is_static = strcmp(flags->rdzv_backend, "static") == 0 && is_named;
    if (flags->local_addr != NULL && flags->max_nodes == 1 && (flags->standalone || !is_static))
        flags_set_address(flags, "--local-addr", flags->local_addr);
}

/* Reads the names of signals; as in torchrun, spaces around them are allowed. */
static void read_signals(TorchrunFlags *torchrun, const char *text)
{
    torchrun->signals_to_handle = text;
    sigemptyset(&torchrun->signals);
    char *names = strdup(text != NULL ? text : ""), *rest = NULL;
    CHECK(names != NULL, "out of memory");
    for (char *name = strtok_r(names, ", ", &rest); name != NULL;
         name = strtok_r(NULL, ", ", &rest)) {
        int signal = 1;
        while (signal < NSIG && strcmp(signal_name(signal), name) != 0)
            signal++;
        if (signal == NSIG || signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD)
            usage_error("--signals-to-handle %s: %s is no signal that a launcher can handle; "
                        "give names such as SIGTERM,SIGUSR1",
                        text, name);
        sigaddset(&torchrun->signals, signal);
    }
    free(names);
    if (text != NULL && sigisemptyset(&torchrun->signals))
        usage_error("--signals-to-handle \"%s\": give names such as SIGTERM,SIGUSR1", text);
}

/* Returns an item of a comma-separated list, or NULL. */
static const char *list_item(const char *list, int index)
{
    for (; list != NULL && index > 0; index--) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return list;
}

/* Returns a copy, since both variables are also set for the workers. */
static char *copy_of_variable(const char *name)
{
    const char *value = getenv(name);
    char *copy = value != NULL ? strdup(value) : NULL;
    CHECK(value == NULL || copy != NULL, "out of memory");
    return copy;
}

void torchrun_flags_read(TorchrunFlags *torchrun, Flags *flags)
{
    read_signals(torchrun, flags->signals_to_handle);
    if (strcmp(flags->logs_specs, "default") != 0)
        usage_error("--logs-specs %s: there is only default; others are classes of Python",
                    flags->logs_specs);
    torchrun->virtual_local_rank = flags->virtual_local_rank;
    torchrun->gpus = copy_of_variable("CUDA_VISIBLE_DEVICES");
    torchrun->error_file = copy_of_variable("TORCHELASTIC_ERROR_FILE");
    if (torchrun->virtual_local_rank && torchrun->gpus != NULL &&
        list_item(torchrun->gpus, flags->nproc_per_node - 1) == NULL)
        usage_error("--virtual-local-rank: CUDA_VISIBLE_DEVICES=%s has fewer GPUs than the %d "
                    "ranks of --nproc-per-node",
                    torchrun->gpus, flags->nproc_per_node);
    read_local_addr(flags);
    read_program(flags);
}

void torchrun_flags_free(TorchrunFlags *torchrun)
{
    free(torchrun->gpus);
    free(torchrun->error_file);
}

const sigset_t *torchrun_flags_signals(const TorchrunFlags *torchrun)
{
    return torchrun->signals_to_handle != NULL ? &torchrun->signals : NULL;
}

void torchrun_flags_set_environment(const TorchrunFlags *torchrun, int local_rank)
{
    if (torchrun->signals_to_handle != NULL)
        SYS_CHECK(setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", torchrun->signals_to_handle, 1));
    if (!torchrun->virtual_local_rank)
        return;
    char text[64];
    const char *gpu = list_item(torchrun->gpus, local_rank);
    if (gpu == NULL)
        snprintf(text, sizeof text, "%d", local_rank);
    else
        snprintf(text, sizeof text, "%.*s", (int)strcspn(gpu, ","), gpu);
    SYS_CHECK(setenv("CUDA_VISIBLE_DEVICES", text, 1));
    SYS_CHECK(setenv("LOCAL_RANK", "0", 1));
}
