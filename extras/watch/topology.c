/* Each rank writes its line to the store, and rank 0 prints them. */
#include "extras/watch/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/dist_env.h"

void topology_place(const ProcessGroup *pg, char line[PLACE_BYTES])
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

void topology_print(const ProcessGroup *pg)
{
    char line[PLACE_BYTES], key[STORE_KEY_BYTES];
    topology_place(pg, line);
    if (pg->store == NULL) { // ranks of MPI have no store
        log_info("rank %d: %s", pg->rank, line);
        return;
    }
    store_set(pg->store, process_group_key(pg, "place of rank", pg->rank, key), line, strlen(line));
    for (int rank = 0; pg->rank == 0 && rank < pg->world_size; rank++) {
        char theirs[PLACE_BYTES] = "";
        process_group_key(pg, "place of rank", rank, key);
        CHECK(store_try_wait(pg->store, key, pg->timeout), "rank %d did not say where it is", rank);
        store_get(pg->store, key, theirs, sizeof theirs - 1);
        log_info("rank %d: %s", rank, theirs);
    }
}
