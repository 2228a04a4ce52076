/* A launcher inside a requeued job counts from 0 again: hence the sum. */
#include "common/dist/restarts.h"

#include "common/base/host.h"

int restart_count(void)
{
    return host_env_count("TORCHELASTIC_RESTART_COUNT") + host_env_count("SLURM_RESTART_COUNT");
}
