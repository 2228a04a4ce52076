/* The variables that identify a rank. Their names are torchrun's, on which programs rely. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "launcher/launch.h"

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    SYS_CHECK(setenv(name, text, 1));
}

static void set_text(const char *name, const char *text, bool replace)
{
    SYS_CHECK(setenv(name, text, replace));
}

void rank_set_environment(const Flags *flags, const Agents *agents, const Logs *logs,
                          int local_rank, int restart_count)
{
    set_number("RANK", agents->ranks.first_rank + local_rank); // in the whole job
    set_number("WORLD_SIZE", agents->ranks.world_size);
    set_number("LOCAL_RANK", local_rank); // on this node; picks the device
    set_number("LOCAL_WORLD_SIZE", flags->nproc_per_node);
    set_number("GROUP_RANK", flags->node_rank);
    set_number("GROUP_WORLD_SIZE", flags->max_nodes);
    set_text("ROLE_NAME", flags->role, true);
    set_number("ROLE_RANK", agents->ranks.first_role_rank + local_rank);
    set_number("ROLE_WORLD_SIZE", agents->ranks.role_world_size);

    set_text("MASTER_ADDR", flags->master_addr, true); // where the store is
    set_number("MASTER_PORT", agents->master_port);
    set_text("TORCHELASTIC_USE_AGENT_STORE", "True", true); // the launcher serves it
    set_text("TORCHELASTIC_RUN_ID", flags->run_id, true);
    set_number("TORCHELASTIC_RESTART_COUNT", restart_count);
    set_number("TORCHELASTIC_MAX_RESTARTS", flags->max_restarts);

    char error_file[PATH_MAX];
    logs_path(logs, local_rank, "error.json", error_file);
    set_text("TORCHELASTIC_ERROR_FILE", error_file, true); // a rank writes its error there
    set_text("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", true);
    set_text("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", false);

    // Several ranks that each start a thread per core would only get in each other's way.
    char threads[16];
    const int share = host_num_cores() / flags->nproc_per_node;
    snprintf(threads, sizeof threads, "%d", share > 1 ? share : 1);
    if (flags->nproc_per_node > 1)
        set_text("OMP_NUM_THREADS", threads, false);
}
