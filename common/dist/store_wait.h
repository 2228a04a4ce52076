/* store_wait.h - clients of a store that wait for keys, and what wakes them. */
#ifndef COMMON_DIST_STORE_WAIT_H
#define COMMON_DIST_STORE_WAIT_H

#include "common/dist/store_client.h"

typedef LIST_HEAD(WokenList, Client) WokenList;

/* Answers now if all keys are present, else when the last absent one has come; until then the
 * client may ask for other things. False: the table is full. */
bool wait_for_keys(Table *table, Client *client, Cursor at);

/* Waits for one key that is not enough yet as it is (BARRIER's counter). False: the table is full.
 */
bool wait_for_entry(Table *table, Client *client, Entry *entry);

void wait_cancel(Table *table, Client *client);

/* The key has come: answers those who waited for it alone, or for it as the last of several, and
 * lists them as woken. An element of a queue wakes only the one who has waited longest. */
void wait_end(Table *table, Entry *entry, bool only_one, WokenList *woken);

#endif
