/* group_extras.h - what each extra does when a group is formed and left (group_extras.c calls it).
 */
#ifndef EXTRAS_GROUP_GROUP_EXTRAS_H
#define EXTRAS_GROUP_GROUP_EXTRAS_H

#include "common/comm/backend.h"

void hierarchy_check(const ProcessGroup *pg, const Args *args);
void hierarchy_leaving(ProcessGroup *pg);

void network_formed(ProcessGroup *pg, const Args *args);

void watch_group_formed(ProcessGroup *pg, const Args *args);
void watch_group_leaving(ProcessGroup *pg);
void watch_group_waits_for(const struct Mesh *mesh, int rank);

void register_check(const ProcessGroup *pg, const Args *args);
void register_formed(ProcessGroup *pg, const Args *args);
void register_leaving(ProcessGroup *pg);

#endif
