/* Faults are injected before the check, so that the check can find them. */
#include "05_fault_tolerance/diagnostics.h"

#include <unistd.h>

#include "05_fault_tolerance/checks/check_sync.h"
#include "05_fault_tolerance/checks/folder_lock.h"
#include "05_fault_tolerance/checks/reduce_order.h"
#include "05_fault_tolerance/stop.h"
#include "common/base/folder.h"

void diagnostics_parse_args(Args *args, int argc, char **argv)
{
    args_parse(args, STEP_FAULT, argc, argv);
    faults_check(args);
}

void diagnostics_init(Diagnostics *diagnostics, const Args *args, int rank, int world_size)
{
    diagnostics->args = args;
    reduce_order_check(args, world_size);
    if (rank == 0) // before the rendezvous, so that no rank can report rank 0 as gone
        folder_check(args->checkpoint_dir, "--checkpoint-dir");
    diagnostics->lock = rank == 0 ? folder_lock(args->checkpoint_dir) : -1;
    diagnostics->waits = rank > 0 && folder_lock_is_foreign(args->checkpoint_dir);
    injector_init(&diagnostics->injector, args, rank, world_size);
    if (!diagnostics->waits)
        flight_recorder_init(&diagnostics->recorder, args, rank, world_size);
}

void diagnostics_group(Diagnostics *diagnostics, ProcessGroup *pg)
{
    diagnostics->pg = pg;
    if (diagnostics->waits) // rank 0 is here, so it has the folder
        flight_recorder_init(&diagnostics->recorder, diagnostics->args, pg->rank, pg->world_size);
    diagnostics->waits = false;
    reduce_order_set(diagnostics->args, pg);
    flight_recorder_join(&diagnostics->recorder, pg);
    stop_joined();
}

void diagnostics_model(Diagnostics *diagnostics, const Optimizer *optim)
{
    diagnostics->optim = optim;
    injector_attach(&diagnostics->injector, optim->model);
}

void diagnostics_step(Diagnostics *diagnostics)
{
    flight_recorder_step(&diagnostics->recorder, diagnostics->args, diagnostics->optim);
    injector_step(&diagnostics->injector);
    check_sync(diagnostics->args, diagnostics->pg, diagnostics->optim);
}

void diagnostics_free(Diagnostics *diagnostics)
{
    flight_recorder_free(&diagnostics->recorder);
    if (diagnostics->lock >= 0)
        close(diagnostics->lock);
}
