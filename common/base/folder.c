/*
 * Creates a folder and those above it, one after the other.
 *
 * Several ranks may do so at once, and existing parts may be on a read-only file system: so a
 * failure counts only if there is no folder afterwards.
 */
#include "common/base/folder.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

static char *copy_of(const char *path)
{
    char *copy = strdup(path);
    CHECK(copy != NULL, "out of memory");
    return copy;
}

/* False and errno on failure; part, a copy of the path, then ends at the component at fault. */
static bool create_parts(const char *path, char *part)
{
    for (size_t i = 1; i <= strlen(path); i++) { // 1: the root is there
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        struct stat status;
        if (mkdir(part, 0777) < 0) {
            const int reason = errno;
            const bool is_there = stat(part, &status) == 0 && S_ISDIR(status.st_mode);
            errno = reason;
            if (!is_there)
                return false;
        }
        part[i] = path[i];
    }
    return true;
}

void folder_create(const char *path, const char *option)
{
    char *part = copy_of(path);
    CHECK(create_parts(path, part), "cannot create the folder %s: %s: name another with %s", part,
          strerror(errno), option);
    free(part);
}

bool folder_try(const char *path)
{
    char *part = copy_of(path);
    const bool created = create_parts(path, part);
    free(part); // leaves errno as it is
    return created;
}

void folder_check(const char *path, const char *option)
{
    // Up to what exists. A dangling link exists too, and no folder can take its place.
    char *copy = copy_of(path), *part = copy;
    struct stat status;
    while (lstat(part, &status) < 0 && errno == ENOENT)
        part = dirname(part);

    // Permissions are not enough: the disk may be full or read-only, or the folder may accept no
    // files. So try.
    char probe[PATH_MAX];
    const int length = snprintf(probe, sizeof probe, "%s/.probe.XXXXXX", part);
    errno = ENAMETOOLONG;
    if (length >= (int)sizeof probe || mkdtemp(probe) == NULL)
        usage_error("cannot write into the folder %s: %s: name another with %s", part,
                    strerror(errno), option);
    rmdir(probe);
    free(copy);
}
