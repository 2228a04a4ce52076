/* Faults come before the check, which should find them. */
#include "05_fault_tolerance/watch.h"

#include <unistd.h>

#include "05_fault_tolerance/check_sync.h"
#include "05_fault_tolerance/folder_lock.h"
#include "05_fault_tolerance/stop.h"
#include "common/base/folder.h"

void watch_init(Watch *watch, const Args *args, int rank, int world_size)
{
    watch->args = args;
    if (rank == 0) // here already, where nobody waits for rank 0 yet and would say that it is gone
        folder_check(args->checkpoint_dir, "--checkpoint-dir");
    watch->lock = rank == 0 ? folder_lock(args->checkpoint_dir) : -1;
    watch->waits = rank > 0 && folder_lock_is_foreign(args->checkpoint_dir);
    injector_init(&watch->injector, args, rank, world_size);
    if (!watch->waits)
        flight_recorder_init(&watch->recorder, args, rank, world_size);
}

void watch_group(Watch *watch, ProcessGroup *pg)
{
    watch->pg = pg;
    if (watch->waits) // rank 0 is here, so it has the folder
        flight_recorder_init(&watch->recorder, watch->args, pg->rank, pg->world_size);
    flight_recorder_join(&watch->recorder, pg);
    stop_joined();
}

void watch_model(Watch *watch, const Optimizer *optim)
{
    watch->optim = optim;
    injector_attach(&watch->injector, optim->model);
}

void watch_step(Watch *watch)
{
    injector_step(&watch->injector);
    check_sync(watch->args, watch->pg, watch->optim);
}

void watch_free(Watch *watch)
{
    flight_recorder_free(&watch->recorder);
    if (watch->lock >= 0)
        close(watch->lock);
}
