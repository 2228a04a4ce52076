/* A build without extras/comfort. */
#include "common/base/startup.h"

void startup_settings(Settings *settings)
{
    (void)settings;
}

void startup_announce(const void *args, const char *model, const char *dataset, int batch_size,
                      int world_size, const char *device)
{
    (void)args, (void)model, (void)dataset, (void)batch_size, (void)world_size, (void)device;
}

struct json_t *startup_options(const void *args)
{
    (void)args;
    return NULL;
}
