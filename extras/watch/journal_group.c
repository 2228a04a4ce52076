/* The README lists these lines. */
#include "extras/watch/journal_group.h"

#include <inttypes.h>
#include <stdio.h>

#include "extras/watch/journal.h"

void journal_group(const ProcessGroup *pg)
{
    journal_open(pg->rank);
    journal_note("group rank=%d world_size=%d backend=%s", pg->rank, pg->world_size,
                 pg->backend->name);
}

void journal_start(const Collective *collective)
{
    if (!journal_is_open())
        return;
    static const char *const ops[] = { "sum", "mean", "max", "min" };
    const CollectiveKind kind = collective->kind;
    char op[16] = "", data[40];
    if (kind == ALL_REDUCE || kind == REDUCE || kind == REDUCE_SCATTER)
        snprintf(op, sizeof op, " op=%s", ops[collective->op]);
    journal_note("start %" PRIu64 " %s count=%zu type=%s%s root=%d group=%s%s", collective->op_id,
                 collective_name(kind), collective->count, dtype_name(collective->type), op,
                 collective->root, collective->pg->parent != NULL ? collective->pg->name : "all",
                 journal_data(collective->in, data));
}

void journal_wait(const Collective *collective)
{
    journal_note("wait %" PRIu64, collective->op_id);
}

void journal_leave(void)
{
    journal_note("leave");
}
