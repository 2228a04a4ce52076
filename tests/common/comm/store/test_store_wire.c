/*
 * The store's client on the wire: what it sends, byte for byte, and how it handles a server that is
 * late, silent, or not a store at all.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"
#include "common/comm/store/store_protocol.h"
#include "tests/common/comm/store/store_ops.h"
#include "tests/helpers/rank_process.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 600.0 // seconds; ranks that are to fail wait for brief

/* A server with a fixed answer, whatever the request. */
typedef struct {
    bool echoes; // answers the handshake first
    const char *answer;
    size_t answer_bytes;
    size_t expected_bytes; // bytes to receive after the handshake
    uint8_t hello[10], received[128];
    int listener, port;
    pthread_t thread;
} Puppet;

static void *play_server(void *argument)
{
    Puppet *puppet = argument;
    const double deadline = seconds_now() + TIMEOUT;
    const int fd = net_accept(puppet->listener, deadline);
    net_recv(fd, puppet->hello, sizeof puppet->hello, deadline);
    if (puppet->echoes)
        net_send(fd, puppet->hello + 6, 4, deadline);
    net_send(fd, puppet->answer, puppet->answer_bytes, deadline);
    net_recv(fd, puppet->received, puppet->expected_bytes, deadline);
    close(fd);
    return NULL;
}

static void puppet_listen(Puppet *puppet)
{
    puppet->port = 0;
    puppet->listener = net_listen("localhost", &puppet->port);
}

static void puppet_play(Puppet *puppet, void *(*play)(void *))
{
    assert_int_equal(pthread_create(&puppet->thread, NULL, play, puppet), 0);
}

static void puppet_start(Puppet *puppet, void *(*play)(void *))
{
    puppet_listen(puppet);
    puppet_play(puppet, play);
}

static void puppet_end(Puppet *puppet)
{
    shutdown(puppet->listener, SHUT_RDWR); // a client that came too late to connect never will
    pthread_join(puppet->thread, NULL);
    close(puppet->listener);
}

/* The bytes are those of PyTorch's own client for the same calls (tests/golden/tcpstore.jsonl). */
static void test_requests_on_the_wire(void **state)
{
    (void)state;
    static const char hello[] = "\0\xce\xf7\x85\x3c\x0d";
    static const char requests[] = "\1\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"
                                   "\4\2\0\0\0\0\0\0\0/n\xf9\xff\xff\xff\xff\xff\xff\xff"
                                   "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k\3\2\0\0\0\0\0\0\0/k";
    static const char answers[] = "\xfe\xff\xff\xff\xff\xff\xff\xff" // to ADD
                                  "\0\1\0\0\0\0\0\0\0v"; // to WAIT and GET
    Puppet puppet = { .echoes = true,
                      .answer = answers,
                      .answer_bytes = sizeof answers - 1,
                      .expected_bytes = sizeof requests - 1 };
    puppet_start(&puppet, play_server);
    Store store;
    assert_true(store_connect(&store, "localhost", puppet.port, TIMEOUT));
    store_set(&store, "k", "v", 1);
    assert_int_equal(store_add(&store, "n", -7), -2);
    char value = 0;
    assert_int_equal(store_get(&store, "k", &value, 1), 1);
    assert_int_equal(value, 'v');
    puppet_end(&puppet);
    assert_memory_equal(puppet.hello, hello, sizeof hello - 1);
    assert_memory_equal(puppet.received, requests, sizeof requests - 1);
    store_free(&store);
}

static void test_workers_count_themselves(void **state)
{
    (void)state;
    static const char request[] = "\4\5\0\0\0\0\0\0\0init/\1\0\0\0\0\0\0\0";
    Puppet puppet = { .echoes = true,
                      .answer = "\1\0\0\0\0\0\0",
                      .answer_bytes = 8,
                      .expected_bytes = sizeof request - 1 };
    puppet_start(&puppet, play_server);
    Store store;
    store_init(&store, "localhost", puppet.port, false, TIMEOUT); // does not wait for the others
    puppet_end(&puppet);
    assert_memory_equal(puppet.received, request, sizeof request - 1);
    store_free(&store);
}

/* Plays a slow server, which wakes a client only after that has given up; or which sends its answer
 * instead. */
static void *wake_too_late(void *argument)
{
    Puppet *puppet = argument;
    uint8_t request[64];
    const double deadline = seconds_now() + TIMEOUT;
    const int fd = net_accept(puppet->listener, deadline);
    net_recv(fd, request, 10, deadline); // VALIDATE and PING
    net_send(fd, request + 6, 4, deadline);
    net_recv(fd, request, 1 + 8 + 8 + 4, deadline); // WAIT for "/key"
    net_recv(fd, request, 1, deadline);
    if (request[0] == STORE_CANCEL_WAIT && puppet->answer != NULL)
        net_send(fd, puppet->answer, puppet->answer_bytes, deadline);
    else if (request[0] == STORE_CANCEL_WAIT)
        net_send(fd, "\0\1", 2, deadline);
    net_recv(fd, request, 5, deadline); // PING
    net_send(fd, request + 1, 4, deadline);
    close(fd);
    return NULL;
}

static void test_wake_up_that_crosses_the_cancel(void **state)
{
    (void)state;
    Puppet puppet = { 0 };
    puppet_start(&puppet, wake_too_late);
    Store store;
    assert_true(store_connect(&store, "localhost", puppet.port, TIMEOUT));
    assert_true(store_try_wait(&store, "key", 0.05));
    store_ping(&store);
    store_free(&store);
    puppet_end(&puppet);
}

/* Plays a server that lists keys forever, faster than the client reads them. */
static void *list_forever(void *argument)
{
    Puppet *puppet = argument;
    char keys[7000][9] = { { 0 } };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        memcpy(keys[i], "\1\0\0\0\0\0\0\0k", sizeof *keys);
    const int64_t count = INT64_MAX;
    const double deadline = seconds_now() + TIMEOUT;
    const int fd = net_accept(puppet->listener, deadline);
    net_recv(fd, puppet->received, 10, deadline); // VALIDATE and PING
    net_send(fd, puppet->received + 6, 4, deadline);
    net_recv(fd, puppet->received, 1, deadline);
    net_send(fd, &count, sizeof count, deadline);
    while (seconds_now() < deadline && net_send(fd, keys, sizeof keys, deadline) == 0)
        continue;
    close(fd);
    return NULL;
}

static void list_keys(int rank, int port)
{
    Store store;
    (void)rank;
    if (store_connect(&store, "127.0.0.1", port, brief))
        store_list_keys(&store);
}

/* Like expect_death, with a puppet as the server, which serves one client only. The client is
 * forked before the puppet's thread starts: a lock that the thread held then, as that of
 * seconds_awake, would never be released in the child. */
static void expect_death_by(const Puppet *like, void *(*play)(void *), RankBody *body,
                            const char *format)
{
    char line[LINE_BYTES];
    bool dies = false;
    for (brief = 0.3; !dies && brief < 60; brief *= 10) {
        Puppet puppet = *like;
        puppet_listen(&puppet);
        const Rank child = start_rank(body, 0, puppet.port);
        puppet_play(&puppet, play);
        dies = dies_with(&child, puppet.port, format, line);
        puppet_end(&puppet);
    }
    if (!dies)
        fail_msg("\"%s\" instead of \"%s\"", err, line);
}

static void test_an_endless_reply(void **state)
{
    (void)state;
    const double begun = seconds_now();
    expect_death_by(&(Puppet){ 0 }, list_forever, list_keys,
                    "store at 127.0.0.1:%d: LIST_KEYS: no answer within %g s");
    assert_true(seconds_now() < begun + TIMEOUT / 2); // not only when the server stopped
}

static void get_key(int rank, int port)
{
    Store store;
    (void)rank;
    CHECK(store_connect(&store, "127.0.0.1", port, brief), "no store: %s",
          store_connect_reason(errno));
    store_get(&store, "k", NULL, 0);
}

static void wait_briefly(int rank, int port)
{
    Store store;
    (void)rank;
    CHECK(store_connect(&store, "127.0.0.1", port, TIMEOUT), "no store");
    store_try_wait(&store, "key", 0.05);
    CHECK(false, "it goes on");
}

static void join_for_long(int rank, int port)
{
    Store store;
    store_init(&store, "localhost", port, rank > 0, TIMEOUT);
}

static void test_servers_that_are_none(void **state)
{
    (void)state;
    const struct {
        bool echoes;
        const char *answer;
        size_t bytes;
        const char *line;
    } cases[] = {
        { false, "", 0, "no store: what listens there does not answer" },
        { false, "HTTP/1.1 400", 12, "no store: what answers there is no store" },
        { true, "", 0, "store at 127.0.0.1:%d: CANCEL_WAIT: no answer within %g s" },
        { true, "\7", 1, "WAIT k: the answer makes no sense" },
        { true, "\0\4\0\0\0\0\0\0\0v", 10, "store at 127.0.0.1:%d: GET k: no answer within %g s" },
        { true, "\0\xff\xff\xff\xff\xff\xff\xff\xff", 9, "GET k: the answer makes no sense" },
        { true, "\0\0\0\0\4\0\0\0\0", 9, "GET k: no answer within %2$g s" }, // 64 MiB may come
        { true, "\0\1\0\0\4\0\0\0\0", 9, "GET k: the answer makes no sense" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Puppet puppet = { .echoes = cases[i].echoes,
                                .answer = cases[i].answer,
                                .answer_bytes = cases[i].bytes,
                                .expected_bytes = sizeof puppet.received };
        expect_death_by(&puppet, play_server, get_key, cases[i].line);
    }
    for (int i = 0; i < 2; i++) { // to CANCEL_WAIT, at once or after the wake-up
        const Puppet slow = { .answer = &"\0\7"[!i], .answer_bytes = 1 + i };
        expect_death_by(&slow, wake_too_late, wait_briefly,
                        "store at 127.0.0.1:%d: CANCEL_WAIT: the answer makes no sense");
    }
    const Puppet browser = { .answer = "HTTP/1.1 400", .answer_bytes = 12, .expected_bytes = 128 };
    expect_death_by(&browser, play_server, join_for_long,
                    "no store at localhost:%d within 600 s (what answers there is no store)");
}

/* Each call by itself finds that the connection is gone. */
static void test_calls_over_a_lost_connection(void **state)
{
    (void)state;
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    for (int call = 0; call < 4; call++) {
        Store store;
        assert_true(store_connect(&store, "127.0.0.1", port, TIMEOUT));
        store.may_fail = true;
        shutdown(store.fd, SHUT_RDWR);
        StoreRequest request = store_request_begin(&store, STORE_CHECK, "key");
        if (call == 0)
            store_set(&store, "key", "value", 5);
        else if (call == 1)
            store_ping(&store);
        else
            store_request_send(&request);
        uint8_t reply = 7;
        assert_true(store.failed);
        store.failed = call != 3; // then the reply is what fails
        assert_false(store_reply(&request, &reply, 1));
        assert_true(store.failed);
        store_free(&store);
    }
    store_server_stop(server);
}

/* What extras/secret is told, where there is a key. */
static bool has_key;
static double since[16]; // when the client had its first answer, for each time that it proves
static int num_proofs;

const Key256 *__real_secret_find(HandshakeService service);
const Key256 *__wrap_secret_find(HandshakeService service);
bool __wrap_store_prove(const Store *store, const Key256 *key, double first, double deadline);

const Key256 *__wrap_secret_find(HandshakeService service)
{
    static const Key256 key;
    return has_key ? &key : __real_secret_find(service);
}

bool __wrap_store_prove(const Store *store, const Key256 *key, double first, double deadline)
{
    (void)store, (void)key, (void)deadline;
    since[num_proofs++ % 16] = first;
    errno = ECONNRESET;
    return false;
}

/* A server that disconnects a client each time: it is told since when that has tried. */
static void test_since_when_a_client_tries(void **state)
{
    (void)state;
    int port = 0;
    Store store;
    const int listener = net_listen("127.0.0.1", &port);
    const double begun = seconds_awake();
    has_key = true;
    while (num_proofs < 2) { // in case the machine is busy
        num_proofs = 0;
        assert_false(store_connect(&store, "127.0.0.1", port, 0.25));
    }
    has_key = false;
    assert_true(since[0] >= begun && since[0] <= seconds_awake());
    for (int i = 1; i < num_proofs; i++)
        assert_true(since[i] == since[0]);
    close(listener);
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_on_the_wire),
        cmocka_unit_test(test_workers_count_themselves),
        cmocka_unit_test(test_wake_up_that_crosses_the_cancel),
        cmocka_unit_test(test_an_endless_reply),
        cmocka_unit_test(test_servers_that_are_none),
        cmocka_unit_test(test_calls_over_a_lost_connection),
        cmocka_unit_test(test_since_when_a_client_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
