/* A group whose ranks survive the loss of others: it is left, and formed anew with other ranks. */
#include "05_fault_tolerance/survivors.h"

#include "common/base/log.h"
#include "common/comm/backend.h"

bool process_group_form(ProcessGroup *pg, const Args *args, int64_t number)
{
    char line[LINE_BYTES], first[LINE_BYTES] = "";
    process_group_line(pg, args, line);
    store_compare_set(pg->store, "options of all ranks", "", line, first, sizeof first - 1);
    CHECK(strcmp(line, first) == 0, "the ranks disagree: this one has %s, another %s", line, first);
    pg->number = number;
    pg->sequence = 0; // a rank that is new begins with the same
    pg->survives = true;
    pg->revoked = false;
    pg->missing = -1;
    process_group_connect(pg, args, line);
    return !pg->revoked;
}

bool process_group_revoked(const ProcessGroup *pg)
{
    return pg->revoked;
}

void process_group_leave(ProcessGroup *pg)
{
    pg->revoked = true;
    if (pg->state != NULL)
        pg->backend->destroy(pg->state, pg);
    pg->state = NULL;
}
