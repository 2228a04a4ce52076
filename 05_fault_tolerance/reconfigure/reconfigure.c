/* A group is left, the next one is formed, and all its ranks get the same state. */
#include "05_fault_tolerance/reconfigure/reconfigure.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/data/scratch.h"

#define LOOK_SECONDS 0.1 // between two looks at the other ranks' seats, while nccl waits
#define MAX_STALLED 100 // generations without a step: the fault is in the program, or a link is cut

/* Returns whether a rank has left the generation or was replaced, or the training has ended. */
static bool is_broken(const Agreement *a)
{
    char key[TEXT_BYTES], text[TEXT_BYTES];
    agreement_look(a->store, "end", text, sizeof text);
    bool broken = text[0] != '\0';
    for (int rank = 0; rank < a->world_size && !broken; rank++) {
        int incarnation = -1;
        int64_t left = -1;
        snprintf(key, sizeof key, "seat/%d", rank);
        agreement_look(a->store, key, text, sizeof text);
        sscanf(text, "%d %" SCNd64, &incarnation, &left);
        broken = incarnation != a->member[rank] || left >= a->generation;
    }
    return broken;
}

/* Looks from time to time whether the group is still whole, and revokes it if not. */
static bool keeps_waiting(void *survivor, double begun)
{
    Reconfigure *r = survivor;
    ProcessGroup *pg = r->pg;
    const double now = seconds_awake();
    if (now > r->looked + LOOK_SECONDS && now > begun + LOOK_SECONDS) {
        r->looked = now;
        pg->revoked = now > begun + pg->timeout || is_broken(&r->agreement);
        if (pg->revoked)
            log_info("a rank is gone, or missing after %.1f s: this rank leaves the group",
                     now - begun);
    }
    poll(NULL, 0, now > begun + LOOK_SECONDS); // first it spins, since most calls are short
    return !pg->revoked;
}

void reconfigure_init(Reconfigure *r, const Args *args, const DistEnv *env, ProcessGroup *pg,
                      MemoryLocation place)
{
    if (getenv("DDP_INCARNATION") == NULL)
        usage_error("no launcher replaces ranks that fail: start this program with "
                    "RECONFIGURE=1 05_fault_tolerance/run.sh");
    if (args->backend == BACKEND_MPI || args->amp == AMP_FP16 || args->cuda_graph ||
        args->nccl_register || (place.on_gpu && args->check_collectives) ||
        args->all_reduce != ALL_REDUCE_FLAT || args->on_nan != ON_NAN_STOP || args->trace != NULL ||
        args->profile != NULL || args->show_topology || args->simulate_network != NULL)
        usage_error(
            "ranks that survive a failure need --backend tcp or nccl, --all-reduce flat and "
            "--on-nan stop, and no --amp fp16, --cuda-graph, --nccl-register, "
            "--check-collectives, --trace, --profile, --show-topology or "
            "--simulate-network");
    process_group_open(pg, args, env->master_addr, env->master_port, env->rank, env->world_size,
                       place);
    CHECK(pg->world_size <= MAX_RANKS, "at most %d ranks can survive a failure", MAX_RANKS);
    *r = (Reconfigure){ .args = args, .pg = pg, .base.step = -1 };
    r->batch_size = args_batch_size(args, pg->world_size);
    r->agreement = (Agreement){ .store = pg->store,
                                .rank = pg->rank,
                                .world_size = pg->world_size,
                                .incarnation = host_env_count("DDP_INCARNATION"),
                                .timeout = args->timeout };
    char key[TEXT_BYTES];
    snprintf(key, sizeof key, "data of node %d", env->node);
    if (env->local_rank == 0) {
        scratch_fill(args);
        store_set(pg->store, key, "1", 1);
    }
    store_wait(pg->store, key);
}

/* Connects the ranks of the generation. Its number is in every handshake, so a message of an
 * earlier one is never taken for one of this. Returns false if a rank did not connect in time. */
static bool form(Reconfigure *r)
{
    ProcessGroup *pg = r->pg;
    char first[OPTIONS_BYTES] = "";
    store_compare_set(pg->store, "options of all ranks", "", pg->options, first, sizeof first - 1);
    if (!options_agree(pg, first))
        ranks_disagree(pg, first);
    pg->number = r->agreement.generation;
    pg->sequence = 0; // a new rank begins with 0, too
    pg->survivor = r;
    pg->keeps_waiting = keeps_waiting;
    pg->revoked = false;
    pg->missing = -1;
    process_group_connect(pg, r->args);
    return !pg->revoked;
}

/* ---- one state for all ---- */

/* Returns where this rank stands: at the end of an epoch even if the next one has begun, since the
 * evaluation may be incomplete. */
static Place place_of(const Reconfigure *r)
{
    const int64_t batches = ((int64_t)r->sampler->size + r->batch_size - 1) / r->batch_size;
    const int64_t steps = (int64_t)r->optim->model->step - r->base.step;
    Place place = r->base;
    place.stops = r->stop->agreed;
    if (place.step >= 0 && steps > 0) {
        place.step += steps;
        place.epoch += (r->base.batch + steps - 1) / batches;
        place.batch = (r->base.batch + steps - 1) % batches + 1;
    }
    return place;
}

/* Loads the file, as a new job does. An earlier group may have broken in the middle of this. */
static Place load(const Reconfigure *r, int64_t stops)
{
    r->optim->model->step = 0;
    r->sampler->epoch = 0;
    r->sampler->position = 0;
    snapshots_resume(r->snapshots);
    const int64_t rows = (int64_t)r->sampler->position + r->batch_size - 1;
    return (Place){ (int64_t)r->optim->model->step, r->sampler->epoch, rows / r->batch_size,
                    stops };
}

/* Takes the state of another rank. It arrives in spare memory, so that ours is still whole if the
 * source dies meanwhile. */
static void fetch(const Reconfigure *r, int source)
{
    const size_t numel = r->optim->model->numel, bytes = numel * sizeof(float);
    const int num_arrays = 1 + r->optim->num_states;
    Device *device = r->optim->model->device;
    float *own[] = { r->optim->model->params, r->optim->state[0], r->optim->state[1] };
    float *spare = mem_calloc((size_t)num_arrays, bytes);
    for (int i = 0; i < num_arrays; i++) {
        device_copy(device, spare + (size_t)i * numel, own[i], bytes, COPY_TO_HOST);
        broadcast(r->pg, spare + (size_t)i * numel, numel, FLOAT32, source);
    }
    for (int i = 0; i < num_arrays && !r->pg->revoked; i++)
        device_copy(device, own[i], spare + (size_t)i * numel, bytes, COPY_TO_DEVICE);
    free(spare);
}

/* Gives all ranks of the new group the same state. Returns false if it is revoked again. */
static bool share_state(Reconfigure *r)
{
    const Place ours = place_of(r);
    Place all[MAX_RANKS];
    diagnostics_group(r->diagnostics, r->pg);
    all_gather(r->pg, &ours, all, sizeof ours, UINT8);
    if (r->pg->revoked)
        return false;
    int source = 0, num_sent = 0;
    for (int rank = 1; rank < r->pg->world_size; rank++)
        source = all[rank].step > all[source].step ? rank : source;
    Place base = all[source];
    const bool in_memory = base.step >= 0;
    for (int rank = 0; rank < r->pg->world_size; rank++) {
        num_sent += !in_memory || all[rank].step != base.step;
        base.stops |= all[rank].stops;
    }
    if (!in_memory)
        base = load(r, base.stops);
    else if (num_sent > 0)
        fetch(r, source);
    if (r->pg->revoked)
        return false;
    r->base = base;
    r->optim->model->step = (uint64_t)r->base.step;
    r->sampler->epoch = (int)r->base.epoch;
    sampler_seek(r->sampler, (size_t)(r->base.batch * r->batch_size * r->pg->world_size));
    r->joined = true;
    if (r->pg->rank == 0 && r->agreement.generation > 1)
        log_info("generation %" PRId64 " goes on after step %" PRId64 ": %d of %d ranks were sent "
                 "the state from %s",
                 r->agreement.generation, r->base.step, num_sent, r->pg->world_size,
                 in_memory ? "another's memory" : "the file");
    return true;
}

/* Returns whether the final file of this or a longer run exists. Without a secret any process may
 * have written the key `end`. Rank 0 looks, since other nodes need not see its folder. */
static bool has_ended(const Reconfigure *r, char *reason, size_t bytes)
{
    const Args *args = r->args;
    char name[CHECKPOINT_NAME_BYTES], path[PATH_MAX];
    CheckpointClaim claim;
    checkpoint_final_name(r->snapshots->checkpoint, name);
    const int length = snprintf(path, sizeof path, "%s/%s.safetensors", args->checkpoint_dir, name);
    const bool is_read =
        length < (int)sizeof path && checkpoint_peek(r->snapshots->checkpoint, path, &claim);
    if (is_read && claim.is_this_run &&
        (claim.epoch >= args->epochs || claim.step >= args->max_steps))
        return true;
    snprintf(
        reason, bytes,
        "the store says that training has ended, but %s is not this run's result: did somebody "
        "else write into the store of a job that has no secret (--secret-file)?",
        path);
    return false;
}

/* Ends this rank with the status in the store. */
static noreturn void leave(const Reconfigure *r, int status)
{
    char reason[PATH_MAX + 256];
    if (r->pg->rank == 0 && status == EXIT_SUCCESS && !has_ended(r, reason, sizeof reason)) {
        log_last_error(reason, true, false);
        _exit(EXIT_FAILURE);
    }
    diagnostics_free(r->diagnostics);
    exit(status);
}

static void join(Reconfigure *r)
{
    ProcessGroup *pg = r->pg;
    if ((int64_t)r->optim->model->step > r->base.step)
        r->stalled = 0;
    do {
        if (r->stalled++ > MAX_STALLED) { // new processes would do no better
            char reason[] = "no step was done in 100 groups, one after the other";
            log_last_error(reason, true, false);
            _exit(EXIT_FAILURE);
        }
        pg->revoked = true;
        if (pg->state != NULL) // closes the connections without NOTICE_CLOSE
            pg->backend->destroy(pg->state, pg);
        pg->state = NULL;
        if (pg->staging != NULL)
            staging_free(pg->staging); // what it had still to copy to the GPU is dropped
        pg->staging = NULL;
        if (pg->missing >= 0 && pg->missing != pg->rank)
            agreement_suspect(&r->agreement, pg->missing, r->agreement.member[pg->missing]);
        const int status = agreement_next(&r->agreement);
        if (status >= 0)
            leave(r, status);
    } while (!form(r) || !share_state(r));
}

void reconfigure_join(Reconfigure *r, Snapshots *snapshots, Diagnostics *diagnostics,
                      StopRequest *stop)
{
    r->snapshots = snapshots;
    r->optim = snapshots->checkpoint->optim;
    r->sampler = snapshots->checkpoint->sampler;
    r->diagnostics = diagnostics;
    r->stop = stop;
    join(r);
}

/* ---- the loop over epochs ---- */

/* Writes the last file, then the key `end` into the store. */
static void end(const Reconfigure *r)
{
    char status[TEXT_BYTES];
    snprintf(status, sizeof status, "%d", r->stop->agreed ? EXIT_STOPPED : EXIT_SUCCESS);
    if (r->stop->agreed) // the next start resumes here
        snapshots_stop(r->snapshots);
    else
        snapshots_final(r->snapshots);
    if (r->pg->rank == 0) {
        store_set(r->pg->store, "end", status, strlen(status));
        store_ping(r->pg->store); // it is there before any rank exits
    }
    barrier(r->pg);
}

int reconfigure_epoch(Reconfigure *r)
{
    do {
        if (r->pg->revoked)
            join(r);
        // An epoch that has begun needs its evaluation, even if --max-steps leaves it no batch.
        const bool is_begun = r->joined && r->agreement.generation > 1 && r->base.batch > 0;
        r->epoch++;
        if (r->joined) { // an all-reduce that broke may have left a part of a sum as the request
            const float none = 0;
            device_copy(r->optim->model->device, r->stop->request, &none, sizeof none,
                        COPY_TO_DEVICE);
            r->stop->announced = r->joined = false;
            r->stop->agreed = r->base.stops;
            r->stop->step = r->optim->model->step;
            r->epoch = (int)r->base.epoch;
        }
        if (!r->stop->agreed && r->epoch < r->args->epochs &&
            (is_begun || r->optim->model->step < r->args->max_steps))
            return r->epoch;
        end(r);
    } while (r->pg->revoked);
    return -1;
}
