/*
 * Four kinds of comfort; port_owner.c and gpus_listed.c have two more. The name that the user meant
 * is the one with the least Levenshtein distance (1965): how few letters have to be inserted,
 * deleted or replaced.
 */
#include "common/base/comfort.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"

#define CGROUPS "/sys/fs/cgroup"
#define CROWD 16 // more ranks per core than this start slowly

enum { NAME_BYTES = 64 }; // longer than any name

/* A name that was cut short is at no distance. Keeps one row of the table of distances between the
 * beginnings of both. */
static size_t edit_distance(const char *name, const char *typed, size_t length)
{
    size_t row[NAME_BYTES]; // row[j]: from the letters typed so far to the first j of the name
    const size_t n = strnlen(name, NAME_BYTES - 1);
    if (length > 0 && name_begins(name, typed, length))
        return 0;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; i < length; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            const size_t replaced = diagonal + (name[j - 1] != typed[i]);
            const size_t inserted = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
            diagonal = row[j];
            row[j] = replaced < inserted ? replaced : inserted;
        }
    }
    return row[n];
}

/* Of equals the first. Of what is longer than any name the beginning counts. */
const char *comfort_nearest(const char *typed, size_t length, const char *const names[])
{
    char letters[NAME_BYTES];
    size_t count = 0;
    for (; count < length && count < NAME_BYTES; count++)
        letters[count] = typed[count] == '_' ? '-' : typed[count];

    const char *found = NULL;
    size_t best = length / 2 + 1;
    for (; *names != NULL; names++) {
        const size_t distance = edit_distance(*names, letters, count);
        if (distance < best) {
            best = distance;
            found = *names;
        }
    }
    return found;
}

/* "max 100000" or "150000 100000", microseconds of CPU per period. INT_MAX: no quota. */
static int quota_of(const char *folder)
{
    char path[PATH_MAX + sizeof "/cpu.max"];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return INT_MAX;
    long quota = 0, period = 0;
    const int fields = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    if (fields != 2 || quota <= 0 || period <= 0 || quota / period > INT_MAX)
        return INT_MAX;
    return quota > period ? (int)(quota / period) : 1;
}

/* cgroup v2: the line "0::/a/b" names this process's group, and the quotas of those above hold for
 * it, too. In a container that sees no further, it is "/". */
int comfort_core_quota(void)
{
    char line[PATH_MAX], group[PATH_MAX + sizeof CGROUPS] = CGROUPS;
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(group, sizeof group, CGROUPS "%s", line + 3);
    }
    if (file != NULL)
        fclose(file);
    int cores = quota_of(group);
    while (strlen(group) > strlen(CGROUPS)) {
        *strrchr(group, '/') = '\0';
        const int quota = quota_of(group);
        cores = quota < cores ? quota : cores;
    }
    return cores;
}

void comfort_tell_of_crowd(int num_ranks)
{
    const int num_cores = num_ranks > CROWD ? host_num_cores() : 1; // counting them reads files
    if (num_ranks > CROWD * num_cores)
        log_info("%d ranks share %d core%s: it takes a while until all have come", num_ranks,
                 num_cores, num_cores == 1 ? "" : "s");
}

const char *comfort_start_advice(const char *program, int error)
{
    struct stat file;
    if (isdigit((unsigned char)program[0]) &&
        program[strspn(program, "0123456789")] == '\0') // as run.sh has it
        return ": a program is expected here; the number of ranks goes behind --nproc-per-node";
    if (stat(program, &file) == 0 && S_ISDIR(file.st_mode))
        return "; it is a folder here: name a program in it";
    if (stat(program, &file) != 0 || !S_ISREG(file.st_mode))
        return "";
    if (strchr(program, '/') == NULL)
        return error == ENOENT ? "; it is here, but not in PATH: write ./ in front" : "";
    return error == EACCES && access(program, X_OK) != 0 ? "; it is not executable: see chmod +x"
                                                         : "";
}
