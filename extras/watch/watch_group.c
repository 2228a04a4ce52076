/*
 * The hooks of the group of all ranks: they fill `peers`, observe every collective and every wait
 * for one, and write what was recorded while the ranks are still connected.
 */
#include <stdio.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "extras/group/group_extras.h"
#include "extras/watch/explain.h"
#include "extras/watch/journal_group.h"
#include "extras/watch/peers.h"
#include "extras/watch/progress.h"
#include "extras/watch/recording.h"
#include "extras/watch/timeline.h"
#include "extras/watch/topology.h"

static ProcessGroup *group;
static void *stream; // the stream on which the backend executes calls; NULL if the host does
static bool observes_calls; // whether more than waits and journals is needed

static void sum_values(double *values, size_t count)
{
    all_reduce(group, values, count, FLOAT64, REDUCE_SUM);
}

static void min_values(double *values, size_t count)
{
    all_reduce(group, values, count, FLOAT64, REDUCE_MIN);
}

static void max_values(double *values, size_t count)
{
    all_reduce(group, values, count, FLOAT64, REDUCE_MAX);
}

static void send_bytes(const void *data, size_t bytes, int to)
{
    pg_send(group, data, bytes, UINT8, to);
}

static void receive_bytes(void *data, size_t bytes, int from)
{
    pg_recv(group, data, bytes, UINT8, from);
}

static char *gather_places(void)
{
    return topology_gather(group);
}

/* Marks a call on the GPU: it lasts from the first mark, or when the communication stream is free,
 * to the second mark. A call that is part of a graph, recorded or replayed, has none. */
static void see_on_gpu(const Collective *collective, CollectiveState state)
{
    static GpuMark begin;
    const bool *replaying = collective->pg->place.replaying;
    if (state == COLLECTIVE_SCHEDULED)
        begin = replaying != NULL && *replaying ? 0 : gpu_mark(NULL);
    else if (state == COLLECTIVE_QUEUED && begin > 0)
        timeline_see_marks(collective->op_id, begin, gpu_mark(stream));
}

static void see_wait(CollectiveState state)
{
    if (state == COLLECTIVE_AWAITED) {
        span_end_evaluation();
        span_close();
        span_begin(SPAN_WAIT, "wait");
    } else if (state == COLLECTIVE_RETURNED) {
        span_end();
        span_close();
    }
}

static void see_call(const Collective *collective, CollectiveState state)
{
    const bool alone =
        collective->pg->parent != NULL || collective_is_point_to_point(collective->kind);
    if (state == COLLECTIVE_SCHEDULED)
        timeline_add_call(&(CallRecord){ .name = collective_name(collective->kind),
                                         .type = collective->type,
                                         .count = collective->count,
                                         .sequence = alone ? -1 : (int64_t)collective->sequence },
                          collective->op_id);
    else if (state != COLLECTIVE_FAILED)
        timeline_see_call(collective->op_id, state == COLLECTIVE_STARTED);
    if (state == COLLECTIVE_SCHEDULED && collective->kind == ALL_REDUCE &&
        collective->type == FLOAT32)
        explain_bucket(collective->count * sizeof(float));
}

static void see(void *context, const Collective *collective, CollectiveState state)
{
    (void)context;
    if (observes_calls && state <= COLLECTIVE_FAILED)
        see_call(collective, state);
    if (state != COLLECTIVE_SCHEDULED && state < COLLECTIVE_QUEUED)
        return; // reported by any thread; the other states only by the training thread
    if (state == COLLECTIVE_SCHEDULED)
        journal_start(collective);
    else if (state == COLLECTIVE_AWAITED)
        journal_wait(collective);
    if (state == COLLECTIVE_AWAITED || state == COLLECTIVE_RETURNED)
        progress_waits(state == COLLECTIVE_AWAITED);
    if (stream != NULL)
        see_on_gpu(collective, state);
    if (span_timing)
        see_wait(state);
}

/* ---- the hooks ---- */

void watch_group_formed(ProcessGroup *pg, const Args *args)
{
    static Observer observer = { .see = see };
    if (group != NULL || pg->wire != NULL)
        return; // only one group at a time, and no calls that PyTorch's ranks do not make
    group = pg;
    peers = (Peers){ .rank = pg->rank,
                     .world_size = pg->world_size,
                     .backend = pg->backend->name,
                     .sum = sum_values,
                     .min = min_values,
                     .max = max_values,
                     .send = send_bytes,
                     .receive = receive_bytes,
                     .places = pg->survivor != NULL ? NULL : gather_places };
    journal_group(pg);
    stream = pg->backend->stream != NULL ? pg->backend->stream(pg->state) : NULL;
    observes_calls = recording_enabled(args) || explain_enabled(pg->rank);
    process_group_observe(pg, &observer);
    if (args->show_topology)
        topology_print(pg);
    if (pg->rank == 0 && comfort_is_read()) // extras/comfort/startup.c prints the rest
        log_info("%d rank%s, connected by %s", pg->world_size, pg->world_size == 1 ? "" : "s",
                 pg->backend->name);
    if (recording_enabled(args))
        timeline_compare_clocks(0);
}

void watch_group_leaving(ProcessGroup *pg)
{
    if (pg != group)
        return;
    recording_write();
    journal_leave();
    group = NULL;
    peers = (Peers){ .world_size = 1 };
}

/* Shows in the bar the last of a chain of waiting ranks, as far as they have reported in this call
 * which rank they wait for. */
void watch_group_waits_for(const Mesh *mesh, int rank)
{
    for (int i = 0; i < mesh->world_size; i++) {
        const Notice *last = &mesh->peer[rank].last;
        if (memcmp(&last->call, &mesh->call, sizeof last->call) != 0 || last->waits_for == NOBODY)
            break;
        rank = last->waits_for;
    }
    progress_waits_for(rank);
}
