/* store_wait.h - clients of a store waiting for keys, and waking them. */
#ifndef COMMON_COMM_STORE_STORE_WAIT_H
#define COMMON_COMM_STORE_STORE_WAIT_H

#include "common/comm/store/store_client.h"

typedef LIST_HEAD(WokenList, Client) WokenList;

/* Replies now if all keys are present, else when the last absent one is set; until then the client
 * may send other requests. False: the table is full. */
bool wait_for_keys(Table *table, Client *client, Cursor at);

/* Waits for one key although it is present (BARRIER's counter). False: the table is full. */
bool wait_for_entry(Table *table, Client *client, Entry *entry);

void wait_cancel(Table *table, Client *client);

/* The key was set: replies to the clients that lacked only this key, and adds them to `woken`. An
 * element of a queue (only_one) wakes only the client that has waited longest. */
void wait_end(Table *table, Entry *entry, bool only_one, WokenList *woken);

#endif
