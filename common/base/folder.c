/*
 * Creates a folder and those above it, one after the other.
 *
 * Several ranks may do so at once, and what is there already may lie on a file system that cannot
 * be written to: so a failure counts only where no folder is afterwards.
 */
#include "common/base/folder.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/log.h"

void folder_create(const char *path)
{
    char *part = strdup(path);
    CHECK(part != NULL, "out of memory");
    for (size_t i = 1; i <= strlen(path); i++) { // 1: the root is there
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        struct stat status;
        if (mkdir(part, 0777) < 0) {
            const int reason = errno;
            CHECK(stat(part, &status) == 0 && S_ISDIR(status.st_mode),
                  "cannot create the folder %s: %s", part, strerror(reason));
        }
        part[i] = path[i];
    }
    free(part);
}
