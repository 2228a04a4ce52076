/*
 * watch - what step 05's watching costs: the flight record for each collective, --check-sync for
 * each comparison. Rank 0's medians, and beside them an all-reduce of one number and a training
 * step's worth of parameters (the CNN with momentum).
 *
 *     03_torchrun_env/ddprun --nproc-per-node 2 build/bench/watch
 */
#include "05_fault_tolerance/checks/check_sync.h"
#include "05_fault_tolerance/checks/flight_recorder.h"
#include "bench/median.h"
#include "common/base/log.h"
#include "common/base/words.h"
#include "common/comm/env.h"

enum { TURNS = 15, RECORDS = 20000, CALLS = 1000, CHECKS = 5 };

/* Times what the recorder does for one collective, without the collective. */
static double record_seconds(ProcessGroup *pg)
{
    const double start = seconds_now();
    for (int i = 0; i < RECORDS; i++) {
        const Collective call = { .pg = pg, .op_id = pg->calls.count++, .kind = BARRIER };
        collective_report(&call, COLLECTIVE_SCHEDULED);
        collective_report(&call, COLLECTIVE_STARTED);
        collective_report(&call, COLLECTIVE_COMPLETED);
    }
    return (seconds_now() - start) / RECORDS;
}

static double call_seconds(ProcessGroup *pg)
{
    barrier(pg);
    const double start = seconds_now();
    for (int i = 0; i < CALLS; i++)
        all_reduce_scalar(pg, 1, REDUCE_SUM);
    return (seconds_now() - start) / CALLS;
}

static double check_seconds(const Args *args, ProcessGroup *pg, const Optimizer *optim)
{
    barrier(pg);
    const double start = seconds_now();
    for (int i = 0; i < CHECKS; i++)
        check_sync(args, pg, optim);
    return (seconds_now() - start) / CHECKS;
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 0,
                "Usage: 03_torchrun_env/ddprun --nproc-per-node 2 build/bench/watch\n\n"
                "What step 05's flight record and --check-sync cost.\n");
    Args args;
    args_defaults(&args, "cnn");
    args.check_sync = 1;
    args.threads = 1;
    args.checkpoint_dir = "build/bench/records";
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    ProcessGroup pg;
    process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                       (MemoryLocation){ 0 });
    FlightRecorder recorder;
    flight_recorder_init(&recorder, &args, rank, world_size);
    flight_recorder_join(&recorder, &pg);
    Device device;
    device_init(&device, &args, rank);
    Rng rng;
    rng_seed(&rng, 0);
    Model model;
    model_init(&model, &args, 1, &rng, &device);
    Optimizer optim;
    optim_init(&optim, &args, &model, 1);

    double record[TURNS], call[2][TURNS], check[TURNS];
    Observer *const observers = pg.calls.observers;
    for (int turn = 0; turn < TURNS; turn++) {
        record[turn] = record_seconds(&pg);
        for (int observed = 0; observed < 2; observed++) {
            pg.calls.observers = observed ? observers : NULL;
            call[observed][turn] = call_seconds(&pg);
        }
        check[turn] = check_seconds(&args, &pg, &optim);
    }
    if (rank == 0)
        log_print("record %.0f ns a collective; all-reduce of a number %.1f us, recorded %.1f us; "
                  "check-sync of 2 x %zu floats %.2f ms",
                  1e9 * median(record, TURNS), 1e6 * median(call[0], TURNS),
                  1e6 * median(call[1], TURNS), model.numel, 1e3 * median(check, TURNS));
    process_group_destroy(&pg);
    flight_recorder_free(&recorder);
    optim_free(&optim);
    model_free(&model);
    device_free(&device);
    return 0;
}
