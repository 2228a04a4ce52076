/*
 * A client of a store whose server is hostile: a line with a letter for each call, then the
 * server's answers, whatever the requests. With a dot in the line it keeps the connection open.
 */
#include "common/comm/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/comm/store/store_ops.h"
#include "tests/fuzz/targets.h"

static void call(Store *store, char letter)
{
    static const char *const keys[] = { "a", "b" };
    char text[16], other[8];
    StoreValue values[] = { { text, sizeof text }, { other, sizeof other } };
    switch (letter) {
    case 'g':
        store_get(store, "k", text, sizeof text);
        break;
    case 'G':
        store_multi_get(store, 2, keys, values);
        break;
    case 's':
        store_set(store, "k", "value", 5);
        break;
    case 'S':
        store_multi_set(store, 2, keys, (StoreValue[]){ { "1", 1 }, { "", 0 } });
        break;
    case 'a':
        store_add(store, "n", 2);
        break;
    case 'A':
        store_append(store, "k", "more", 4);
        break;
    case 'w':
        store_wait(store, "k");
        break;
    case 't':
        store_try_wait(store, "k", 0.5);
        break;
    case 'c':
        store_check(store, "k");
        break;
    case 'd':
        store_delete(store, "k");
        break;
    case 'C':
        store_compare_set(store, "k", "old", "new", text, sizeof text);
        break;
    case 'p':
        store_ping(store);
        break;
    case 'n':
        store_num_keys(store);
        break;
    case 'l':
        free(store_list_keys(store));
        break;
    case 'q':
        store_queue_pop(store, "q", false, values);
        break;
    case 'Q':
        store_queue_pop(store, "q", true, values);
        break;
    case 'L':
        store_queue_len(store, "q");
        break;
    case 'P':
        store_queue_push(store, "q", "element", 7);
        break;
    case 'b':
        store_barrier(store, "b", 3);
        break;
    }
}

void fuzz_store(Input input)
{
    char calls[64];
    if (input_line(&input, calls, sizeof calls) == NULL)
        return;
    input.stays = strchr(calls, '.') != NULL;
    Store store = { .fd = world_connect(input), .timeout = 2, .host = "hostile", .prefix = "p/" };
    for (const char *letter = calls; *letter != '\0'; letter++) {
        call(&store, *letter);
        world_passed();
    }
    close(store.fd);
}
