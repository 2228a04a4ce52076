/* An all_gather, unlike messages to rank 0, needs no connection between that and every rank. */
#include "extras/watch/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/dist_env.h"

static void describe_place(const ProcessGroup *pg, char line[PLACE_BYTES])
{
    char host[64] = "", cores[DIST_ENV_CORES_BYTES], device[16] = "cpu";
    const Launcher *launcher = launcher_find();
    const char *node = launcher != NULL && launcher->node != NULL ? getenv(launcher->node) : NULL;
    const char *local_rank = launcher != NULL ? getenv(launcher->local_rank) : NULL;
    gethostname(host, sizeof host - 1);
    if (pg->place.on_gpu)
        snprintf(device, sizeof device, "cuda:%d", pg->place.index);
    snprintf(line, PLACE_BYTES, "%s%.16s%shost %s, local rank %.16s, %s, cores %s",
             node != NULL ? "node " : "", node != NULL ? node : "", node != NULL ? ", " : "", host,
             launcher == NULL     ? "0"
             : local_rank != NULL ? local_rank
                                  : "?",
             device, dist_env_cores(cores));
}

char *topology_gather(ProcessGroup *pg)
{
    char line[PLACE_BYTES] = "", *places = mem_calloc((size_t)pg->world_size, PLACE_BYTES);
    describe_place(pg, line);
    all_gather(pg, line, places, PLACE_BYTES, UINT8);
    return places;
}

void topology_print(ProcessGroup *pg)
{
    char *places = topology_gather(pg);
    for (int rank = 0; pg->rank == 0 && rank < pg->world_size; rank++)
        log_info("rank %d: %s", rank, places + (size_t)rank * PLACE_BYTES);
    free(places);
}
