/* Faults come before the check, which should find them. */
#include "common/fault/watch.h"

#include "common/fault/check_sync.h"

void watch_init(Watch *watch, const Args *args, int rank, int world_size)
{
    watch->args = args;
    injector_init(&watch->injector, args, rank, world_size);
    flight_recorder_init(&watch->recorder, args, rank, world_size);
}

void watch_group(Watch *watch, ProcessGroup *pg)
{
    watch->pg = pg;
    flight_recorder_join(&watch->recorder, pg);
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
}
