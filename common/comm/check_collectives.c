/* --check-collectives on: for backends that do not compare the ranks' calls by themselves. */
#include "common/base/log.h"
#include "common/comm/backend.h"

static bool same_call(const Collective *a, const Collective *b)
{
    return a->sequence == b->sequence && a->kind == b->kind && a->type == b->type &&
           a->op == b->op && a->count == b->count && a->root == b->root;
}

void collectives_compare(const ProcessGroup *pg, Collective *all)
{
    all[0].pg = pg; // theirs is a pointer in their memory
    for (int rank = 1; rank < pg->world_size; rank++) {
        all[rank].pg = pg;
        char first[DESCRIPTION_BYTES], other[DESCRIPTION_BYTES];
        CHECK(same_call(&all[0], &all[rank]),
              "the ranks' calls differ: rank %d calls %s, rank %d calls %s",
              process_group_global_rank(pg, 0), collective_describe(&all[0], first),
              process_group_global_rank(pg, rank), collective_describe(&all[rank], other));
    }
}
