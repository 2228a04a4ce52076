/*
 * Folders and files of the workers' output. Empty folders are removed at the end: rmdir refuses to
 * remove others. If the launcher is killed, its watcher (workers.c) removes them.
 */
#include "common/launch/logs.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"

static void format_path(char path[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, PATH_MAX, format, arguments);
    va_end(arguments);
    CHECK(length < PATH_MAX, "--log-dir: the path %s... is too long", path);
}

Logs *logs_init(const Flags *flags)
{
    for (int i = 0; i < flags->nproc_per_node; i++)
        if (flags->tee[i] != 0 && !tee_is_available)
            usage_error("--tee is in extras/watch, which this build does not have; --redirects "
                        "writes files without it");
    Logs *logs =
        mmap(NULL, sizeof *logs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(logs != MAP_FAILED, "out of memory");
    logs->flags = flags;
    return logs;
}

void logs_free(Logs *logs)
{
    if (logs->folder[0] != '\0' && logs->flags->log_dir == NULL)
        log_info("logs are in %s", logs->folder);
    munmap(logs, sizeof *logs);
}

void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX])
{
    format_path(path, "%s/%d/%s", logs->attempt, local_rank, name);
}

/* mkdtemp writes the name into the shared memory before it creates the folder, so the watcher knows
 * it in time. The path is absolute, since a rank may leave the folder it was started in. */
static void make_folder(Logs *logs)
{
    const Flags *flags = logs->flags;
    const char *temporary = getenv("TMPDIR");
    if (temporary == NULL || temporary[0] == '\0')
        temporary = "/tmp";
    if (flags->log_dir != NULL)
        folder_create(flags->log_dir, "--log-dir");
    const char *parent = flags->log_dir != NULL ? flags->log_dir : temporary;
    char root[PATH_MAX];
    // Eight letters, as torchrun has it; mkdtemp makes six.
    format_path(logs->folder, "%s/%s_%02xXXXXXX", realpath(parent, root) != NULL ? root : parent,
                flags->run_id, (unsigned)getpid() & 0xff);
    CHECK(mkdtemp(logs->folder) != NULL,
          "cannot create the folder %s: %s: name another place with --log-dir", logs->folder,
          strerror(errno));
}

/* Our ranks write one line, which the report has shown. PyTorch's also write a traceback: that
 * stays. */
static bool is_in_report(const char *path)
{
    static const char ours[] = "{\"message\": \"";
    char begin[sizeof ours] = "";
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t bytes = read(fd, begin, sizeof begin - 1);
    close(fd);
    return bytes >= 0 && memcmp(begin, ours, (size_t)bytes) == 0; // or as much as was written
}

void logs_remove_empty(Logs *logs)
{
    for (int i = 0; i < logs->flags->nproc_per_node && logs->attempt[0] != '\0'; i++) {
        char path[PATH_MAX];
        logs_path(logs, i, "error.json", path);
        if (logs->flags->log_dir == NULL && is_in_report(path))
            unlink(path);
        logs_path(logs, i, "", path);
        rmdir(path);
    }
    rmdir(logs->attempt);
    if (rmdir(logs->folder) == 0)
        logs->folder[0] = '\0';
}

/* The descriptor for a worker's stream (0: stdout, 1: stderr). */
static int open_stream(Logs *logs, int rank, int local_rank, int stream)
{
    const Flags *flags = logs->flags;
    const bool is_teed = flags->tee[local_rank] >> stream & 1;
    const bool is_redirected = flags->redirects[local_rank] >> stream & 1;
    const bool is_shown = flags->shown[local_rank];
    if (!is_teed && !is_redirected)
        return is_shown ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);

    char path[PATH_MAX];
    logs_path(logs, local_rank, stream == 0 ? "stdout.log" : "stderr.log", path);
    const int file_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    CHECK(file_fd >= 0, "cannot write %s: %s", path, strerror(errno));
    if (!is_teed)
        return file_fd;

    return tee_add(&logs->tee, file_fd, is_shown ? stream + 1 : -1, flags, rank, local_rank);
}

void logs_open(Logs *logs, int first_rank, int restart_count)
{
    const Flags *flags = logs->flags;
    const int num_workers = flags->nproc_per_node;
    if (logs->folder[0] == '\0')
        make_folder(logs);
    format_path(logs->attempt, "%s/attempt_%d", logs->folder, restart_count);
    folder_create(logs->attempt, "--log-dir");
    logs->output = mem_calloc((size_t)num_workers, sizeof *logs->output);
    for (int i = 0; i < num_workers; i++) {
        char folder[PATH_MAX];
        logs_path(logs, i, "", folder);
        folder_create(folder, "--log-dir");
        for (int stream = 0; stream < 2; stream++)
            logs->output[i][stream] = open_stream(logs, first_rank + i, i, stream);
    }
}

void logs_start(Logs *logs)
{
    for (int i = 0; i < logs->flags->nproc_per_node; i++) {
        for (int stream = 0; stream < 2; stream++) {
            if (logs->output[i][stream] >= 0)
                close(logs->output[i][stream]);
        }
    }
    free(logs->output);
    tee_start(logs->tee);
}

void logs_close(Logs *logs)
{
    tee_finish(logs->tee);
    logs->tee = NULL;
    logs_remove_empty(logs);
}
