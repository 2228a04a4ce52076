/* The observers are a list in the group of all ranks; subgroups lead to that group. */
#include "common/comm/observer.h"

#include "common/base/log.h"

void process_group_observe(ProcessGroup *pg, Observer *observer)
{
    CHECK(pg->parent == NULL, "process_group_observe is for the group of all ranks");
    observer->next = pg->observers;
    pg->observers = observer;
}

void collective_report(const Collective *collective, CollectiveState state)
{
    const Observer *observer = process_group_root(collective->pg)->observers;
    for (; observer != NULL; observer = observer->next)
        observer->see(observer->context, collective, state);
}

void collective_report_marks(const Collective *collective, GpuMark begin, GpuMark end)
{
    const Observer *observer = process_group_root(collective->pg)->observers;
    for (; observer != NULL; observer = observer->next)
        if (observer->see_marks != NULL)
            observer->see_marks(observer->context, collective, begin, end);
}
