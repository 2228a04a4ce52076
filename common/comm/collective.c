/* The collectives: each call becomes one struct, gets a number, and goes to the backend.
 *
 * The number reveals a rank that has skipped a call or made a different one. send and recv concern
 * only two ranks, so they carry the number of the next collective and are not counted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/backend.h"

static const struct {
    const char *name;
    bool reduces;
    const char *direction; // where the data goes, relative to the root or peer; NULL if none
} kinds[] = {
    [ALL_REDUCE] = { "all_reduce", true, NULL },
    [BROADCAST] = { "broadcast", false, "from" },
    [REDUCE] = { "reduce", true, "to" },
    [GATHER] = { "gather", false, "to" },
    [ALL_GATHER] = { "all_gather", false, NULL },
    [SCATTER] = { "scatter", false, "from" },
    [REDUCE_SCATTER] = { "reduce_scatter", true, NULL },
    [BARRIER] = { "barrier", false, NULL },
    [SEND] = { "send", false, "to" },
    [RECV] = { "recv", false, "from" },
};

int process_group_global_rank(const ProcessGroup *pg, int rank)
{
    return pg->members != NULL ? pg->members[rank] : rank;
}

ProcessGroup *process_group_root(const ProcessGroup *pg)
{
    while (pg->parent != NULL)
        pg = pg->parent;
    return (ProcessGroup *)pg;
}

const char *collective_name(CollectiveKind kind)
{
    return kinds[kind].name;
}

char *collective_describe(const Collective *collective, char text[DESCRIPTION_BYTES])
{
    static const char *const ops[] = { " (sum)", " (mean)", " (max)", " (min)" };
    const CollectiveKind kind = collective->kind;
    const ProcessGroup *pg = collective->pg;
    const char *op = kinds[kind].reduces ? ops[collective->op] : "";
    const char *quote = pg->name[0] != '\0' ? "\"" : "";
    char what[64] = "", where[32] = "";
    if (kind != BARRIER)
        snprintf(what, sizeof what, " of %zu %s%s", collective->count, dtype_name(collective->type),
                 op);
    if (kinds[kind].direction != NULL)
        snprintf(where, sizeof where, " %s rank %d", kinds[kind].direction,
                 process_group_global_rank(pg, collective->root));
    snprintf(text, DESCRIPTION_BYTES, "%s #%" PRIu64 "%s%s%s%s%s%s", kinds[kind].name,
             collective->sequence, what, where, *quote ? " in group " : "", quote, pg->name, quote);
    return text;
}

int rank_count(const bool *has, int world_size)
{
    int count = 0;
    for (int rank = 0; rank < world_size; rank++)
        count += has[rank];
    return count;
}

/* Shortens runs of three and more ranks to their ends. */
char *rank_list(const bool *has, int world_size, char text[RANK_LIST_BYTES])
{
    int left = rank_count(has, world_size);
    snprintf(text, RANK_LIST_BYTES, "rank%s", left == 1 ? "" : "s");
    for (int rank = 0, end; rank < world_size; rank = end) {
        end = rank + 1;
        if (!has[rank])
            continue;
        while (end < world_size && has[end])
            end++;
        if (end - rank == 2) // "4, 5" rather than "4 to 5"
            end--;
        left -= end - rank;

        const size_t length = strlen(text);
        const char *separator = length <= strlen("ranks") ? " " : left > 0 ? ", " : " and ";
        char range[32] = "";
        if (end - rank > 2)
            snprintf(range, sizeof range, " to %d", end - 1);
        snprintf(text + length, RANK_LIST_BYTES - length, "%s%d%s", separator, rank, range);
    }
    return text;
}

bool collective_is_point_to_point(CollectiveKind kind)
{
    return kind == SEND || kind == RECV;
}

void process_group_observe(ProcessGroup *pg, Observer *observer)
{
    CHECK(pg->parent == NULL, "process_group_observe is for the group of all ranks");
    observer->next = pg->calls.observers;
    pg->calls.observers = observer;
}

void collective_report(const Collective *collective, CollectiveState state)
{
    const Observer *observer = process_group_root(collective->pg)->calls.observers;
    for (; observer != NULL; observer = observer->next)
        observer->see(observer->context, collective, state);
}

/* Dies unless the call is valid; the backend checks what depends on other ranks. */
static void check(const ProcessGroup *pg, const Collective *collective)
{
    char text[DESCRIPTION_BYTES];
    CHECK(collective->root >= 0 && collective->root < pg->world_size,
          "%s: there is no rank %d: ranks are numbered from 0 to %d", kinds[collective->kind].name,
          collective->root, pg->world_size - 1);
    CHECK(!collective_is_point_to_point(collective->kind) || collective->root != pg->rank,
          "%s: that is this rank itself", collective_describe(collective, text));

    size_t bytes = 0;
    CHECK(!__builtin_mul_overflow(collective->count, dtype_size(collective->type), &bytes) &&
              !__builtin_mul_overflow(bytes, (size_t)pg->world_size, &bytes),
          "%s: no memory is that large", collective_describe(collective, text));
}

static Work start(ProcessGroup *pg, CollectiveKind kind, const void *in, void *out, size_t count,
                  DType type, ReduceOp op, int root, bool async)
{
    // An empty array may be NULL, but not from here on, because even NULL + 0 is undefined.
    if (count == 0)
        in = out = pg;
    ProcessGroup *all = process_group_root(pg);
    const Collective collective = {
        pg, all->calls.count, pg->sequence, kind, type, op, count, root, in, out, async
    };
    check(pg, &collective);
    all->calls.count++;
    if (!collective_is_point_to_point(kind))
        pg->sequence++;
    collective_report(&collective, COLLECTIVE_SCHEDULED);
    const long ticket = all->staging != NULL ? staging_start(all->staging, &collective)
                                             : pg->backend->start(pg->state, &collective);
    collective_report(&collective, COLLECTIVE_QUEUED);
    return (Work){ pg, ticket };
}

void work_wait(Work work)
{
    const Collective collective = { .pg = work.pg, .op_id = (uint64_t)work.ticket };
    struct Staging *staging = process_group_root(work.pg)->staging;
    collective_report(&collective, COLLECTIVE_AWAITED);
    if (staging != NULL)
        staging_wait(staging, work.ticket);
    else
        work.pg->backend->wait(work.pg->state, work.ticket);
    collective_report(&collective, COLLECTIVE_RETURNED);
}

Work all_reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    return start(pg, ALL_REDUCE, data, data, count, type, op, 0, true);
}

Work broadcast_async(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    return start(pg, BROADCAST, data, data, count, type, 0, root, true);
}

Work reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root)
{
    return start(pg, REDUCE, data, data, count, type, op, root, true);
}

Work all_gather_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    return start(pg, ALL_GATHER, in, out, count, type, 0, 0, true);
}

Work reduce_scatter_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                          ReduceOp op)
{
    return start(pg, REDUCE_SCATTER, in, out, count, type, op, 0, true);
}

void all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    work_wait(start(pg, ALL_REDUCE, data, data, count, type, op, 0, false));
}

void broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    work_wait(start(pg, BROADCAST, data, data, count, type, 0, root, false));
}

void reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op, int root)
{
    work_wait(start(pg, REDUCE, data, data, count, type, op, root, false));
}

void gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root)
{
    work_wait(start(pg, GATHER, in, out, count, type, 0, root, false));
}

void all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    work_wait(start(pg, ALL_GATHER, in, out, count, type, 0, 0, false));
}

void scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type, int root)
{
    work_wait(start(pg, SCATTER, in, out, count, type, 0, root, false));
}

void reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                    ReduceOp op)
{
    work_wait(start(pg, REDUCE_SCATTER, in, out, count, type, op, 0, false));
}

void pg_send(ProcessGroup *pg, const void *data, size_t count, DType type, int to)
{
    work_wait(start(pg, SEND, data, NULL, count, type, 0, to, false));
}

void pg_recv(ProcessGroup *pg, void *data, size_t count, DType type, int from)
{
    work_wait(start(pg, RECV, NULL, data, count, type, 0, from, false));
}

void barrier(ProcessGroup *pg)
{
    work_wait(start(pg, BARRIER, NULL, NULL, 0, 0, 0, 0, false));
}

double all_reduce_scalar(ProcessGroup *pg, double value, ReduceOp op)
{
    all_reduce(pg, &value, 1, FLOAT64, op);
    return value;
}
