/*
 * WAIT is what makes a table a rendezvous: a rank asks for a key that another rank will set. A
 * waiting client has a Wait at every absent key, and gets its reply when the last one is removed. A
 * key that was set counts as seen, even if it is deleted before the others are set.
 */
#include "common/comm/store/store_wait.h"

void wait_cancel(Table *table, Client *client)
{
    while (!LIST_EMPTY(&client->waits)) {
        Wait *wait = LIST_FIRST(&client->waits);
        Entry *entry = wait->entry;
        entry_stop_waiting(table, wait);
        table_prune(table, entry);
    }
}

bool wait_for_entry(Table *table, Client *client, Entry *entry)
{
    wait_cancel(table, client);
    return entry_wait(table, entry, client, &client->waits);
}

bool wait_for_keys(Table *table, Client *client, Cursor at)
{
    bool waits = false;
    for (uint64_t left = take_u64(&at); left > 0; left--) {
        const Blob key = take_blob(&at);
        if (entry_is_present(table_find(table, key)))
            continue;
        if (!waits)
            wait_cancel(table, client); // a connection has one WAIT: this replaces it
        waits = true;
        Entry *entry = table_enter(table, key);
        if (entry == NULL || !entry_wait(table, entry, client, &client->waits))
            return false;
    }
    if (!waits)
        client_reply_u8(client, STORE_STOP_WAITING);
    return true;
}

void wait_end(Table *table, Entry *entry, bool only_one, WokenList *woken)
{
    Wait *wait;
    while ((wait = TAILQ_FIRST(&entry->waits)) != NULL) {
        Client *client = wait->client;
        entry_stop_waiting(table, wait);
        if (!LIST_EMPTY(&client->waits))
            continue;
        client_reply_u8(client, STORE_STOP_WAITING);
        if (!client->woken)
            LIST_INSERT_HEAD(woken, client, next_woken);
        client->woken = true;
        if (only_one)
            return;
    }
}
