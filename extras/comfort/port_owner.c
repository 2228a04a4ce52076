/*
 * Which process holds a port. The kernel shows it in two steps: /proc/net/tcp gives the number
 * (inode) of the socket, and one of the links in some /proc/PID/fd has it. Only root may read the
 * links of other users' processes.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extras/comfort/parts.h"

#define NAME_BYTES 64

/* Returns the inode of a local socket on this port; 0 if none is visible. */
static unsigned long find_socket(const char *table, int port)
{
    FILE *file = fopen(table, "r");
    if (file == NULL)
        return 0;
    unsigned long found = 0;
    char line[512];
    while (found == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned local_port = 0;
        unsigned long inode = 0;
        // Number, local and remote address, state, queues, timer, retries, user, timeout, inode.
        if (sscanf(line, " %*d: %*[^:]:%x %*s %*s %*s %*s %*s %*s %*s %lu", &local_port, &inode) ==
                2 &&
            local_port == (unsigned)port)
            found = inode; // 0 for a lingering connection without an owner
    }
    fclose(file);
    return found;
}

/* Returns true if a process has this socket. */
static bool has_socket(const char *pid, unsigned long inode)
{
    char path[NAME_BYTES], wanted[NAME_BYTES];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    DIR *folder = opendir(path);
    bool found = false;
    for (const struct dirent *fd; folder != NULL && !found && (fd = readdir(folder)) != NULL;) {
        char target[NAME_BYTES] = "";
        found = readlinkat(dirfd(folder), fd->d_name, target, sizeof target - 1) > 0 &&
                strcmp(target, wanted) == 0;
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* Writes "python3 (pid 4711)". */
static void describe_process(const char *pid, char *text, size_t bytes)
{
    char path[NAME_BYTES], name[NAME_BYTES] = "?";
    snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fgets(name, sizeof name, file) != NULL)
            name[strcspn(name, "\n")] = '\0';
        fclose(file);
    }
    snprintf(text, bytes, " by %s (pid %.16s)", name, pid);
}

void comfort_port_owner(int port, char *text, size_t bytes)
{
    unsigned long inode = find_socket("/proc/net/tcp", port);
    if (inode == 0)
        inode = find_socket("/proc/net/tcp6", port);
    DIR *processes = inode != 0 ? opendir("/proc") : NULL;
    for (const struct dirent *at; processes != NULL && (at = readdir(processes)) != NULL;) {
        if (atoi(at->d_name) > 0 && has_socket(at->d_name, inode)) {
            describe_process(at->d_name, text, bytes);
            break;
        }
    }
    if (processes != NULL)
        closedir(processes);
}
