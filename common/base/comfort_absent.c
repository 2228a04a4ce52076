/* A build without extras/comfort. */
#include "common/base/comfort.h"

#include <limits.h>

const char *comfort_nearest(const char *typed, size_t length, const char *const names[])
{
    (void)typed, (void)length, (void)names;
    return NULL;
}

int comfort_core_quota(void)
{
    return INT_MAX;
}

void comfort_tell_of_crowd(int num_ranks)
{
    (void)num_ranks;
}

int comfort_gpus_listed(void)
{
    return 0;
}

const char *comfort_start_advice(const char *program, int error)
{
    (void)program, (void)error;
    return "";
}

void comfort_port_owner(int port, char *text, size_t bytes)
{
    (void)port, (void)text, (void)bytes;
}
