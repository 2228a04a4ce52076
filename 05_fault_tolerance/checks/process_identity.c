/* /proc/PID/stat: "42 (name) S 1 ...". The name may contain anything, even brackets and blanks.
 * /proc/PID/status has a line for each property. */
#include "05_fault_tolerance/checks/process_identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define START_TIME 22 // fields are counted from 1, see proc(5)

uint64_t process_start_ticks(pid_t pid, char *state)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    const size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = '\0';

    const char *field = strrchr(line, ')'); // the end of the second field
    if (field == NULL)
        return 0;
    if (state != NULL)
        sscanf(field, ") %c", state);
    for (int i = 2; i < START_TIME && field != NULL; i++)
        field = strchr(field + 1, ' ');
    uint64_t ticks = 0;
    if (field == NULL || sscanf(field, "%" SCNu64, &ticks) != 1)
        return 0;
    return ticks;
}

bool process_catches(pid_t pid, int signal)
{
    char path[64], line[128];
    uint64_t caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "SigCgt: %" SCNx64, &caught) != 1)
        continue;
    if (file != NULL)
        fclose(file);
    return (caught >> (signal - 1) & 1) != 0;
}
