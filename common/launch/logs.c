/*
 * Folders and files of the workers' output. Empty folders are removed at the end; rmdir itself
 * refuses others.
 *
 * A launcher that is killed leaves its folders behind, and the next one removes them. A lock in the
 * folder shows that its launcher lives: the kernel drops it when the process ends, however it ends.
 * The file holds the boot id of the machine, since locks may not be seen from another one.
 */
#include "common/launch/logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"

#define LOCK_NAME "launcher.lock"
#define BOOT_ID_BYTES 36
#define RANDOM_LETTERS 8 // at the end of a folder's name

static void format_path(char path[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, PATH_MAX, format, arguments);
    va_end(arguments);
    CHECK(length < PATH_MAX, "--log-dir: the path %s... is too long", path);
}

void logs_init(Logs *logs, const Flags *flags)
{
    *logs = (Logs){ .flags = flags, .lock_fd = -1 };
    for (int i = 0; i < flags->nproc_per_node; i++)
        if (flags->tee[i] != 0 && !tee_is_available)
            usage_error("--tee is in extras/watch, which this build does not have; --redirects "
                        "writes files without it");
}

/* Our ranks write one line, which the report has shown. PyTorch's also write a traceback: that
 * stays. */
static bool is_in_report(const char *path)
{
    static const char ours[] = "{\"message\": \"";
    char begin[sizeof ours] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const size_t bytes = fread(begin, 1, sizeof begin - 1, file);
    fclose(file);
    return memcmp(begin, ours, bytes) == 0; // or as much of it as was written
}

/* Removes a folder as far as nothing is in it but empty folders, error files that a report has
 * shown, and the lock. */
static void remove_empty(const Flags *flags, const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (entries == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        const char *name = entry->d_name;
        char path[PATH_MAX];
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
            continue;
        const bool is_error = strcmp(name, "error.json") == 0 && flags->log_dir == NULL;
        if ((is_error && is_in_report(path)) || strcmp(name, LOCK_NAME) == 0)
            unlink(path);
        else
            remove_empty(flags, path);
    }
    closedir(entries);
    rmdir(folder);
}

/* Of this machine since it was started; false: it has none. */
static bool read_boot_id(char id[BOOT_ID_BYTES])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t count = read(fd, id, BOOT_ID_BYTES);
    close(fd);
    return count == BOOT_ID_BYTES;
}

/* Locked first, then written: an empty file may belong to a launcher that has just made it. */
static void lock_folder(Logs *logs)
{
    char path[PATH_MAX], id[BOOT_ID_BYTES];
    format_path(path, "%s/" LOCK_NAME, logs->folder);
    logs->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (logs->lock_fd >= 0 && flock(logs->lock_fd, LOCK_EX) == 0 && read_boot_id(id))
        write_all(logs->lock_fd, id, sizeof id); // on a full disk: then nobody removes this folder
}

/* Removes a folder if a launcher of this user made it, on this machine, and is gone. */
static void sweep_folder(const Flags *flags, const char *folder)
{
    char path[PATH_MAX], ours[BOOT_ID_BYTES], theirs[BOOT_ID_BYTES] = "";
    struct stat info;
    if (snprintf(path, sizeof path, "%s/" LOCK_NAME, folder) >= (int)sizeof path)
        return;
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    const bool is_gone = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
                         S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_nlink == 1;
    if (is_gone && read_boot_id(ours) && read(fd, theirs, sizeof theirs) == sizeof theirs &&
        memcmp(ours, theirs, sizeof ours) == 0)
        remove_empty(flags, folder);
    close(fd);
}

static void sweep(const Flags *flags, const char *parent)
{
    DIR *entries = opendir(parent);
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        char path[PATH_MAX];
        const size_t length = strlen(entry->d_name);
        if (length > RANDOM_LETTERS && entry->d_name[length - RANDOM_LETTERS - 1] == '_' &&
            snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) < (int)sizeof path)
            sweep_folder(flags, path);
    }
    if (entries != NULL)
        closedir(entries);
}

static void make_folder(Logs *logs)
{
    const Flags *flags = logs->flags;
    const char *temporary = getenv("TMPDIR");
    if (temporary == NULL || temporary[0] == '\0')
        temporary = "/tmp";
    if (flags->log_dir != NULL)
        folder_create(flags->log_dir, "--log-dir");
    const char *parent = flags->log_dir != NULL ? flags->log_dir : temporary;
    sweep(flags, parent);
    char path[PATH_MAX];
    // Eight letters, as torchrun has it; mkdtemp makes six.
    format_path(path, "%s/%s_%02xXXXXXX", parent, flags->run_id, (unsigned)getpid() & 0xff);
    // From the root: a rank may leave the folder it was started in.
    CHECK(mkdtemp(path) != NULL && realpath(path, logs->folder) != NULL,
          "cannot create the folder %s: %s: name another place with --log-dir", path,
          strerror(errno));
}

void logs_free(Logs *logs)
{
    if (logs->folder[0] != '\0' && logs->flags->log_dir == NULL)
        log_info("logs are in %s", logs->folder);
}

void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX])
{
    format_path(path, "%s/%d/%s", logs->attempt, local_rank, name);
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
    lock_folder(logs);
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
    remove_empty(logs->flags, logs->attempt);
    char lock[PATH_MAX];
    format_path(lock, "%s/" LOCK_NAME, logs->folder);
    unlink(lock); // before it is unlocked: nobody may take the next attempt for an orphan
    if (rmdir(logs->folder) == 0)
        logs->folder[0] = '\0';
    close(logs->lock_fd);
    logs->lock_fd = -1;
}
