/*
 * A disk shared by all nodes is slow for hundreds of ranks, a node's own disk is fast. So one rank
 * of each node copies the files. They have temporary names until complete, because on a machine
 * that stands in for several nodes two ranks copy to the same place.
 */
#include "common/data/scratch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/data/dataset.h"

/* Reads a file to its end and returns its checksum. Writes it to `copy`, which lies at `aside`,
 * unless they are NULL. If it cannot be read, dies and leaves no partial copy. */
static uLong read_through(const char *path, FILE *copy, const char *aside)
{
    static Bytef buffer[1 << 16];
    uLong checksum = 0;
    FILE *file = fopen(path, "rb");
    for (size_t n; file != NULL && (n = fread(buffer, 1, sizeof buffer, file)) > 0;) {
        checksum = crc32_z(checksum, buffer, n);
        if (copy != NULL && fwrite(buffer, 1, n, copy) < n)
            break; // reported by ferror below
    }
    if (file == NULL || ferror(file)) {
        const int reason = errno;
        if (aside != NULL)
            unlink(aside);
        die("%s: %s", path, strerror(reason));
    }
    fclose(file);
    return checksum;
}

static void copy_file(const char *from, const char *to)
{
    char aside[PATH_MAX + 16];
    snprintf(aside, sizeof aside, "%s.%d", to, (int)getpid());
    unlink(aside); // left by a killed run, or a link
    FILE *copy = fopen(aside, "wbx");
    CHECK(copy != NULL, "%s: %s: name another folder with --scratch-dir", aside, strerror(errno));
    const uLong checksum = read_through(from, copy, aside);
    const char *problem = NULL;
    if (ferror(copy) || fclose(copy) != 0)
        problem = strerror(errno);
    else if (read_through(aside, NULL, aside) != checksum)
        problem = "the copy is not the same as the file";
    else if (rename(aside, to) < 0)
        problem = strerror(errno);
    if (problem != NULL) {
        unlink(aside);
        die("%s: %s: name another folder with --scratch-dir", aside, problem);
    }
}

void scratch_fill(const Args *args)
{
    if (args->scratch_dir == NULL || args->dataset != DATASET_MNIST)
        return;
    const double start = seconds_now();
    int num_copied = 0;
    folder_create(args->scratch_dir, "--scratch-dir");
    for (int i = 0; i < MNIST_FILES; i++) {
        char from[PATH_MAX], to[PATH_MAX], found[PATH_MAX];
        idx_find(args->data_dir, mnist_files[i], from);
        const int length = snprintf(to, sizeof to, "%s%s", args->scratch_dir, strrchr(from, '/'));
        CHECK(length < PATH_MAX, "the path of --scratch-dir is too long: %s", args->scratch_dir);
        struct stat status; // opening a pipe would block; the copy replaces it
        const bool is_file = stat(to, &status) == 0 && S_ISREG(status.st_mode);
        if (!is_file || read_through(to, NULL, NULL) != read_through(from, NULL, NULL)) {
            copy_file(from, to);
            num_copied++;
        }
        // A file name has several spellings, so another set's file may be found first.
        idx_find(args->scratch_dir, mnist_files[i], found);
        CHECK(strcmp(found, to) == 0,
              "%s would be read instead of %s: move it away, or name another folder with "
              "--scratch-dir",
              found, to);
    }
    log_info("copied %d of %d files from %s to %s in %.2f s", num_copied, MNIST_FILES,
             args->data_dir, args->scratch_dir, seconds_now() - start);
}
