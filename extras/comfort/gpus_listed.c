/* GPUs are those that the driver lists, or the subset in CUDA_VISIBLE_DEVICES. */
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "extras/comfort/parts.h"

static int count_files(const char *pattern)
{
    glob_t found;
    const int count = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* Counts the GPUs. The driver has a folder for each, in containers sometimes only the device files.
 * CUDA reads CUDA_VISIBLE_DEVICES up to the first invalid entry. */
int comfort_gpus_listed(void)
{
    int present = count_files("/proc/driver/nvidia/gpus/*");
    if (present == 0)
        present = count_files("/dev/nvidia[0-9]*");
    const char *entry = getenv("CUDA_VISIBLE_DEVICES");
    if (entry == NULL || present == 0)
        return present;

    int visible = 0;
    while (*entry != '\0' && *entry != ',' && visible < present) {
        char *end = NULL;
        const long index = strtol(entry, &end, 10);
        const bool is_index = end != entry && (*end == ',' || *end == '\0');
        if (is_index && (index < 0 || index >= present))
            break;
        visible++; // an index, or an identifier such as GPU-8932f937
        entry += strcspn(entry, ",");
        entry += *entry == ',';
    }
    return visible;
}
