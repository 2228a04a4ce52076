/*
 * Joining a store: which rank serves it, which ranks wait, each client's keys and requests, and the
 * message of a rank that gives up. Each rank is a process here, as in a job.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"
#include "tests/common/comm/store/store_ops.h"
#include "tests/common/comm/store/store_requests.h"
#include "tests/helpers/rank_process.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 300.0 // seconds; ranks that are to fail wait for brief

static void forget_launcher(void)
{
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    unsetenv("TORCHELASTIC_RUN_ID");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    unsetenv("MASTER_PORT");
}

static void exchange_with_others(int rank, int port)
{
    Store store;
    if (rank == 0)
        usleep(50000); // so that the others start before the server
    store_init(&store, "localhost", port, rank == 0, TIMEOUT);
    CHECK(store.timeout == TIMEOUT, "its calls have %g s", store.timeout);
    for (int other = 0; other < 4; other++) {
        char key[32], value = (char)('a' + rank);
        snprintf(key, sizeof key, "rank/%d", rank);
        store_set(&store, key, &value, 1);
        snprintf(key, sizeof key, "rank/%d", other);
        CHECK(store_get(&store, key, &value, 1) == 1 && value == 'a' + other, "%c", value);
    }
    if (store_add(&store, "done", 1) == 4)
        store_set(&store, "all done", "", 0);
    store_wait(&store, "all done");
    if (rank != 0)
        store_add(&store, "gone", 1);
    while (rank == 0 && store_add(&store, "gone", 0) < 3)
        usleep(1000); // it has the server, which has to answer their last call
    store_free(&store);
}

static void test_ranks_find_each_other(void **state)
{
    (void)state;
    const int port = net_free_port();
    Rank ranks[4];
    for (int i = 0; i < 4; i++)
        ranks[i] = start_rank(exchange_with_others, i, port);
    for (int i = 0; i < 4; i++)
        if (end_rank(&ranks[i]) != EXIT_SUCCESS)
            fail_msg("rank %d: %s", i, err);
}

static void serve(int rank, int port)
{
    Store store;
    (void)rank;
    store_init(&store, "127.0.0.1", port, true, brief);
}

static void join(int rank, int port)
{
    Store store;
    (void)rank;
    store_init(&store, "127.0.0.1", port, false, brief);
}

static void test_who_stays_away_is_missed(void **state)
{
    (void)state;
    const int port = net_free_port();
    expect_death(join, port,
                 "no store at 127.0.0.1:%d within %g s (nobody listens there): is rank 0 running");
    assert_null(strstr(err, "waits for")); // only long waits are logged
}

static const char *named; // the host that MASTER_ADDR names

static void join_named(int rank, int port)
{
    Store store;
    store_init(&store, named, port, rank == 0, rank == 0 ? TIMEOUT : brief);
}

/* Of a host that is not known net_connect says so. */
static void test_a_long_wait_is_logged(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        double more; // seconds than are not worth a line
        const char *line;
        bool says; // it, and that it waits for rank 0
    } cases[] = {
        { "127.0.0.1", 0.2, "(nobody listens there), 5.2 s at most (--timeout)\n", true },
        { "127.0.0.1", 0, " within 5 s (nobody listens there)", false },
        { "no..host", 0.2, "no host \"no..host\" is known here: still trying\n", false },
    };
    Rank late[3];
    const double begun = seconds_now();
    for (int i = 0; i < 3; i++) {
        named = cases[i].host;
        brief = STORE_QUIET_SECONDS + cases[i].more;
        late[i] = start_rank(join_named, 1, net_free_port());
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(end_rank(&late[i]), EXIT_FAILURE);
        assert_has(err, cases[i].line);
        assert_int_equal(strstr(err, "waits for rank 0 at 127.0.0.1:") != NULL, cases[i].says);
    }
    assert_true(seconds_now() < begun + 2 * STORE_QUIET_SECONDS + 3); // not 5 s and 10.2 s more
}

static void serve_without_descriptors(int rank, int port)
{
    (void)rank;
    Store store;
    const struct rlimit none = { 0, 0 };
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, &none));
    store_init(&store, "127.0.0.1", port, true, brief);
}

static void test_who_cannot_serve_says_why(void **state)
{
    (void)state;
    expect_death(serve_without_descriptors, net_free_port(),
                 "cannot serve the store at 127.0.0.1:%d: Too many open files\n");
}

/* PyTorch's rule for TCPStore's agent: the values that count as true; the port must be its own. */
static void test_agent_that_serves_already(void **state)
{
    (void)state;
    const struct {
        const char *use_agent_store;
        int port_offset;
        bool serves;
    } cases[] = { { "True", 0, true },   { "true", 0, true },  { "1", 0, true },
                  { "False", 0, false }, { "yes", 0, false },  { "", 0, false },
                  { "True", 1, false },  { "1", 65536, false } };
    int port = 0;
    StoreServer *agent = store_server_start("127.0.0.1", &port, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char master_port[16];
        snprintf(master_port, sizeof master_port, "%d", port + cases[i].port_offset);
        setenv("TORCHELASTIC_USE_AGENT_STORE", cases[i].use_agent_store, 1);
        setenv("MASTER_PORT", master_port, 1);
        brief = TIMEOUT;
        if (cases[i].serves)
            expect_success(serve, 0, port); // joins without waiting for the other
        else
            expect_death(serve, port,
                         "cannot serve the store at 127.0.0.1:%d: Address already in use");
        if (!cases[i].serves)
            assert_non_null(strstr(err, " (MASTER_PORT may be changed)\n"));
    }
    store_server_stop(agent);
    forget_launcher();
}

/* The variable is left over from an outer job whose launcher has gone: no rank waits a timeout. */
static void test_agent_that_is_gone(void **state)
{
    (void)state;
    const int port = net_free_port();
    char master_port[16];
    snprintf(master_port, sizeof master_port, "%d", port);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("MASTER_PORT", master_port, 1);
    expect_death(
        serve, port,
        "no store at 127.0.0.1:%d, where a launcher should serve it: is MASTER_ADDR right? If no "
        "launcher started this, unset TORCHELASTIC_USE_AGENT_STORE");
    forget_launcher();
}

/* Every rank fails at once. */
static void test_addresses_that_are_none(void **state)
{
    (void)state;
    static const char *const hosts[] = {
        "127.0.0.1 ", "10.0.0.1 10.0.0.2", "tcp://node1", "node1,node2", "node1:29500",
        "a\tb",       "\"node1\"",         "a\n",         "$(hostname)"
    };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        named = hosts[i];
        expect_death(join_named, net_free_port(), "can be no host");
        assert_non_null(strstr(err, "MASTER_ADDR is \""));
    }
}

/* Rank 0 leaves a key behind, which rank 1 must not find and rank 2 must. */
static void look_for_key(int rank, int port)
{
    Store store;
    store_init(&store, "127.0.0.1", port, false, TIMEOUT);
    CHECK(store_check(&store, "key") == (rank == 2), "rank %d sees key", rank);
    store_set(&store, "key", "", 0);
    store_ping(&store);
    store_free(&store);
}

static void test_attempts_do_not_see_each_others_keys(void **state)
{
    (void)state;
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    expect_success(look_for_key, 0, port);
    setenv("TORCHELASTIC_RUN_ID", "", 1); // as if it were not set
    expect_success(look_for_key, 2, port);
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    expect_success(look_for_key, 1, port);
    setenv("TORCHELASTIC_RUN_ID", "job 7", 1);
    expect_success(look_for_key, 1, port);
    expect_success(look_for_key, 2, port);
    Store store;
    assert_true(store_connect(&store, "127.0.0.1", port, TIMEOUT));
    assert_true(store_check(&store, "ddp.c/none/0/key"));
    assert_true(store_check(&store, "ddp.c/none/1/key"));
    assert_true(store_check(&store, "ddp.c/job 7/1/key"));
    if (has_extras)
        assert_int_equal(store_num_keys(&store), 4); // and init/
    store_free(&store);

    char id[120] = ""; // as long as the prefix holds, and one letter more
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    setenv("TORCHELASTIC_RUN_ID", memset(id, 'i', 118), 1);
    expect_success(look_for_key, 0, port);
    setenv("TORCHELASTIC_RUN_ID", memset(id, 'i', 119), 1);
    expect_death(look_for_key, port, "TORCHELASTIC_RUN_ID is too long: ddp.c/iii");
    store_server_stop(server);
    forget_launcher();
}

/* Rank 0 serves, at a port that other machines reach; so does rank 1, in a job with a secret. */
static void serve_all(int rank, int port)
{
    Store store;
    if (rank == 1)
        secret_make();
    store_init(&store, named, port, rank < 2, TIMEOUT);
}

static void test_an_open_store_is_reported(void **state)
{
    (void)state;
    static const char report[] = "this job has no secret: whoever reaches 0.0.0.0:";
    named = "0.0.0.0";
    expect_success(serve_all, 0, net_free_port());
    assert_non_null(strstr(err, report));
    expect_success(serve_all, 1, net_free_port());
    assert_int_equal(strstr(err, report) == NULL, has_extras);
    named = "127.0.0.1";
    expect_success(serve_all, 0, net_free_port());
    assert_null(strstr(err, "secret"));
    int port = 0;
    named = "0.0.0.0";
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    expect_success(serve_all, 2, port);
    assert_null(strstr(err, "secret"));
    store_server_stop(server);
}

static void wait_for_never(int rank, int port)
{
    Store store;
    if (!store_connect(&store, "127.0.0.1", port, rank == 0 ? brief : TIMEOUT))
        return;
    if (rank == 1)
        store_set(&store, "rank 1", "", 0);
    store_wait(&store, "never");
}

static void put_long_key(int rank, int port)
{
    Store store;
    (void)rank;
    char key[8193] = ""; // one too many
    memset(key, 'k', sizeof key - 1);
    if (store_connect(&store, "127.0.0.1", port, TIMEOUT))
        store_set(&store, key, "", 0);
}

static void put_long_value(int rank, int port)
{
    Store store;
    (void)rank;
    if (store_connect(&store, "127.0.0.1", port, TIMEOUT))
        store_set(&store, "key", mem_calloc((8 << 20) + 1, 1), (8 << 20) + 1);
}

/* Names a host one letter longer than the buffer; rank 1 one that fits. */
static void name_long_host(int rank, int port)
{
    Store store;
    char host[sizeof store.host + 1] = "";
    memset(host, 'h', sizeof store.host - (size_t)rank);
    CHECK(!store_connect(&store, host, port, brief), "a host of this name");
}

static void test_failed_calls_name_store_and_key(void **state)
{
    (void)state;
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    expect_death(wait_for_never, port, "store at 127.0.0.1:%d: WAIT never: in vain for %g s");
    expect_death(put_long_key, port, "this key is too long");
    expect_death(put_long_value, port, "a value may have 8 MiB at most");
    expect_death(name_long_host, port, "the name of the store's host is too long: hhh");
    expect_success(name_long_host, 1, port);
    const Rank waiter = start_rank(wait_for_never, 1, port);
    Store store;
    assert_true(store_connect(&store, "127.0.0.1", port, TIMEOUT));
    store_wait(&store, "rank 1");
    usleep(100000); // by now it waits
    close(store.fd);
    store_server_stop(server);
    assert_int_equal(end_rank(&waiter), EXIT_FAILURE);
    assert_non_null(strstr(err, "WAIT never: Connection reset by peer: has the process"));
}

/* As in launchers, which end their workers before they exit. */
static void test_a_store_that_may_fail(void **state)
{
    (void)state;
    int port = 0;
    char value[8] = "";
    Store store;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    assert_true(store_connect(&store, "127.0.0.1", port, TIMEOUT));
    store.may_fail = true;
    assert_false(store_try_wait(&store, "never", 0.01));
    assert_int_equal(store_add(&store, "sum", 5), 5);
    assert_false(store.failed); // a wait that timed out is not a failure
    store_server_stop(server);
    assert_int_equal(store_add(&store, "sum", 5), 0);
    assert_true(store.failed);
    const double begun = seconds_now();
    store_set(&store, "key", "value", 5);
    store_ping(&store);
    assert_int_equal(store_get(&store, "sum", value, sizeof value), 0);
    assert_int_equal(store_compare_set(&store, "key", "", "new", value, sizeof value), 0);
    assert_false(store_check(&store, "key"));
    assert_false(store_delete(&store, "key"));
    assert_false(store_try_wait(&store, "key", TIMEOUT));
    assert_true(seconds_now() < begun + TIMEOUT / 2);
    store_free(&store);
}

/* Without a standard input 0 is a connection as any other. */
static void connect_as_0(int rank, int port)
{
    Store store;
    (void)rank;
    close(0);
    CHECK(store_connect(&store, "127.0.0.1", port, TIMEOUT) && store.fd == 0, "%d", store.fd);
    store_ping(&store);
}

static void test_the_first_descriptor(void **state)
{
    (void)state;
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    expect_success(connect_as_0, 0, port);
    store_server_stop(server);
}

/* Serves, waits in vain, and ends the server. */
static void serve_and_end(int rank, int port)
{
    Store store;
    (void)rank;
    store_init(&store, "127.0.0.1", port, true, TIMEOUT);
    CHECK(!store_try_wait(&store, "never", 0), "somebody has set it");
    store_free(&store);
    CHECK(net_listen("127.0.0.1", &port) >= 0, "the server has not ended");
}

/* Whatever is logged took seconds, not the days since the machine was started. */
static void test_a_store_can_be_watched(void **state)
{
    (void)state;
    const int port = net_free_port();
    char lines[2][64];
    setenv("DDP_LOG", "store", 1);
    expect_success(serve_and_end, 0, port);
    unsetenv("DDP_LOG");
    if (!has_extras)
        skip();
    snprintf(lines[0], sizeof lines[0], "serving at 127.0.0.1:%d\n", port);
    snprintf(lines[1], sizeof lines[1], "connected to 127.0.0.1:%d after ", port);
    assert_has(err, lines[0]);
    assert_has(err, lines[1]);
    assert_true(atof(strstr(err, lines[1]) + strlen(lines[1])) < TIMEOUT);
    assert_has(err, "waiting for key \"never\", 0 s at most\n");
}

static int listening = -1;

/* Plays a server that answers late; VALIDATE and PING have 5 bytes, and it echoes PING's last 4. */
static void answer_late(int rank, int port)
{
    (void)rank, (void)port;
    char request[10];
    usleep(200000);
    const int fd = net_accept(listening, seconds_now() + TIMEOUT);
    net_recv(fd, request, sizeof request, seconds_now() + TIMEOUT);
    net_send(fd, request + 6, 4, seconds_now() + TIMEOUT);
    net_recv(fd, request, 1, seconds_now() + TIMEOUT); // returns when the client has closed
}

/* A launcher asks for 10 s, logs that it waits, and asks again. A store that began to listen in the
 * last moment of the 10 s is not taken for another program. */
static void test_a_store_that_is_there_at_the_last_moment(void **state)
{
    (void)state;
    bool answered = false;
    for (int attempt = 0; attempt < 5 && !answered; attempt++) { // the machine may be busy
        int port = 0;
        Store store;
        listening = net_listen("127.0.0.1", &port);
        const Rank server = start_rank(answer_late, 0, port);
        answered = store_connect(&store, "127.0.0.1", port, 0.05);
        close(store.fd);
        close(listening);
        kill(server.pid, SIGKILL);
        end_rank(&server);
    }
    assert_true(answered);
}

static void hang_up(int rank, int port)
{
    (void)rank, (void)port;
    for (int i = 0; i < 20; i++)
        close(net_accept(listening, seconds_now() + TIMEOUT));
}

/* The server of an attempt that has ended disconnects its clients: they pause between attempts. */
static void test_a_store_that_hangs_up(void **state)
{
    (void)state;
    int port = 0;
    Store store;
    const double begun = seconds_now();
    listening = net_listen("127.0.0.1", &port);
    const Rank server = start_rank(hang_up, 0, port);
    const int next = dup(listening);
    close(next);
    assert_false(store_connect(&store, "127.0.0.1", port, 0.5));
    assert_int_not_equal(errno, EPROTO);
    assert_true(seconds_now() >= begun + 0.5);
    assert_int_equal(dup(listening), next);
    close(next);
    kill(server.pid, SIGKILL);
    assert_int_not_equal(end_rank(&server), EXIT_SUCCESS); // it has seen fewer than 20 attempts
    close(listening);
}

int main(void)
{
    alarm(900); // nothing here may hang
    forget_launcher();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_store_can_be_watched), // first, since a process reads DDP_LOG once
        cmocka_unit_test(test_ranks_find_each_other),
        cmocka_unit_test(test_who_stays_away_is_missed),
        cmocka_unit_test(test_a_long_wait_is_logged),
        cmocka_unit_test(test_who_cannot_serve_says_why),
        cmocka_unit_test(test_agent_that_serves_already),
        cmocka_unit_test(test_agent_that_is_gone),
        cmocka_unit_test(test_addresses_that_are_none),
        cmocka_unit_test(test_attempts_do_not_see_each_others_keys),
        cmocka_unit_test(test_an_open_store_is_reported),
        cmocka_unit_test(test_failed_calls_name_store_and_key),
        cmocka_unit_test(test_a_store_that_may_fail),
        cmocka_unit_test(test_the_first_descriptor),
        cmocka_unit_test(test_a_store_that_is_there_at_the_last_moment),
        cmocka_unit_test(test_a_store_that_hangs_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
