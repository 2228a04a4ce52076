/*
 * Large replies are sent in turns. The server's thread is ended here, and its loop is called turn
 * by turn, so that the order of events does not depend on time. Its source is included for that.
 */
#include "common/comm/store/store_server.c"

#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "tests/common/comm/store/store_fixture.h"
#include "tests/helpers/rank_process.h"

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

/* Replaces libc's: fails on request. */
static int recv_error;

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    if (recv_error == 0)
        return recvfrom(fd, data, bytes, flags, NULL, NULL);
    errno = recv_error;
    return -1;
}

/* Likewise: counts its calls. */
static int num_accepts;

int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    num_accepts++;
    return (int)syscall(SYS_accept4, fd, address, bytes, flags);
}

/* Likewise: takes so many bytes at most in its next calls, in this order, and then all. */
static size_t takes[3]; // 0: it would block
static int num_takes;

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    size_t most = bytes;
    if (num_takes > 0) {
        most = takes[0] < bytes ? takes[0] : bytes;
        memmove(takes, takes + 1, sizeof takes - sizeof *takes);
        num_takes--;
    }
    if (most == 0)
        return errno = EAGAIN, -1;
    return sendto(fd, data, most, flags, NULL, 0);
}

/* A turn may send SEND_BYTES, however few of them the kernel takes at once. What it does not take
 * comes later, and then the client waits for nothing more. */
static void test_a_kernel_that_takes_little(void **state)
{
    (void)state;
    static const struct {
        size_t takes[3];
        int num_takes;
        size_t sent; // in this turn
    } cases[] = { { { SEND_BYTES - 1 }, 1, SEND_BYTES },
                  { { SEND_BYTES }, 1, SEND_BYTES },
                  { { 0 }, 1, 0 },
                  { { 10, 0 }, 2, 10 },
                  { { 10, 20, 0 }, 3, 30 },
                  { { 0 }, 0, SEND_BYTES } };
    enum { COUNT = SEND_BYTES + 1000 };
    static uint8_t expected[8 + COUNT], got[8 + COUNT];
    int port = 0;
    StoreServer *server = start_without_thread(&port);
    Client setter = { .service = &server->open };
    Bytes request = { 0 };
    memcpy(expected, &(uint64_t){ COUNT }, 8);
    for (size_t i = 8; i < sizeof expected; i++)
        expected[i] = (uint8_t)(i * 37 >> 3);
    bytes_put(&request, BYTES(VALIDATE "\1" ONE("k")));
    bytes_put(&request, expected, sizeof expected);
    assert_true(service_feed(&setter, request.data, request.count));
    const int fd = join(server, port);
    const Client *client = TAILQ_FIRST(&server->clients[PROVEN]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(net_send(fd, BYTES(GET("k")), deadline()), 0);
        memcpy(takes, cases[i].takes, sizeof takes);
        num_takes = cases[i].num_takes;
        assert_true(serve_turn(server));
        assert_int_equal(num_takes, 0);
        assert_int_equal(client->sent, cases[i].sent);
        assert_true(client->is_blocked);
        while (client->unread > 0)
            assert_true(serve_turn(server));
        assert_false(client->is_blocked);
        assert_int_equal(net_recv(fd, got, sizeof got, deadline()), 0);
        assert_memory_equal(got, expected, sizeof got);
    }
    bytes_free(&request);
    service_remove(&setter);
    close(fd);
    server_free(server);
}

/* What a client may get and send in its turn, and how many may come in one. */
static void test_limits_of_a_turn(void **state)
{
    (void)state;
    enum { PINGS = 4000, CALLERS = 70 };
    int port = 0, fds[CALLERS];
    StoreServer *server = start_without_thread(&port);
    const int fd = join(server, port);
    const Client *client = TAILQ_FIRST(&server->clients[PROVEN]);
    char pings[5 * PINGS];
    for (int i = 0; i < PINGS; i++)
        memcpy(pings + 5 * i, PING("ping"), 5);
    assert_int_equal(net_send(fd, pings, sizeof pings, deadline()), 0);
    while (bytes_come(client->fd) < sizeof pings)
        usleep(1000);
    assert_true(serve_turn(server));
    assert_int_equal(bytes_come(client->fd), sizeof pings - READ_BYTES);
    while (bytes_come(fd) < 4 * SEND_REPLIES)
        usleep(1000);
    assert_int_equal(client->unread / (sizeof(Item) + sizeof(Value) + 4),
                     READ_BYTES / 5 - SEND_REPLIES);
    for (; client->unread > 0 || bytes_come(client->fd) > 0; assert_true(serve_turn(server)))
        continue;
    for (size_t left = 4 * PINGS; left > 0; left -= left < sizeof pings ? left : sizeof pings)
        assert_int_equal(net_recv(fd, pings, left < sizeof pings ? left : sizeof pings, deadline()),
                         0);

    for (int i = 0; i < CALLERS; i++)
        fds[i] = net_connect("127.0.0.1", port, deadline());
    assert_true(serve_turn(server));
    assert_int_equal(server->num_clients[UNPROVEN], MOST_PER_TURN);
    assert_true(serve_turn(server));
    assert_int_equal(server->num_clients[UNPROVEN], CALLERS);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
    close(fd);
    server_free(server);
}

/* Which errors of a connection end it, and its own end. */
static void test_connections_that_end(void **state)
{
    (void)state;
    static const struct {
        int error; // 0: the client closes
        bool stays;
    } cases[] = { { EAGAIN, true }, { EINTR, true }, { ECONNRESET, false }, { 0, false } };
    int port = 0;
    StoreServer *server = start_without_thread(&port);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int fd = join(server, port);
        if (cases[i].error == 0)
            close(fd);
        else
            assert_int_equal(net_send(fd, BYTES(PING("ping")), deadline()), 0);
        errno = EAGAIN; // of an earlier call
        recv_error = cases[i].error;
        assert_true(serve_turn(server));
        recv_error = 0;
        assert_int_equal(server->num_clients[PROVEN], cases[i].stays);
        if (cases[i].stays)
            drop_client(server, TAILQ_FIRST(&server->clients[PROVEN]));
        if (cases[i].error != 0)
            close(fd);
    }
    server_free(server);
}

/* Oldest first, and if descriptors run out one at least, of those that have shown nothing. */
static void test_whom_make_room_drops(void **state)
{
    (void)state;
    static const struct {
        int unproven, sealed, proven; // clients
        bool is_full;
        int left, sealed_left;
    } cases[] = {
        { 12, 0, 12, false, 10, 0 }, { 10, 11, 0, false, 10, 10 }, { 5, 3, 2, true, 4, 3 },
        { 1, 2, 0, true, 0, 2 },     { 0, 2, 9, true, 0, 1 },      { 12, 4, 0, true, 10, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int port = 0;
        StoreServer *server = start_without_thread(&port);
        server->max_fd = 8 * 10 * (long)num_servers;
        const int num[] = { cases[i].unproven, cases[i].sealed, cases[i].proven };
        const Client *newest = NULL;
        for (int standing = 0; standing < 3; standing++)
            for (int j = 0; j < num[standing]; j++) {
                Client *client = mem_calloc(1, sizeof *client);
                *client = (Client){ .service = &server->open, .fd = -1 };
                TAILQ_INSERT_TAIL(&server->clients[UNPROVEN], client, next);
                server->num_clients[UNPROVEN]++;
                set_standing(server, client, standing);
                newest = standing == UNPROVEN ? client : newest;
            }
        make_room(server, cases[i].is_full);
        assert_int_equal(server->num_clients[UNPROVEN], cases[i].left);
        assert_int_equal(server->num_clients[SEALED], cases[i].sealed_left);
        assert_int_equal(server->num_clients[PROVEN], cases[i].proven);
        assert_ptr_equal(TAILQ_LAST(&server->clients[UNPROVEN], Clients),
                         cases[i].left > 0 ? newest : NULL);
        server_free(server);
    }
}

/* From seven eighths of the descriptors on, the oldest unproven client makes room for the next. */
static void test_when_descriptors_run_out(void **state)
{
    (void)state;
    int port = 0, spare[48], num_spare = 0, fds[3];
    StoreServer *server = start_without_thread(&port);
    for (int i = 0; i < 3; i++)
        fds[i] = net_connect("127.0.0.1", port, deadline());
    int next = dup(port > 0 ? STDIN_FILENO : -1);
    while ((next + 1) % 7 != 0 || next < 28) { // so that their share is more than three
        spare[num_spare++] = next;
        next = dup(STDIN_FILENO);
    }
    close(next); // the first of the three gets it, and the second the limit
    server->max_fd = 8 * ((next + 1) / 7);
    assert_true(serve_turn(server));
    assert_int_equal(server->num_clients[UNPROVEN], 2);
    assert_int_equal(TAILQ_LAST(&server->clients[UNPROVEN], Clients)->fd, next + 2);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    while (server->num_clients[UNPROVEN] > 0)
        assert_true(serve_turn(server));

    // Those that have no place at all are disconnected in one turn, and it asks for one more.
    for (int i = 0; i < 3; i++)
        fds[i] = net_connect("127.0.0.1", port, deadline());
    server->max_fd = 8;
    num_accepts = 0;
    assert_true(serve_turn(server));
    assert_int_equal(num_accepts, 3 + 1);
    assert_int_equal(server->num_clients[UNPROVEN], 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    while (num_spare > 0)
        close(spare[--num_spare]);
    server_free(server);
}

/* A turn accepts only if a client has come. Without a standard input that may be descriptor 0. */
static void test_the_first_descriptor(void **state)
{
    (void)state;
    int port = 0;
    StoreServer *server = start_without_thread(&port);
    const int fd = net_connect("127.0.0.1", port, deadline()), input = dup(0);
    close(0);
    num_accepts = 0;
    assert_true(serve_turn(server));
    assert_int_equal(num_accepts, 2);
    assert_int_equal(TAILQ_FIRST(&server->clients[UNPROVEN])->fd, 0);
    assert_int_equal(net_send(fd, BYTES(VALIDATE PING("ping")), deadline()), 0);
    assert_true(serve_turn(server));
    assert_int_equal(num_accepts, 2);
    close(fd);
    server_free(server);
    dup2(input, 0);
    close(input);
}

static void connect_with_secret(int rank, int port)
{
    Store store;
    (void)rank;
    CHECK(store_connect(&store, "127.0.0.1", port, TIMEOUT), "no store");
    CHECK(store.has_secret, "it does not know that there is a secret");
    store_ping(&store);
}

/* In a job with a secret a client has a standing of its own from its seal to its proof. */
static void test_the_standings_of_a_client(void **state)
{
    (void)state;
    int port = 0;
    size_t seen[NUM_STANDINGS] = { 0 };
    secret_make();
    if (getenv(SECRET_VARIABLE) == NULL) // a build without extras/secret
        skip();
    StoreServer *server = start_without_thread(&port);
    const Rank client = start_rank(connect_with_secret, 1, port);
    while (seen[PROVEN] == 0 || server->num_clients[PROVEN] > 0) {
        assert_true(serve_turn(server));
        for (int standing = UNPROVEN; standing < NUM_STANDINGS; standing++)
            seen[standing] |= server->num_clients[standing];
    }
    for (int standing = UNPROVEN; standing < NUM_STANDINGS; standing++)
        assert_int_equal(seen[standing], 1);
    assert_int_equal(end_rank(&client), 0);
    server_free(server);
    unsetenv(SECRET_VARIABLE);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_replies_overtake_large_ones),
        cmocka_unit_test(test_limits_of_a_turn),
        cmocka_unit_test(test_a_kernel_that_takes_little),
        cmocka_unit_test(test_connections_that_end),
        cmocka_unit_test(test_whom_make_room_drops),
        cmocka_unit_test(test_when_descriptors_run_out),
        cmocka_unit_test(test_the_first_descriptor),
        cmocka_unit_test(test_the_standings_of_a_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
