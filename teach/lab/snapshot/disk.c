/* A function of the C library that this file defines is found before the C library's own, which it
 * then calls. */
#include "teach/lab/snapshot/disk.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/log.h"

#define MOST_FILES 512

typedef struct {
    unsigned char *data;
    size_t count;
} Content;

typedef struct {
    ino_t inode;
    bool exists; // if not, another file may have its inode
    bool is_flushed; // was flushed at some time
    bool is_changed; // changed since the last flush
    Content flushed, now;
    bool is_longer; // longer than at the previous scan
    size_t previous; // its bytes at the previous scan
    bool is_old; // it existed when the last snapshot was complete
    bool is_overwritten; // changed since then
} File;

typedef struct {
    char name[256];
    int file;
} Name;

typedef struct {
    Name name[MOST_FILES];
    int count;
} Names;

static char folder[PATH_MAX], images[PATH_MAX];
static DiskLog *disk;
static bool watches, with_power;
static unsigned delay; // microseconds that calls of other threads are delayed
static pthread_t main_thread;
static int num_threads; // threads at first
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; // in the harness's own calls
static File file[MOST_FILES];
static int num_files;
static Names now, flushed; // the folder's names
static uint64_t old_complete;
static uint32_t seen[DISK_IMAGES];

static Content content_of(const char *path)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        return (Content){ 0 };
    Content content = { malloc((size_t)info.st_size + 1), 0 };
    const ssize_t count = read(fd, content.data, (size_t)info.st_size);
    content.count = count > 0 ? (size_t)count : 0;
    close(fd);
    return content;
}

static bool same_content(Content a, Content b)
{
    return a.count == b.count && (a.count == 0 || memcmp(a.data, b.data, a.count) == 0);
}

static Content copy_content(Content from)
{
    Content copy = { malloc(from.count + 1), from.count };
    if (from.count > 0)
        memcpy(copy.data, from.data, from.count);
    return copy;
}

static int file_of(ino_t inode)
{
    for (int i = 0; i < num_files; i++)
        if (file[i].exists && file[i].inode == inode)
            return i;
    return -1;
}

/* Reads the folder as it is. */
static void scan(void)
{
    bool is_here[MOST_FILES] = { false };
    DIR *dir = opendir(folder);
    now.count = 0;
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[PATH_MAX + 256];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (lstat(path, &info) < 0 || !S_ISREG(info.st_mode) || now.count == MOST_FILES)
            continue;
        int i = file_of(info.st_ino);
        if (i < 0) {
            CHECK(num_files < MOST_FILES, "the harness knows no more than %d files", MOST_FILES);
            i = num_files++;
            file[i] = (File){ .inode = info.st_ino, .exists = true };
        }
        is_here[i] = true;
        Content content = content_of(path);
        const bool differs = !same_content(content, file[i].now);
        file[i].is_longer = content.count > file[i].now.count;
        file[i].previous = file[i].now.count;
        file[i].is_changed |= differs;
        file[i].is_overwritten |= differs && file[i].is_old;
        free(file[i].now.data);
        file[i].now = content;
        snprintf(now.name[now.count].name, sizeof now.name[0].name, "%s", entry->d_name);
        now.name[now.count++].file = i;
    }
    if (dir != NULL)
        closedir(dir);
    for (int i = 0; i < num_files; i++) {
        file[i].exists = is_here[i];
        file[i].is_old |= is_here[i] && disk->complete != old_complete;
    }
    old_complete = disk->complete;
}

typedef enum { AS_IT_IS, CUT, FLUSHED, ZEROS, MIXED } Version;

/* Returns the content that a crash leaves of a file. Free it. */
static Content version_of(const File *f, Version version)
{
    if (version == AS_IT_IS)
        return copy_content(f->now);
    if (version == CUT) {
        Content content = copy_content(f->now);
        if (f->is_longer) // half of what was written
            content.count = (f->previous + f->now.count) / 2;
        return content;
    }
    if (version == FLUSHED || !f->is_changed)
        return copy_content(f->is_flushed ? f->flushed : (Content){ 0 });
    Content content = copy_content(f->now); // ZEROS, MIXED
    for (size_t i = version == ZEROS ? 0 : content.count / 2; i < content.count; i++)
        content.data[i] = version == MIXED && i < f->flushed.count ? f->flushed.data[i] : 0;
    return content;
}

/* Returns names that are both present and flushed: removals may be flushed before new names. */
static Names only_removed(void)
{
    Names both = { .count = 0 };
    for (int i = 0; i < flushed.count; i++)
        for (int k = 0; k < now.count; k++)
            if (strcmp(flushed.name[i].name, now.name[k].name) == 0)
                both.name[both.count++] = flushed.name[i];
    return both;
}

/* Writes a folder with these names, unless an equal one has been written. */
static void write_image(const Names *names, Version version, const char *kind, const char *moment)
{
    uint32_t hash = (uint32_t)disk->complete;
    Content content[MOST_FILES];
    for (int i = 0; i < names->count; i++) {
        content[i] = version_of(&file[names->name[i].file], version);
        hash ^= (uint32_t)crc32_z(
            crc32_z(0, (const Bytef *)names->name[i].name, strlen(names->name[i].name)),
            content[i].data, content[i].count);
    }
    bool is_new = disk->num_images < DISK_IMAGES;
    for (int i = 0; is_new && i < disk->num_images; i++)
        is_new = seen[i] != hash;
    if (is_new) {
        char path[PATH_MAX + 300];
        const int number = disk->num_images;
        DiskImage *image = &disk->image[number];
        *image = (DiskImage){ .kind = kind,
                              .complete = disk->complete,
                              .removed = only_removed().count < flushed.count };
        snprintf(image->moment, sizeof image->moment, "%s", moment);
        seen[disk->num_images++] = hash;
        snprintf(path, sizeof path, "%s/%d", images, number);
        mkdir(path, 0777);
        for (int i = 0; i < names->count; i++) {
            snprintf(path, sizeof path, "%s/%d/%s", images, number, names->name[i].name);
            const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
            if (fd < 0 || write(fd, content[i].data, content[i].count) < 0)
                die("%s: %s", path, strerror(errno));
            close(fd);
        }
    }
    for (int i = 0; i < names->count; i++)
        free(content[i].data);
}

static void note(const char *moment)
{
    char text[200];
    bool overwritten = false, all_flushed = true, flushed_early = false;
    scan();
    for (int i = 0; i < now.count; i++) {
        const File *f = &file[now.name[i].file];
        overwritten |= f->is_overwritten;
        all_flushed &= !f->is_changed;
        flushed_early |= f->is_flushed && f->is_changed;
    }
    static Names both;
    both = only_removed();
    write_image(&now, AS_IT_IS, overwritten ? "in_place" : "half_read", moment);
    snprintf(text, sizeof text, "%s, half of it", moment);
    write_image(&now, CUT, overwritten ? "in_place" : "half_read", text);
    if (!with_power)
        return;
    const char *kind = overwritten ? "in_place" : flushed_early ? "flush" : "fsync";
    write_image(&flushed, FLUSHED, all_flushed ? "folder" : kind, moment);
    write_image(&now, FLUSHED, kind, moment);
    write_image(&now, ZEROS, kind, moment);
    write_image(&now, MIXED, kind, moment);
    write_image(&both, FLUSHED, all_flushed ? "folder" : kind, moment);
}

static void moment(const char *when, const char *call)
{
    if (inside)
        return;
    if (delay > 0 && !pthread_equal(pthread_self(), main_thread))
        usleep(delay);
    if (!watches)
        return;
    inside = true;
    char text[100];
    snprintf(text, sizeof text, "%s %s", when, call);
    pthread_mutex_lock(&lock);
    note(text);
    pthread_mutex_unlock(&lock);
    inside = false;
}

/* Notes, after fsync, that the file's content or the folder's names are on the disk. */
static void note_flush(int fd)
{
    struct stat info, ours;
    if (!watches || inside || fstat(fd, &info) < 0)
        return;
    inside = true;
    pthread_mutex_lock(&lock);
    scan();
    const int i = file_of(info.st_ino);
    if (S_ISDIR(info.st_mode) && stat(folder, &ours) == 0 && ours.st_ino == info.st_ino) {
        flushed = now;
    } else if (S_ISREG(info.st_mode) && i >= 0) {
        free(file[i].flushed.data);
        file[i].flushed = copy_content(file[i].now);
        file[i].is_flushed = true;
        file[i].is_changed = false;
    }
    pthread_mutex_unlock(&lock);
    inside = false;
}

static bool is_in_folder(const char *path)
{
    char parent[PATH_MAX], real[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return realpath(parent, real) != NULL && strcmp(real, folder) == 0;
}

static void note_rename(const char *from, const char *to)
{
    if (watches && !inside && from[0] == '/' && to[0] == '/' && is_in_folder(to) &&
        !is_in_folder(from))
        snprintf(disk->elsewhere, sizeof disk->elsewhere, "%s", from);
}

/* ---- the C library's functions ---- */

// Defines NAME, which calls the next function of that name; THEN is done after it.
#define WATCH(type, name, parameters, arguments, then) \
    type name parameters \
    { \
        static type(*real) parameters; \
        if (real == NULL) \
            *(void **)&real = dlsym(RTLD_NEXT, #name); \
        moment("before", #name); \
        type result = real arguments; \
        const int error = errno; \
        then; \
        moment("after", #name); \
        errno = error; \
        return result; \
    }

// Returns open's third argument, which is there only with O_CREAT or O_TMPFILE.
static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t)
                                                                      : 0;
}

int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    const int fd = real(path, flags, mode), error = errno;
    if ((flags & O_ACCMODE) != O_RDONLY)
        moment("after", "open");
    errno = error;
    return fd;
}

int openat(int dir, const char *path, int flags, ...)
{
    static int (*real)(int, const char *, int, ...);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "openat");
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    const int fd = real(dir, path, flags, mode), error = errno;
    if ((flags & O_ACCMODE) != O_RDONLY)
        moment("after", "openat");
    errno = error;
    return fd;
}

WATCH(int, creat, (const char *path, mode_t mode), (path, mode), )
WATCH(int, mkstemp, (char *path), (path), )
WATCH(FILE *, fopen, (const char *path, const char *mode), (path, mode), )
WATCH(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), )
WATCH(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), )
WATCH(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), )
WATCH(size_t, fwrite, (const void *data, size_t n, size_t m, FILE *f), (data, n, m, f), )
WATCH(int, fflush, (FILE * f), (f), )
WATCH(int, fclose, (FILE * f), (f), )
WATCH(int, ftruncate, (int fd, off_t size), (fd, size), )
WATCH(int, rename, (const char *from, const char *to), (from, to), note_rename(from, to))
WATCH(int, link, (const char *from, const char *to), (from, to), note_rename(from, to))
WATCH(int, unlink, (const char *path), (path), )
WATCH(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), )
WATCH(int, remove, (const char *path), (path), )
WATCH(int, fsync, (int fd), (fd), result == 0 ? note_flush(fd) : (void)0)
WATCH(int, fdatasync, (int fd), (fd), result == 0 ? note_flush(fd) : (void)0)

/* ---- for the harness ---- */

static int count_threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

void disk_watch(const char *path, const char *to, DiskLog *log, bool power)
{
    inside = true;
    CHECK(realpath(path, folder) != NULL, "%s: %s", path, strerror(errno));
    snprintf(images, sizeof images, "%s", to);
    disk = log;
    with_power = power;
    num_files = 0;
    scan();
    flushed = now;
    for (int i = 0; i < num_files; i++) {
        file[i].flushed = copy_content(file[i].now);
        file[i].is_flushed = true;
        file[i].is_changed = false;
    }
    inside = false;
    watches = true;
}

void disk_delay_threads(unsigned microseconds)
{
    main_thread = pthread_self();
    delay = microseconds;
}

void disk_look(void)
{
    moment("after", "all calls");
}

bool disk_wait_for_threads(void)
{
    if (num_threads == 0)
        num_threads = count_threads();
    for (int i = 0; i < 2000 && count_threads() > num_threads; i++)
        usleep(5000);
    return count_threads() <= num_threads;
}
