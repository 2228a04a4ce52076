/*
 * The store's server with its sockets: clients come, send, stop reading, and hang up in any order.
 * Its functions are called here as its loop calls them, so they are included: a thread of its own
 * would make the same input end differently each time.
 */
#include "common/dist/store_server.c"
#include "tests/fuzz/targets.h"

enum { COME, GO, SEND, MAX_ENDS = 8 };

/* Serves whoever has something to say, as serve() does. */
static void serve_all(StoreServer *server)
{
    struct epoll_event events[MAX_EVENTS];
    int count;
    for (int turn = 0; turn < 8 && (count = epoll_wait(server->epoll_fd, events, 8, 0)) > 0; turn++)
        for (int i = 0; i < count; i++)
            serve_client(server, events[i].data.ptr);
}

void fuzz_server(Input input)
{
    StoreServer *server = mem_calloc(1, sizeof *server);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    server->listen_fd = eventfd(0, EFD_CLOEXEC);
    int ends[MAX_ENDS];
    int num_ends = 0;
    while (input.size > 0) {
        const uint8_t what = input_byte(&input);
        if (what % 4 == COME && num_ends < MAX_ENDS) {
            ends[num_ends] = world_accept_next();
            accept_client(server);
            num_ends++;
        } else if (num_ends > 0 && what % 4 == GO) {
            shutdown(ends[what / 4 % num_ends], SHUT_RDWR);
        } else if (num_ends > 0) {
            const Input part = input_part(&input);
            const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
            send(ends[what / 4 % num_ends], part.data, part.size, flags);
        }
        serve_all(server);
    }
    server_free(server);
}
