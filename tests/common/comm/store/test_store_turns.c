/*
 * Large replies are sent in turns. The server's thread is ended here, and its loop is called turn
 * by turn, so that the order of events does not depend on time. Its source is included for that.
 */
#include "common/comm/store/store_server.c"

#include <sys/ioctl.h>

#include "tests/common/comm/store/store_fixture.h"

enum { NUM_CLIENTS = 40, VALUES = 7 };

#define VALUE_BYTES ((size_t)8 << 20)
#define REPLY_BYTES (VALUES * (8 + VALUE_BYTES))

static StoreServer *start_without_thread(int *port)
{
    StoreServer *server = store_server_start("127.0.0.1", port, NULL);
    assert_non_null(server);
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    eventfd_read(server->stop_fd, &(eventfd_t){ 0 });
    return server;
}

/* Connects a client and lets the server accept it. */
static int join(StoreServer *server, int port)
{
    const size_t before = server->num_clients[PROVEN];
    const int fd = net_connect("127.0.0.1", port, deadline());
    assert_true(fd >= 0);
    assert_int_equal(net_send(fd, BYTES(VALIDATE GET("a")), deadline()), 0);
    while (server->num_clients[PROVEN] == before)
        assert_true(serve_turn(server));
    uint64_t none = 1;
    assert_int_equal(net_recv(fd, &none, sizeof none, deadline()), 0);
    assert_int_equal(none, 0);
    return fd;
}

static size_t bytes_come(int fd)
{
    int count = 0;
    assert_int_equal(ioctl(fd, FIONREAD, &count), 0);
    return (size_t)count;
}

/* Forty clients ask for 56 MiB each, then one sends a PING: that is answered when the
 * others have a small part of their replies, a slice for each turn, and none of these takes memory.
 */
static void test_small_replies_overtake_large_ones(void **state)
{
    (void)state;
    int port = 0, fds[NUM_CLIENTS];
    StoreServer *server = start_without_thread(&port);
    Client setter = { .service = &server->open };
    uint8_t *value = mem_calloc(VALUE_BYTES, 1);
    Bytes request = { 0 };
    bytes_put(&request, BYTES(VALIDATE "\1" ONE("k")));
    bytes_put_blob(&request, (Blob){ value, VALUE_BYTES });
    assert_true(service_feed(&setter, request.data, request.count));
    bytes_free(&request);
    for (int i = 0; i < VALUES; i++)
        bytes_put(&request, BYTES(GET("k")));

    for (int i = 0; i < NUM_CLIENTS; i++)
        fds[i] = join(server, port);
    const int honest = join(server, port);
    for (int i = 0; i < NUM_CLIENTS; i++)
        net_send(fds[i], request.data, request.count, deadline());
    net_send(honest, BYTES(PING("ping")), deadline());
    const Client *client;
    TAILQ_FOREACH(client, &server->clients[PROVEN], next)
    {
        while (bytes_come(client->fd) == 0)
            usleep(1000);
    }
    int turns = 0;
    for (; bytes_come(honest) < 4; turns++)
        assert_true(serve_turn(server));
    assert_true(server->open.bytes < VALUE_BYTES + NUM_CLIENTS * 2048);
    assert_in_range(turns, 1, 20);
    for (int i = 0; i < NUM_CLIENTS; i++)
        assert_in_range(bytes_come(fds[i]), 0, (size_t)turns * SEND_BYTES);

    // Two of them finally get their whole replies; the others close.
    for (int i = 2; i < NUM_CLIENTS; i++)
        close(fds[i]);
    for (size_t left[2] = { REPLY_BYTES, REPLY_BYTES }; left[0] + left[1] > 0;) {
        bool owes = false;
        TAILQ_FOREACH(client, &server->clients[PROVEN], next)
        {
            owes |= client->unread > 0;
        }
        if (owes) // else it would wait for their next requests
            assert_true(serve_turn(server));
        for (int i = 0; i < 2; i++) {
            const ssize_t count = recv(fds[i], value, VALUE_BYTES, 0);
            left[i] -= count > 0 ? (size_t)count : 0;
        }
    }
    close(fds[0]);
    close(fds[1]);
    close(honest);
    bytes_free(&request);
    free(value);
    server_free(server);
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_small_replies_overtake_large_ones) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
