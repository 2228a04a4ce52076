/* Creates a folder and its missing parents, from the top down. Several ranks may do so at once, and
 * existing parts may be on a read-only file system, so a failure counts only if the folder does not
 * exist afterwards. */
#include "common/base/folder.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

bool folder_try(const char *path)
{
    char part[PATH_MAX];
    errno = ENAMETOOLONG;
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return false;
    for (size_t i = 1; i <= strlen(path); i++) { // from 1, because the root exists
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        const int reason = mkdir(part, 0777) < 0 ? errno : 0;
        struct stat status;
        if (reason != 0 && (stat(part, &status) < 0 || !S_ISDIR(status.st_mode))) {
            errno = reason;
            return false;
        }
        part[i] = path[i];
    }
    return true;
}

void folder_create(const char *path, const char *option)
{
    CHECK(folder_try(path), "cannot create the folder %s: %s: name another with %s", path,
          strerror(errno), option);
}

void folder_check(const char *path, const char *option)
{
    // Goes up to what exists. A dangling link exists too, and no folder can take its place.
    char *copy = strdup(path), *part = copy, probe[PATH_MAX];
    CHECK(copy != NULL, "out of memory");
    struct stat status;
    while (lstat(part, &status) < 0 && errno == ENOENT)
        part = dirname(part);

    // Permissions do not show whether the disk is full or read-only.
    errno = ENAMETOOLONG;
    if (snprintf(probe, sizeof probe, "%s/.probe.XXXXXX", part) >= (int)sizeof probe ||
        mkdtemp(probe) == NULL)
        usage_error("cannot write into the folder %s: %s: name another with %s", part,
                    strerror(errno), option);
    rmdir(probe);
    free(copy);
}
