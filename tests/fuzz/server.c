/*
 * The store's server with its sockets: clients connect, send, stop reading, and close in any order.
 * Its thread does not start here (world.h); its loop is called instead, and stopped when no client
 * has anything left to send. Its source is included for that.
 */
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int stop_fd; // the server's

static int wait_or_stop(int fd, struct epoll_event *events, int count, int timeout)
{
    (void)timeout;
    const int ready = epoll_wait(fd, events, count, 0);
    if (ready > 0)
        return ready;
    eventfd_write(stop_fd, 1);
    return epoll_wait(fd, events, count, 0);
}

#define epoll_wait wait_or_stop
#include "common/comm/store/store_server.c"
#include "tests/fuzz/targets.h"

enum { COME, GO, SEND, MAX_ENDS = 8 };

void fuzz_server(Input input)
{
    int port = 0, num_ends = 0, ends[MAX_ENDS];
    StoreServer *server = store_server_start("localhost", &port, NULL);
    EXPECT(server != NULL);
    stop_fd = server->stop_fd;
    while (input.size > 0) {
        const uint8_t what = input_byte(&input);
        if (what % 4 == COME && num_ends < MAX_ENDS) {
            ends[num_ends++] = world_accept_next();
            eventfd_write(server->listen_fd, 1);
        } else if (num_ends > 0 && what % 4 == GO) {
            shutdown(ends[what / 4 % num_ends], SHUT_RDWR);
        } else if (num_ends > 0) {
            const Input part = input_part(&input);
            const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
            send(ends[what / 4 % num_ends], part.data, part.size, flags);
        }
        serve(server);
        if (server->open.num_values > 0)
            world_passed();
        eventfd_read(stop_fd, &(eventfd_t){ 0 });
    }
    server_free(server);
}
