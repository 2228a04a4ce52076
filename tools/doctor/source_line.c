/*
 * addr2line reads the line numbers that the compiler stored in the program's file (-g). The
 * innermost frames belong to the collective and the recorder; the first frame outside them made the
 * call.
 */
#include "tools/doctor/source_line.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"

#define TIMEOUT_SECONDS 10.0
#define OUTPUT_BYTES 8192

extern char **environ;

/* Returns true if the program's file is the one that ran. */
static bool program_is_same(const FlightRecord *record)
{
    struct stat status;
    return record->program[0] == '/' && stat(record->program, &status) == 0 &&
           S_ISREG(status.st_mode) &&
           status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec ==
               record->program_ns;
}

/* Returns the pid of addr2line, whose output comes on fd; 0 if it cannot be started. */
static pid_t start_addr2line(const FlightRecord *record, const FlightEntry *entry, int *fd)
{
    char address[FLIGHT_FRAMES][24];
    char *argv[4 + FLIGHT_FRAMES] = { "addr2line", "-e", (char *)record->program };
    for (int i = 0; i < FLIGHT_FRAMES && entry->frame[i] != 0; i++) {
        snprintf(address[i], sizeof address[i], "%#llx", (unsigned long long)entry->frame[i]);
        argv[3 + i] = address[i];
    }
    int ends[2];
    SYS_CHECK(pipe(ends));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    if (argv[3] == NULL || posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *fd = ends[0];
    return pid;
}

/* Reads the output of addr2line, a line for each frame; "" if it fails. */
static void run_addr2line(const FlightRecord *record, const FlightEntry *entry,
                          char output[OUTPUT_BYTES])
{
    int fd;
    size_t size = 0;
    const pid_t pid = start_addr2line(record, entry, &fd);
    const double deadline = seconds_now() + TIMEOUT_SECONDS;
    while (pid > 0 && size < OUTPUT_BYTES - 1) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        if (poll(&ready, 1, (int)(1e3 * fmax(0, deadline - seconds_now()))) <= 0)
            break;
        const ssize_t n = read(fd, output + size, OUTPUT_BYTES - 1 - size);
        if (n <= 0)
            break;
        size += (size_t)n;
    }
    output[size] = '\0';
    close(fd);
    if (pid > 0) {
        kill(pid, SIGKILL); // no effect if it has ended
        waitpid(pid, NULL, 0);
    }
}

/* Returns true if this frame is part of every call, wherever it is made. */
static bool is_plumbing(const char *line)
{
    static const char *const files[] = {
        "/common/comm/collective.c",
        "/extras/hierarchical/hierarchy.c",
        "/05_fault_tolerance/checks/flight_recorder.c",
        "/05_fault_tolerance/checks/check_sync.c",
        "/05_fault_tolerance/snapshots.c",
        "/05_fault_tolerance/diagnostics.c",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strstr(line, files[i]) != NULL)
            return true;
    return line[0] == '?';
}

/* Cuts "/home/me/ddp/train.c:26 (discriminator 2)" to "train.c:26"; "" if no line is known. */
static void shorten(char *line)
{
    line[strcspn(line, " ")] = '\0';
    const char *slash = strrchr(line, '/');
    if (slash != NULL)
        memmove(line, slash + 1, strlen(slash));
    if (line[0] == '\0' || line[strlen(line) - 1] == '?')
        line[0] = '\0';
}

char *source_line(const FlightRecord *record, const FlightEntry *entry,
                  char text[SOURCE_LINE_BYTES])
{
    char output[OUTPUT_BYTES] = "", *caller = NULL, *cause = NULL, *rest = output;
    if (program_is_same(record))
        run_addr2line(record, entry, output);
    for (char *line; cause == NULL && (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] != '/' || is_plumbing(line))
            continue;
        if (caller == NULL)
            caller = line;
        if (strstr(line, "/common/") == NULL)
            cause = line;
    }
    if (caller != NULL)
        shorten(caller);
    if (cause != NULL && cause != caller)
        shorten(cause);
    if (caller == NULL || caller[0] == '\0') {
        const char *slash = strrchr(record->program, '/');
        snprintf(text, SOURCE_LINE_BYTES, "%.48s+%#llx", slash != NULL ? slash + 1 : "?",
                 (unsigned long long)entry->frame[3]); // the first that is not plumbing
    } else if (cause == NULL || cause == caller) {
        snprintf(text, SOURCE_LINE_BYTES, "%s", caller);
    } else {
        snprintf(text, SOURCE_LINE_BYTES, "%s (%s)", cause, caller);
    }
    return text;
}
