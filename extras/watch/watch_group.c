/*
 * The group of all ranks, as far as watching needs it: it fills `peers`, puts a backend in front of
 * the group's, which notes the waits, observes every collective, and writes what was recorded while
 * the ranks still can talk to each other.
 */
#include <stdio.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/comm/backend.h"
#include "extras/watch/explain.h"
#include "extras/watch/journal.h"
#include "extras/watch/peers.h"
#include "extras/watch/recording.h"
#include "extras/watch/timeline.h"
#include "extras/watch/topology.h"

static ProcessGroup *group;
static const Backend *inner; // its own
static void *stream; // on which that executes calls; NULL: the host does

static void all_reduce_values(double *values, size_t count, ReduceOp op)
{
    all_reduce(group, values, count, FLOAT64, op);
}

static void send_bytes(const void *data, size_t bytes, int to)
{
    pg_send(group, data, bytes, UINT8, to);
}

static void receive_bytes(void *data, size_t bytes, int from)
{
    pg_recv(group, data, bytes, UINT8, from);
}

static void see(void *context, const Collective *collective, CollectiveState state)
{
    (void)context;
    const bool alone =
        collective->pg->parent != NULL || collective_is_point_to_point(collective->kind);
    timeline_see_call(&(CallRecord){ .name = collective_name(collective->kind),
                                     .type = collective->type,
                                     .count = collective->count,
                                     .sequence = alone ? -1 : (int64_t)collective->sequence },
                      collective->op_id, state);
    if (state == COLLECTIVE_SCHEDULED && collective->kind == ALL_REDUCE &&
        collective->type == FLOAT32)
        explain_bucket(collective->count * sizeof(float));
}

/* ---- the backend in front of the group's: it differs in these two ---- */

/* The GPU executes the call from when it gets there, and the communication stream is free, to the
 * second mark. A call that is part of a graph, recorded or replayed, has none. */
static long watch_start(void *state, const Collective *collective)
{
    const MemoryLocation *place = &collective->pg->place;
    const bool replaying = place->replaying != NULL && *place->replaying;
    const GpuMark begin = stream != NULL && !replaying ? gpu_mark(NULL) : 0;
    const long ticket = inner->start(state, collective);
    journal_start(collective, ticket);
    if (begin > 0)
        timeline_see_marks(collective->op_id, begin, gpu_mark(stream));
    return ticket;
}

static void watch_wait(void *state, long ticket)
{
    journal_wait(ticket);
    if (!span_timing) {
        inner->wait(state, ticket);
        return;
    }
    span_end_evaluation();
    span_close();
    span_begin(SPAN_WAIT, "wait");
    inner->wait(state, ticket);
    span_end();
    span_close();
}

static void put_in_front(ProcessGroup *pg)
{
    static Backend front;
    inner = pg->front;
    stream = inner->stream != NULL ? inner->stream(pg->front_state) : NULL;
    front = *inner;
    front.start = watch_start;
    front.wait = watch_wait;
    pg->front = &front;
}

/* ---- the hooks ---- */

/* Watching makes collective calls of its own: all ranks must make them. */
static void describe(const Args *args, char *line, size_t bytes)
{
    snprintf(line, bytes, "%s%s%s%s", args->metrics_dir != NULL ? ", --metrics-dir" : "",
             args->trace != NULL ? ", --trace" : "", args->profile != NULL ? ", --profile" : "",
             args->show_topology ? ", --show-topology" : "");
}

static void formed(ProcessGroup *pg, const Args *args)
{
    static Observer observer = { .see = see };
    if (group != NULL)
        return; // one at a time
    group = pg;
    peers = (Peers){ .rank = pg->rank,
                     .world_size = pg->world_size,
                     .all_reduce = all_reduce_values,
                     .send = send_bytes,
                     .receive = receive_bytes };
    journal_group(pg);
    put_in_front(pg);
    if (args->show_topology)
        topology_print(pg);
    if (pg->rank == 0 && comfort.is_read()) // extras/comfort/startup.c says the rest
        log_info("%d rank%s, connected by %s", pg->world_size, pg->world_size == 1 ? "" : "s",
                 inner->name);
    if (!recording_wanted(args) && !explain_wanted(pg->rank))
        return;
    process_group_observe(pg, &observer);
    if (recording_wanted(args))
        timeline_compare_clocks(0);
}

static void leaving(ProcessGroup *pg)
{
    if (pg != group)
        return;
    recording_write();
    journal_note("leave");
    group = NULL;
    peers = (Peers){ .world_size = 1 };
}

const GroupHooks group_hooks = { .describe = describe, .formed = formed, .leaving = leaving };
