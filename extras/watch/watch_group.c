/*
 * The group of all ranks, as far as watching needs it: it fills `peers`, hears of every collective,
 * and writes what was recorded while the ranks still can talk to each other.
 */
#include <stdio.h>

#include "common/comm/observer.h"
#include "extras/watch/explain.h"
#include "extras/watch/peers.h"
#include "extras/watch/recording.h"
#include "extras/watch/timeline.h"

static ProcessGroup *group;

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
    timeline_see_call(&(Call){ .name = collective_name(collective->kind),
                               .type = collective->type,
                               .count = collective->count,
                               .sequence = alone ? -1 : (int64_t)collective->sequence },
                      collective->op_id, state);
    if (state == COLLECTIVE_SCHEDULED && collective->kind == ALL_REDUCE &&
        collective->type == FLOAT32)
        explain_bucket(collective->count * sizeof(float));
}

static void see_marks(void *context, const Collective *collective, GpuMark begin, GpuMark end)
{
    (void)context;
    timeline_see_marks(collective->op_id, begin, end);
}

/* Watching makes collective calls of its own: all ranks must make them. */
static void describe(const Args *args, char *line, size_t bytes)
{
    snprintf(line, bytes, "%s%s%s", args->metrics_dir != NULL ? ", --metrics-dir" : "",
             watch_args.trace != NULL ? ", --trace" : "",
             watch_args.profile != NULL ? ", --profile" : "");
}

static void formed(ProcessGroup *pg)
{
    static Observer observer = { .see = see, .see_marks = see_marks };
    group = pg;
    peers = (Peers){ .rank = pg->rank,
                     .world_size = pg->world_size,
                     .all_reduce = all_reduce_values,
                     .send = send_bytes,
                     .receive = receive_bytes };
    if (!recording_wanted() && !explain_wanted(pg->rank))
        return;
    process_group_observe(pg, &observer);
    if (recording_wanted())
        timeline_compare_clocks(0);
}

static void leaving(ProcessGroup *pg)
{
    if (pg != group)
        return;
    recording_write();
    group = NULL;
    peers = (Peers){ .world_size = 1 };
}

const GroupHooks group_hooks = { .describe = describe, .formed = formed, .leaving = leaving };
