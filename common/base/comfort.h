/*
 * comfort.h - what makes a message more helpful, or a default wiser, without being needed.
 *
 * It is in extras/comfort. A build without it knows no nearest name, no quota and no crowd.
 */
#ifndef COMMON_BASE_COMFORT_H
#define COMMON_BASE_COMFORT_H

#include <stdbool.h>
#include <stddef.h>

/* The name closest to what was typed, of those before a NULL; NULL: none is close enough to have
 * been meant. */
const char *comfort_nearest(const char *typed, size_t length, const char *const names[]);

/* How many cores' time this process gets, by the CPU quotas of its control groups; INT_MAX: no
 * quota. */
int comfort_core_quota(void);

/* Says so if there are so many ranks per core that starting them takes long: silence would look
 * like a hang. */
void comfort_tell_of_crowd(int num_ranks);

/* How many GPUs the driver's files list, for a launcher that was built without CUDA; 0: none. They
 * know less than CUDA does: WSL has no such files. */
int comfort_gpus_listed(void);

/* Why this program cannot be started, and what to do; "" if errno says it all. */
const char *comfort_start_advice(const char *program, int error);

/* Writes " by NAME (pid N)", the process that listens on a local port, if that can be found out. */
void comfort_port_owner(int port, char *text, size_t bytes);

/* Does this name begin with what was typed? - and _ are the same. Needed in any build. */
static inline bool name_begins(const char *name, const char *typed, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] != (typed[i] == '_' ? '-' : typed[i]))
            return false;
    return true;
}

#endif
