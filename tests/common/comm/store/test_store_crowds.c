/*
 * The store's server under load: countless connections, silent ones, ones that fill its memory.
 * It keeps what its process needs, and honest clients are served.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/comm/store/store_server.c" // to fill its table without using the memory
#include "tests/common/comm/store/store_fixture.h"

static void test_crowds_come_and_go(void **state)
{
    Fixture *f = *state;
    for (int round = 0; round < 20; round++) {
        int fds[100];
        for (int i = 0; i < 100; i++)
            fds[i] = connect_unproven(f);
        store_ping(&f->honest);
        for (int i = 0; i < 100; i++)
            close(fds[i]);
    }
}

static bool is_hung_up(int fd)
{
    char byte;
    return net_recv(fd, &byte, 1, 0) < 0 && errno == ECONNRESET;
}

enum { LIMIT = 256, SPARE = 64 }; // descriptors of the server's process, and its reserve of them

static void pause_server(StoreServer *server)
{
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    eventfd_read(server->stop_fd, &(eventfd_t){ 0 });
}

/* Starts a server that may have LIMIT descriptors, as if the system granted no more. */
static StoreServer *start_with_few_descriptors(int *port)
{
    StoreServer *server = store_server_start("127.0.0.1", port, NULL);
    assert_non_null(server);
    pause_server(server);
    server->max_fd = LIMIT - SPARE;
    assert_int_equal(thread_start(&server->thread, serve, server), 0);
    return server;
}

typedef struct {
    pid_t process;
    int arrived[2]; // a pipe
} Clients;

/* Twice as many clients as the server has descriptors, in a process of their own: each sends
 * `hello` and then nothing more. Returns when each has been answered or disconnected, or if not
 * is_answered, when each has connected. */
static Clients start_clients(int port, bool is_answered, const char *hello, size_t bytes)
{
    Clients clients;
    assert_int_equal(pipe(clients.arrived), 0);
    clients.process = fork();
    if (clients.process == 0) {
        alarm(900);
        for (int i = 0; i < 2 * LIMIT; i++) {
            const int fd = net_connect("127.0.0.1", port, deadline());
            net_send(fd, hello, bytes, deadline());
            char answer[4];
            if (is_answered)
                net_recv(fd, answer, sizeof answer, deadline()); // accepted by now, or disconnected
        }
        if (write(clients.arrived[1], "", 1) == 1)
            pause();
        _exit(0);
    }
    char byte;
    assert_int_equal(read(clients.arrived[0], &byte, 1), 1);
    return clients;
}

static void end_clients(Clients clients)
{
    kill(clients.process, SIGKILL);
    waitpid(clients.process, NULL, 0);
    close(clients.arrived[0]);
    close(clients.arrived[1]);
}

/* Counts this process's open descriptors below LIMIT. */
static int num_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < LIMIT; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static size_t count_clients(const StoreServer *server, int standing)
{
    size_t count = 0;
    const Client *client;
    TAILQ_FOREACH(client, &server->clients[standing], next)
    {
        count++;
    }
    return count;
}

static int highest_descriptor(const StoreServer *server)
{
    int highest = 0;
    const Client *client;
    TAILQ_FOREACH(client, &server->clients[PROVEN], next)
    {
        highest = client->fd > highest ? client->fd : highest;
    }
    return highest;
}

/* A server in a process that may open few files leaves half of them to other uses. */
static void test_the_spare_descriptors(void **state)
{
    (void)state;
    static const int limits[][2] = { { 100, 50 }, { 128, 64 }, { 129, 65 }, { 200, 136 } };
    for (int i = 0; i < 4; i++) {
        const pid_t child = fork();
        if (child == 0) {
            const rlim_t most = (rlim_t)limits[i][0];
            int port = 0;
            if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most, most }) < 0)
                _exit(0);
            _exit((int)store_server_start("127.0.0.1", &port, NULL)->max_fd);
        }
        int status = 0;
        waitpid(child, &status, 0);
        assert_int_equal(WEXITSTATUS(status), limits[i][1]);
    }
}

/* Any number of clients in another process leave this process descriptors for its other work, even
 * if they send requests. Clients that only send VALIDATE have a share of their own. */
static void test_descriptors_are_kept_free(void **state)
{
    (void)state;
    for (int asks = 0; asks < 2; asks++) {
        int port = 0;
        StoreServer *server = start_with_few_descriptors(&port);
        const Clients clients = asks ? start_clients(port, true, BYTES(VALIDATE GET("a")))
                                     : start_clients(port, true, BYTES(VALIDATE PING("ping")));
        if (asks)
            assert_in_range(num_descriptors(), LIMIT / 2, LIMIT - SPARE + 2);
        else
            assert_in_range(num_descriptors(), (LIMIT - SPARE) / 8, (LIMIT - SPARE) / 8 + 16);
        pause_server(server);
        assert_int_equal(num_servers, 2);
        assert_int_equal(server->num_clients[asks ? PROVEN : UNPROVEN],
                         count_clients(server, asks ? PROVEN : UNPROVEN));
        if (asks)
            assert_int_equal(highest_descriptor(server), server->max_fd);
        else
            assert_int_equal(server->num_clients[UNPROVEN], server->max_fd / 8 / 2);
        assert_int_equal(thread_start(&server->thread, serve, server), 0);
        end_clients(clients);
        store_server_stop(server);
    }
}

/* Unproven clients make room, the oldest first: a rank that comes after them finds a place, and a
 * client that has sent a request keeps its place, however long ago that was. If the job has a
 * secret, clients that do not know it make room whatever they request. */
static void test_the_unproven_make_room(void **state)
{
    (void)state;
    for (int hello = 0; hello < 4; hello++) {
        int port = 0;
        if (hello == 3)
            secret_make();
        if (hello == 3 && getenv(SECRET_VARIABLE) == NULL) // a build without extras/secret
            break;
        StoreServer *server = start_with_few_descriptors(&port);
        Store rank[2];
        Clients clients[2];
        for (int i = 0; i < 2; i++) {
            assert_true(store_connect(&rank[i], "127.0.0.1", port, TIMEOUT));
            assert_int_equal(store_count_worker(&rank[i], 1), i + 1);
            clients[i] = hello == 0   ? start_clients(port, false, "", 0)
                         : hello == 1 ? start_clients(port, false, BYTES("\0\xce\xf7"))
                         : hello == 2 ? start_clients(port, true, BYTES(VALIDATE PING("ping")))
                                      : start_clients(port, true, BYTES(VALIDATE GET("a")));
        }
        for (int i = 0; i < 2; i++) {
            store_ping(&rank[i]);
            store_free(&rank[i]);
            end_clients(clients[i]);
        }
        store_server_stop(server);
    }
    unsetenv(SECRET_VARIABLE);
}

/* The servers of a process, such as an elastic node's two, share the unproven clients' descriptors;
 * one server's share is not at the expense of a client of the other. */
static void test_servers_share_descriptors(void **state)
{
    (void)state;
    enum { NUM = 3 };
    StoreServer *server[NUM];
    Clients clients[NUM];
    int port[NUM] = { 0 };
    for (int i = 0; i < NUM; i++)
        server[i] = start_with_few_descriptors(&port[i]);
    const int before = num_descriptors();
    for (int i = 0; i < NUM; i++)
        clients[i] = start_clients(port[i], true, BYTES(VALIDATE PING("ping")));
    assert_in_range(num_descriptors() - before, 1, (LIMIT - SPARE) / 8 + 2 * NUM);
    for (int i = 0; i < NUM; i++) {
        end_clients(clients[i]);
        store_server_stop(server[i]);
    }
}

/* Returns true for a sanitizer build, which needs much memory of its own. */
static bool is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

static size_t resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Marks three quarters of the memory as used. The server pauses meanwhile. */
static void fill_table(const Fixture *f)
{
    pause_server(f->server);
    f->server->open.bytes += STORE_MAX_MEMORY / 4 * 3;
    assert_int_equal(thread_start(&f->server->thread, serve, f->server), 0);
}

/* Ten large requests that never end: none of them is too large alone, but together they are. */
static void test_requests_share_the_memory(void **state)
{
    Fixture *f = *state;
    fill_table(f);
    enum { NUM = 10, PARTS = 7 };
    const size_t size = 8 << 20, before = resident_bytes();
    char *value = mem_calloc(size, 1);
    int fds[NUM], num_hung_up = 0;
    for (int i = 0; i < NUM; i++) {
        fds[i] = connect_unproven(f);
        net_send(fds[i], BYTES(VALIDATE "\13" U64("\10")), deadline());
        for (int part = 0; part < PARTS; part++) {
            const uint64_t length = size;
            net_send(fds[i], BYTES(ONE("k")), deadline());
            net_send(fds[i], &length, sizeof length, deadline());
            net_send(fds[i], value, size, deadline());
        }
        store_ping(&f->honest);
        assert_true(is_watched() || resident_bytes() < before + ((size_t)300 << 20));
    }
    for (int i = 0; i < NUM; i++) {
        num_hung_up += is_hung_up(fds[i]);
        close(fds[i]);
    }
    assert_in_range(num_hung_up, NUM / 2, NUM - 1);
    free(value);
}

#define GET_K "\3" TWO("/k")

/* Requests large replies from twelve clients at once, none of which reads them. */
static void request_unread(const Fixture *f, const char *request, size_t bytes, int num_requests)
{
    enum { NUM = 12 };
    const size_t before = resident_bytes();
    Bytes requests = { 0 };
    for (int i = 0; i < num_requests; i++)
        bytes_put(&requests, request, bytes);
    int fds[NUM];
    for (int i = 0; i < NUM; i++) {
        fds[i] = connect_unproven(f);
        net_send(fds[i], BYTES(VALIDATE), deadline());
        net_send(fds[i], requests.data, requests.count, deadline());
    }
    Store late;
    assert_true(store_connect(&late, "127.0.0.1", f->port, TIMEOUT)); // served after them
    store_free(&late);
    assert_true(is_watched() || resident_bytes() < before + ((size_t)300 << 20));
    for (int i = 0; i < NUM; i++)
        close(fds[i]);
    bytes_free(&requests);
}

static void test_replies_share_the_memory(void **state)
{
    Fixture *f = *state;
    fill_table(f);
    const size_t size = 8 << 20;
    char *value = mem_calloc(size, 1);
    store_set(&f->honest, "k", value, size);
    free(value);
    store_ping(&f->honest);
    request_unread(f, BYTES(GET_K), 7);
}

/* Lists of keys are copied into replies, unlike values. */
static void test_lists_share_it_too(void **state)
{
    Fixture *f = *state;
    needs_torch_store();
    fill_table(f);
    char key[8000];
    for (int i = 0; i < 60; i++) {
        snprintf(key, sizeof key, "%07990d", i);
        store_set(&f->honest, key, "", 0);
    }
    store_ping(&f->honest);
    request_unread(f, BYTES(LIST_KEYS), 100);
}

/* Twelve clients read their replies except the end; the parts read must not stay in memory. */
static void test_read_replies_are_counted_too(void **state)
{
    Fixture *f = *state;
    enum { NUM = 12 };
    const size_t size = 8 << 20;
    char *value = mem_calloc(size, 1);
    store_set(&f->honest, "k", value, size);
    store_ping(&f->honest);
    const size_t before = resident_bytes();
    int fds[NUM];
    for (int i = 0; i < NUM; i++) {
        fds[i] = connect_unproven(f);
        net_send(fds[i], BYTES(VALIDATE GET_K GET_K GET_K GET_K GET_K GET_K GET_K), deadline());
        for (int part = 0; part < 5; part++)
            net_recv(fds[i], value, size, deadline()); // fails if it was disconnected
        store_ping(&f->honest);
        assert_true(is_watched() || resident_bytes() < before + ((size_t)360 << 20));
    }
    for (int i = 0; i < NUM; i++)
        close(fds[i]);
    free(value);
}

static atomic_int num_accepts;

/* In place of libc's. */
int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    int (*next)(int, struct sockaddr *, socklen_t *, int) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "accept4");
    atomic_fetch_add(&num_accepts, 1);
    return next(fd, address, bytes, flags);
}

/* Clients in another process use up the descriptors of this one. The server must not spin; once
 * they have gone, it accepts new clients. */
static void test_no_descriptors_left(void **state)
{
    Fixture *f = *state;
    int arrived[2], connected[2]; // pipes
    assert_int_equal(pipe(arrived) | pipe(connected), 0);
    char byte = 0;
    const pid_t clients = fork();
    if (clients == 0) {
        alarm(900);
        if (read(arrived[0], &byte, 1) == 1)
            for (int i = 0; i < 40; i++)
                connect_unproven(f);
        if (write(connected[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = { 64, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int taken[64], num_taken = 0;
    while ((taken[num_taken] = dup(STDERR_FILENO)) >= 0)
        num_taken++;
    for (int i = 0; i < 5; i++)
        close(taken[--num_taken]);

    assert_int_equal(write(arrived[1], &byte, 1), 1);
    assert_int_equal(read(connected[0], &byte, 1), 1);
    atomic_store(&num_accepts, 0);
    usleep(300000);
    store_ping(&f->honest);
    assert_in_range(atomic_load(&num_accepts), 1,
                    1 + 300 / FULL_PAUSE_MS * 10); // on a slow machine
    assert_int_equal(dup(STDERR_FILENO), -1);
    while (num_taken > 0)
        close(taken[--num_taken]);
    Store late;
    assert_true(store_connect(&late, "127.0.0.1", f->port, TIMEOUT));
    store_free(&late);
    kill(clients, SIGKILL);
    waitpid(clients, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(arrived[i]);
        close(connected[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        with_server(test_crowds_come_and_go),
        cmocka_unit_test(test_the_spare_descriptors),
        with_server(test_descriptors_are_kept_free),
        with_server(test_the_unproven_make_room),
        cmocka_unit_test(test_servers_share_descriptors),
        with_server(test_requests_share_the_memory),
        with_server(test_replies_share_the_memory),
        with_server(test_lists_share_it_too),
        with_server(test_read_replies_are_counted_too),
        with_server(test_no_descriptors_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
