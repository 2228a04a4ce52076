/*
 * The store decides: of all proposals for the next generation one compare_set succeeds. So there is
 * no leader whose death would have to be noticed: if a rank dies while it proposes, another one
 * does. beyond/proved/reconfigure.pml is a model of this agreement.
 */
#include "05_fault_tolerance/reconfigure.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/scratch.h"

#define LOOK_MS 10 // between looks into the store
#define NEW_SECONDS 60.0 // for a new process to take its seat, unless --timeout is longer
#define MAX_FUTILE 100 // generations without a step: then the fault is in the program
#define TEXT_BYTES 64

void reconfigure_init(Reconfigure *r, const Args *args, const DistEnv *env, ProcessGroup *pg,
                      MemoryLocation place)
{
    char key[TEXT_BYTES];
    if (getenv("DDP_INCARNATION") == NULL)
        usage_error("no launcher replaces ranks that fail: start this program with "
                    "RECONFIGURE=1 05_fault_tolerance/run.sh");
    const bool is_other_backend =
        strcmp(args->backend, "nccl") == 0 || strcmp(args->backend, "mpi") == 0;
    if (place.on_gpu || is_other_backend || strcmp(args->all_reduce, "flat") != 0 ||
        strcmp(args->on_nan, "stop") != 0 || args->trace != NULL || args->profile != NULL ||
        args->show_topology || args->simulate_network != NULL)
        usage_error("ranks that survive a failure need --device cpu, --backend tcp, --all-reduce "
                    "flat and --on-nan stop, and no --trace, --profile, --show-topology or "
                    "--simulate-network");
    process_group_open(pg, args, env->master_addr, env->master_port, env->rank, env->world_size,
                       place);
    CHECK(pg->world_size <= MAX_RANKS, "at most %d ranks can survive a failure", MAX_RANKS);
    *r = (Reconfigure){ .args = args, .pg = pg };
    r->incarnation = host_env_count("DDP_INCARNATION");
    snprintf(r->seat, sizeof r->seat, "%d new", r->incarnation);
    snprintf(key, sizeof key, "data of node %d", env->node);
    if (env->local_rank == 0) {
        scratch_fill(args);
        store_set(pg->store, key, "1", 1);
    }
    store_wait(pg->store, key);
}

/* ---- the store ---- */

/* Reads a key; "-": nobody has set it. */
static void look(const Reconfigure *r, const char *key, char *text, size_t bytes)
{
    memset(text, 0, bytes);
    store_compare_set(r->pg->store, key, "", "-", text, bytes - 1);
}

typedef struct {
    int incarnation;
    int64_t left; // the generation that it has left; -1: none yet
} Seat;

static Seat look_at_seat(const Reconfigure *r, int rank)
{
    char key[TEXT_BYTES], text[TEXT_BYTES];
    Seat seat = { -1, -1 };
    snprintf(key, sizeof key, "seat/%d", rank);
    look(r, key, text, sizeof text);
    sscanf(text, "%d %" SCNd64, &seat.incarnation, &seat.left);
    return seat;
}

/* Reads the record of the newest generation, and returns its number; 0: there is none. */
static int64_t look_at_record(Reconfigure *r)
{
    look(r, "generation", r->record, sizeof r->record);
    return strtoll(r->record, NULL, 10);
}

/* One suspicion at a time: of two ranks that do not reach each other only one is killed. */
static void suspect(const Reconfigure *r, int rank, int incarnation)
{
    char earlier[TEXT_BYTES], ours[TEXT_BYTES], result[TEXT_BYTES];
    int other, its_incarnation;
    look(r, "suspect", earlier, sizeof earlier);
    if (sscanf(earlier, "%d %d", &other, &its_incarnation) == 2 &&
        look_at_seat(r, other).incarnation == its_incarnation)
        return;
    snprintf(ours, sizeof ours, "%d %d", rank, incarnation);
    store_compare_set(r->pg->store, "suspect", earlier, ours, result, sizeof result);
}

static noreturn void leave_job(const Reconfigure *r, int status)
{
    diagnostics_free(r->diagnostics);
    exit(status);
}

/* Exits if training has ended meanwhile. */
static void check_end(const Reconfigure *r)
{
    char status[TEXT_BYTES] = "";
    if (!store_check(r->pg->store, "end"))
        return;
    store_get(r->pg->store, "end", status, sizeof status - 1);
    leave_job(r, atoi(status));
}

/* ---- leaving a generation, and agreeing on the next ---- */

static Model *model_of(const Reconfigure *r)
{
    return r->snapshots->checkpoint->optim->model;
}

/* Writes into this rank's seat which generation it has left. Exits if another process has it. */
static int64_t report(Reconfigure *r)
{
    char key[TEXT_BYTES], ours[TEXT_BYTES], now[TEXT_BYTES] = "";
    const int64_t left = look_at_record(r);
    snprintf(key, sizeof key, "seat/%d", r->pg->rank);
    snprintf(ours, sizeof ours, "%d %" PRId64, r->incarnation, left);
    store_compare_set(r->pg->store, key, r->seat, ours, now, sizeof now - 1);
    if (strcmp(now, ours) != 0)
        leave_job(r, EXIT_FAILURE);
    strcpy(r->seat, ours);
    return left;
}

/* If all seats have left this generation, writes the next one, unless another rank was faster. */
static void propose(const Reconfigure *r, int64_t left)
{
    char next[sizeof r->record], now[sizeof r->record];
    int length = snprintf(next, sizeof next, "%" PRId64, left + 1);
    for (int rank = 0; rank < r->pg->world_size; rank++) {
        const Seat seat = look_at_seat(r, rank);
        if (seat.left != left)
            return;
        length += snprintf(next + length, sizeof next - (size_t)length, " %d", seat.incarnation);
    }
    store_compare_set(r->pg->store, "generation", r->record, next, now, sizeof now);
}

/* Waits for the generation after `left`. A rank that keeps the others waiting is suspected. */
static void await_next(Reconfigure *r, int64_t left)
{
    double since = seconds_now();
    for (int rank = 0; look_at_record(r) == left;) {
        check_end(r);
        if (look_at_seat(r, r->pg->rank).incarnation != r->incarnation)
            leave_job(r, EXIT_FAILURE); // this process was replaced
        const Seat seat = look_at_seat(r, rank);
        const double patience = fmax(r->args->timeout, seat.left < 0 ? NEW_SECONDS : 0);
        if (seat.left == left) {
            since = seconds_now();
            if (++rank == r->pg->world_size)
                propose(r, left);
            rank %= r->pg->world_size; // one may have been replaced meanwhile
        } else {
            if (seconds_now() > since + patience)
                suspect(r, rank, seat.incarnation);
            poll(NULL, 0, LOOK_MS);
        }
    }
}

/* Returns with a generation that has this process in it. */
static void agree(Reconfigure *r)
{
    do {
        await_next(r, report(r));
        char *text = r->record;
        r->generation = strtoll(text, &text, 10);
        for (int rank = 0; rank < r->pg->world_size; rank++)
            r->member[rank] = (int)strtol(text, &text, 10);
    } while (r->member[r->pg->rank] != r->incarnation);
}

/* ---- one state for all ---- */

static int64_t batch_size_of(const Reconfigure *r)
{
    return args_batch_size(r->args, r->pg->world_size);
}

/* Where this rank stands: at the end of an epoch even if the next one has begun, since the
 * evaluation may be incomplete. */
static Place place_of(const Reconfigure *r)
{
    const int64_t size = (int64_t)r->snapshots->checkpoint->sampler->size;
    const int64_t batches = (size + batch_size_of(r) - 1) / batch_size_of(r);
    const int64_t step = r->has_state ? (int64_t)model_of(r)->step : -1;
    if (step < 0 || step == r->base.step)
        return (Place){ step, r->base.epoch, r->base.batch, r->stop->agreed };
    const int64_t done = r->base.epoch * batches + r->base.batch + step - r->base.step;
    const int64_t epoch = (done - 1) / batches;
    return (Place){ step, epoch, done - epoch * batches, r->stop->agreed };
}

/* From the file, as a job that starts. An earlier group may have broken in the middle of this. */
static Place load(Reconfigure *r)
{
    Sampler *sampler = r->snapshots->checkpoint->sampler;
    model_of(r)->step = 0;
    sampler->epoch = 0;
    sampler->position = 0;
    snapshots_resume(r->snapshots);
    return (Place){ (int64_t)model_of(r)->step, sampler->epoch,
                    ((int64_t)sampler->position + batch_size_of(r) - 1) / batch_size_of(r), false };
}

/* Takes the state of the rank that has done the most steps, or if it has done as many itself,
 * compares it. It arrives in spare memory: if the source dies meanwhile, ours is still whole. */
static void fetch(const Reconfigure *r, int source, bool is_equal)
{
    const Optimizer *optim = r->snapshots->checkpoint->optim;
    const size_t numel = optim->model->numel, bytes = numel * sizeof(float);
    const int num_arrays = 1 + optim->num_states;
    float *spare = mem_calloc((size_t)num_arrays, bytes);
    LossScale *own = optim->model->device->loss_scale,
              scale = own != NULL ? *own : (LossScale){ 0 };
    for (int i = 0; i < num_arrays; i++) {
        float *array = spare + (size_t)i * numel;
        memcpy(array, i == 0 ? optim->model->params : optim->state[i - 1], bytes);
        broadcast(r->pg, array, numel, FLOAT32, source);
    }
    broadcast(r->pg, &scale, sizeof scale, UINT8, source);
    for (int i = 0; i < num_arrays && !process_group_revoked(r->pg); i++) {
        float *array = i == 0 ? optim->model->params : optim->state[i - 1];
        if (is_equal && memcmp(array, spare + (size_t)i * numel, bytes) != 0) {
            char text[] = "the replicas differ: this rank's state is not that of the others";
            log_last_error(text, true, false);
            leave_job(r, EXIT_FAILURE);
        }
        memcpy(array, spare + (size_t)i * numel, bytes);
    }
    if (own != NULL && !process_group_revoked(r->pg))
        *own = scale;
    free(spare);
}

/* Gives all ranks of the new group the same state. False: the group is revoked again. */
static bool share_state(Reconfigure *r)
{
    const Place ours = place_of(r);
    Place all[MAX_RANKS];
    diagnostics_group(r->diagnostics, r->pg);
    all_gather(r->pg, &ours, all, sizeof ours, UINT8);
    int source = 0, num_behind = 0;
    bool stops = false;
    for (int rank = 0; rank < r->pg->world_size; rank++) {
        stops |= all[rank].stops != 0;
        source = all[rank].step > all[source].step ? rank : source;
    }
    Place place = all[source];
    for (int rank = 0; rank < r->pg->world_size; rank++)
        num_behind += all[rank].step != place.step;
    if (process_group_revoked(r->pg))
        return false;
    const bool in_memory = place.step >= 0;
    if (in_memory)
        fetch(r, source, ours.step == place.step);
    else
        place = load(r);
    if (process_group_revoked(r->pg))
        return false;

    Sampler *sampler = r->snapshots->checkpoint->sampler;
    const size_t position = (size_t)(place.batch * batch_size_of(r));
    sampler->epoch = (int)place.epoch;
    sampler->position = position < sampler->size ? position : sampler->size;
    model_of(r)->step = (uint64_t)place.step;
    r->base = place;
    r->base.stops = stops;
    r->has_state = r->joined = true;
    if (r->pg->rank == 0 && r->generation > 1)
        log_info("generation %" PRId64 " goes on after step %" PRId64 ": %d of %d ranks were sent "
                 "the state from %s",
                 r->generation, place.step, in_memory ? num_behind : r->pg->world_size,
                 r->pg->world_size, in_memory ? "another's memory" : "the file");
    return true;
}

static void join(Reconfigure *r)
{
    if (r->has_state && (int64_t)model_of(r)->step > r->base.step)
        r->futile = 0;
    do {
        if (r->futile++ > MAX_FUTILE)
            die("no step was done in %d groups, one after the other", MAX_FUTILE);
        process_group_leave(r->pg);
        if (r->pg->missing >= 0 && r->pg->missing != r->pg->rank)
            suspect(r, r->pg->missing, r->member[r->pg->missing]);
        check_end(r);
        agree(r);
    } while (!process_group_form(r->pg, r->args, r->generation) || !share_state(r));
}

void reconfigure_join(Reconfigure *r, Snapshots *snapshots, Diagnostics *diagnostics,
                      StopRequest *stop)
{
    r->snapshots = snapshots;
    r->diagnostics = diagnostics;
    r->stop = stop;
    join(r);
}

/* ---- the loop over epochs ---- */

/* Writes the last file, and says so in the store. */
static void end(const Reconfigure *r)
{
    if (r->stop->agreed) // the next start resumes here
        snapshots_stop(r->snapshots);
    else
        snapshots_final(r->snapshots);
    char status[TEXT_BYTES];
    snprintf(status, sizeof status, "%d", r->stop->agreed ? EXIT_STOPPED : EXIT_SUCCESS);
    if (r->pg->rank == 0) {
        store_set(r->pg->store, "end", status, strlen(status));
        store_ping(r->pg->store); // it is there before any rank exits
    }
    barrier(r->pg);
}

/* The first epoch in a new group. */
static int begin(Reconfigure *r)
{
    r->stop->agreed = r->base.stops;
    r->stop->announced = false;
    r->stop->step = model_of(r)->step;
    *r->stop->request = 0; // an all-reduce that broke has left a part of a sum
    r->joined = false;
    return (int)r->base.epoch;
}

int reconfigure_epoch(Reconfigure *r)
{
    do {
        if (process_group_revoked(r->pg))
            join(r);
        // An epoch that has begun needs its evaluation, even if --max-steps leaves it no batch.
        const bool is_begun = r->joined && r->generation > 1 && r->base.batch > 0;
        r->epoch = r->joined ? begin(r) : r->epoch + 1;
        if (!r->stop->agreed && r->epoch < r->args->epochs &&
            (is_begun || model_of(r)->step < r->args->max_steps))
            return r->epoch;
        end(r);
    } while (process_group_revoked(r->pg));
    return -1;
}
