/*
 * journal_group.h - the journal's lines about the group (journal.h). It is a separate file so that
 * a program for one device links nothing of common/comm.
 */
#ifndef EXTRAS_WATCH_JOURNAL_GROUP_H
#define EXTRAS_WATCH_JOURNAL_GROUP_H

#include "common/comm/backend.h"

/* Notes that this rank is in a group, and opens the file, if none is open. */
void journal_group(const ProcessGroup *pg);
void journal_start(const Collective *collective);
void journal_wait(const Collective *collective);
void journal_leave(void);

#endif
