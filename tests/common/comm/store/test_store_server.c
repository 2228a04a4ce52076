/*
 * The store's server and faulty clients: half requests, garbage, clients that never read, sockets
 * that a forked process holds. An honest client is always served during and after.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/comm/store/handshake.h"
#include "tests/common/comm/store/store_fixture.h"
#include "tests/helpers/leaves.h"

/* Reads until the server closes the connection, which it must. */
static void expect_hang_up(int fd)
{
    uint8_t bytes[1 << 16];
    do {
        while (read(fd, bytes, sizeof bytes) > 0)
            continue;
    } while (net_recv(fd, bytes, 1, deadline()) == 0);
    assert_true(errno == ECONNRESET);
    close(fd);
}

static void test_one_byte_at_a_time(void **state)
{
    const Fixture *f = *state;
    needs_torch_store();
    static const char talk[] = VALIDATE CONVERSATION, answers[] = ANSWERS;
    const int fd = connect_unproven(f);
    for (size_t i = 0; i < sizeof talk - 1; i++)
        assert_int_equal(net_send(fd, talk + i, 1, deadline()), 0);
    uint8_t received[sizeof answers - 1];
    assert_int_equal(net_recv(fd, received, sizeof received, deadline()), 0);
    assert_memory_equal(received, answers, sizeof received);
    close(fd);
}

static void test_conversations_broken_off_anywhere(void **state)
{
    const Fixture *f = *state;
    static const char talk[] = VALIDATE CONVERSATION;
    for (size_t length = 0; length < sizeof talk; length++) {
        const int fd = connect_unproven(f);
        assert_int_equal(net_send(fd, talk, length, deadline()), 0);
        close(fd);
    }
}

static void test_garbage_is_hung_up_on(void **state)
{
    const Fixture *f = *state;
    const char *given = getenv("SEED");
    const unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    print_message("SEED=%u repeats this\n", seed);
    srand(seed);
    for (int i = 0; i < 200; i++) {
        uint8_t garbage[2000];
        for (size_t j = 0; j < sizeof garbage; j++)
            garbage[j] = (uint8_t)rand();
        if (i % 2 == 0)
            memcpy(garbage, VALIDATE, 5);
        const int fd = connect_unproven(f);
        net_send(fd, garbage, (size_t)rand() % sizeof garbage, deadline());
        close(fd);
    }
    const int fd = connect_unproven(f);
    assert_int_equal(net_send(fd, "GET / HTTP/1.1\r\n\r\n", 18, deadline()), 0);
    expect_hang_up(fd);
}

/* Requests 100 MiB and reads nothing: others are served, and it is finally disconnected. */
static void test_client_that_never_reads(void **state)
{
    Fixture *f = *state;
    const size_t size = 1 << 20;
    char *value = mem_calloc(size, 1);
    store_set(&f->honest, "v", value, size);
    free(value);
    const int fd = connect_unproven(f);
    assert_int_equal(net_send(fd, BYTES(VALIDATE), deadline()), 0);
    for (int i = 0; i < 100; i++) {
        net_send(fd, BYTES("\3" TWO("/v")), deadline());
        store_ping(&f->honest);
    }
    expect_hang_up(fd);
}

/* The reply exceeds the socket buffers: it is sent as the client reads, and others are served. */
static void test_client_that_reads_slowly(void **state)
{
    Fixture *f = *state;
    const size_t size = 8 << 20;
    char *value = mem_calloc(size, 1);
    memset(value, 'x', size);
    store_set(&f->honest, "v", value, size);
    store_ping(&f->honest);
    const int fd = connect_unproven(f);
    assert_int_equal(net_send(fd, BYTES(VALIDATE "\3" TWO("/v") PING("ping")), deadline()), 0);
    memset(value, 0, size);
    uint64_t length = 0;
    assert_int_equal(net_recv(fd, &length, sizeof length, deadline()), 0);
    assert_int_equal(length, size);
    for (size_t i = 0; i < size; i += size / 8) {
        store_ping(&f->honest);
        assert_int_equal(net_recv(fd, value + i, size / 8, deadline()), 0);
    }
    assert_int_equal(value[0], 'x');
    assert_memory_equal(value, value + 1, size - 1);
    assert_int_equal(net_recv(fd, value, 4, deadline()), 0);
    assert_memory_equal(value, "ping", 4);
    const clock_t before = clock();
    usleep(100 * 1000);
    assert_true(clock() < before + CLOCKS_PER_SEC / 20); // all is sent, so the server sleeps
    free(value);
    close(fd);
}

/* A forked process has copies of all sockets; clients must be disconnected nevertheless. */
static void test_forked_copies_keep_nothing_open(void **state)
{
    Fixture *f = *state;
    int port = 0;
    StoreServer *other = store_server_start("127.0.0.1", &port, NULL);
    Store client;
    assert_true(store_connect(&client, "127.0.0.1", port, TIMEOUT));
    const int unproven = connect_unproven(f);
    assert_int_equal(net_send(unproven, BYTES(VALIDATE PING("ping")), deadline()), 0);
    char echo[4];
    assert_int_equal(net_recv(unproven, echo, 4, deadline()), 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(900);
        pause();
        _exit(0);
    }
    assert_int_equal(net_send(unproven, "\xff", 1, deadline()), 0); // not an operation
    expect_hang_up(unproven);
    store_server_stop(other);
    assert_int_equal(net_recv(client.fd, echo, 1, deadline()), -1);
    assert_int_equal(errno, ECONNRESET);
    store_free(&client);
    store_ping(&f->honest);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* The key is set just before the server is stopped: a client waiting for it is answered. */
static void test_last_wake_up_is_sent(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        Store host;
        int port = 0;
        StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
        assert_true(store_connect(&host, "127.0.0.1", port, TIMEOUT));
        const int waiter = net_connect("127.0.0.1", port, deadline());
        assert_int_equal(
            net_send(waiter, BYTES(VALIDATE PING("ping") "\6" U64("\1") TWO("/k")), deadline()), 0);
        char received[5];
        assert_int_equal(net_recv(waiter, received, 4, deadline()), 0);
        store_ping(&host); // one turn later the waiter's request has been executed, too
        host.server = server;
        store_set(&host, "k", "1", 1);
        store_free(&host); // also stops the server
        assert_int_equal(net_recv(waiter, received, 1, deadline()), 0);
        close(waiter);
    }
}

static void test_port_in_use_is_an_error(void **state)
{
    Fixture *f = *state;
    assert_null(store_server_start("127.0.0.1", &f->port, NULL));
    assert_int_equal(errno, EADDRINUSE);
}

/* A server whose clients have stored something, wait, and have not read a reply; and one that
 * cannot start. */
static void use_servers(void *context)
{
    (void)context;
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    assert_null(store_server_start("127.0.0.1", &port, NULL));
    Store client;
    assert_true(store_connect(&client, "127.0.0.1", port, TIMEOUT));
    store_set(&client, "key", "value", 5);
    assert_int_equal(net_send(client.fd, BYTES(PUSH("q", ONE("x"))), deadline()), 0);
    assert_false(store_try_wait(&client, "never", 0));
    const int waiting = net_connect("127.0.0.1", port, deadline());
    assert_int_equal(net_send(waiting, BYTES(VALIDATE WAIT("n") GET("k")), deadline()), 0);
    uint64_t reply;
    assert_int_equal(net_recv(waiting, &reply, sizeof reply, deadline()), 0);
    store_server_stop(server);
    close(waiting);
    store_free(&client);
}

static void test_a_server_leaves_nothing(void **state)
{
    (void)state;
    assert_leaves_nothing(use_servers, NULL);
    secret_make(); // then clients that know it have a table of their own
    assert_leaves_nothing(use_servers, NULL);
    unsetenv(SECRET_VARIABLE);
}

/* In a job with a secret, clients without a handshake are served, too. */
static void test_client_without_handshake(void **state)
{
    (void)state;
    int port = 0;
    secret_make();
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    unsetenv(SECRET_VARIABLE);
    const int fd = net_connect("127.0.0.1", port, deadline());
    assert_int_equal(net_send(fd, BYTES(VALIDATE PING("ping")), deadline()), 0);
    char echo[4];
    assert_int_equal(net_recv(fd, echo, sizeof echo, deadline()), 0);
    assert_memory_equal(echo, "ping", sizeof echo);
    close(fd);
    store_server_stop(server);
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        with_server(test_one_byte_at_a_time),
        with_server(test_conversations_broken_off_anywhere),
        with_server(test_garbage_is_hung_up_on),
        with_server(test_client_that_never_reads),
        with_server(test_client_that_reads_slowly),
        with_server(test_forked_copies_keep_nothing_open),
        cmocka_unit_test(test_last_wake_up_is_sent),
        with_server(test_port_in_use_is_an_error),
        cmocka_unit_test(test_a_server_leaves_nothing),
        cmocka_unit_test(test_client_without_handshake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
