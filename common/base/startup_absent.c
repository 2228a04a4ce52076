/* A build without extras/comfort. */
#include "common/base/startup.h"

void startup_settings(Settings *settings)
{
    (void)settings;
}

void startup_announce(const void *args, int world_size, const char *device)
{
    (void)args, (void)world_size, (void)device;
}

struct json_t *startup_options(const void *args)
{
    (void)args;
    return NULL;
}
