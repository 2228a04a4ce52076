/* A process that is killed while it writes a checkpoint leaves a temporary file. Another run may be
 * writing here now: what is taken from it, it writes again (safetensors_commit). */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extras/comfort/parts.h"

void leftovers_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    struct stat status;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (fnmatch("*.safetensors.[0-9]*.tmp", entry->d_name, 0) == 0 &&
            fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}
