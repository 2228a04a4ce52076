/*
 * The handshake and the job's secret: only peers that know it are accepted, by a proof valid for
 * one connection, one direction, one service and one rank. The caller here is written by hand with
 * libsodium; tests/attack connects to whole jobs, with another implementation.
 */
#include "extras/secret/hello.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"
#include "tests/helpers/child.h"

#define TIMEOUT 200.0

/* From Python's hashlib and hmac for the secret file "0123456789abcdef0123456789abcdef":
 * hmac.new(sha512(text)[:32], b"ddp.c " + purpose, "sha512").digest()[:8]; a purpose
 * is "store none" or the like, with the run id. */
static const char *const known_key[] = {
    [HANDSHAKE_STORE] = "a08e087ab8c1a10d", [HANDSHAKE_BACKEND] = "a5ac473b216a7e7d"
};

static char path[64];

static void write_secret(const char *text, mode_t mode)
{
    unlink(path);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    chmod(path, mode);
}

static int set_up(void **state)
{
    (void)state;
    static int num_files; // a file is read only once, so each test has its own
    snprintf(path, sizeof path, "/tmp/test_handshake_%d_%d", (int)getpid(), ++num_files);
    unsetenv("TORCHELASTIC_RUN_ID");
    setenv(SECRET_VARIABLE, path, 1);
    write_secret("0123456789abcdef0123456789abcdef", 0600);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(strcat(path, "b")); // connect_with_another's
    unsetenv(SECRET_VARIABLE);
    return 0;
}

static Key256 key_of(HandshakeService service)
{
    const Key256 *key = secret_find(service);
    assert_non_null(key);
    return *key;
}

static void test_each_service_has_a_key_of_its_own(void **state)
{
    (void)state;
    for (HandshakeService service = HANDSHAKE_STORE; service <= HANDSHAKE_BACKEND; service++) {
        const Key256 key = key_of(service);
        char text[17];
        sodium_bin2hex(text, sizeof text, key.bytes, 8);
        assert_string_equal(text, known_key[service]);
    }
}

/* ---- a caller written by hand, and an answerer that gets its bytes ---- */

typedef struct {
    Key256 key;
    HandshakePurpose own; // the answerer's
    HandshakeHello hello; // the caller's
    HandshakeAnswer *answer;
    HandshakePurpose received; // the purpose that the caller has proven
    uint8_t reply[2 * HANDSHAKE_BYTES], proof[HANDSHAKE_BYTES];
    size_t reply_bytes;
} Talk;

static Talk talk_begin(void)
{
    Talk talk = { .key = key_of(HANDSHAKE_BACKEND) };
    talk.own = (HandshakePurpose){ HANDSHAKE_BACKEND, 1, .caller = 8, 1, .attempt = 2, .group = 3 };
    talk.hello = hello_for(&talk.own);
    talk.hello.caller = 4;
    randombytes_buf(talk.hello.nonce, sizeof talk.hello.nonce);
    return talk;
}

static HandshakeState take(Talk *talk, const void *data, size_t count)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[0], data, count, 0), count);
    talk->received = talk->own;
    const HandshakeState state =
        handshake_read(ends[1], &talk->answer, &talk->key, &talk->received);
    if (state == HANDSHAKE_DONE || state == HANDSHAKE_REFUSED) {
        free(talk->answer);
        talk->answer = NULL;
    }
    const ssize_t n = recv(ends[0], talk->reply, sizeof talk->reply, MSG_DONTWAIT);
    talk->reply_bytes = n > 0 ? (size_t)n : 0;
    close(ends[0]);
    close(ends[1]);
    return state;
}

static HandshakeState send_hello(Talk *talk)
{
    return take(talk, &talk->hello, sizeof talk->hello);
}

/* Computes the MAC over role, hello and the nonce in the answerer's reply. */
static void prove_as(Talk *talk, uint8_t role, const Key256 *key)
{
    uint8_t whole[1 + sizeof(HandshakeHello) + HANDSHAKE_BYTES] = { role };
    memcpy(whole + 1, &talk->hello, sizeof talk->hello);
    memcpy(whole + 1 + sizeof talk->hello, talk->reply, HANDSHAKE_BYTES);
    crypto_auth(talk->proof, whole, sizeof whole, key->bytes);
}

static HandshakeState send_proof(Talk *talk)
{
    return take(talk, talk->proof, sizeof talk->proof);
}

static void test_who_knows_the_secret_is_let_in(void **state)
{
    (void)state;
    Talk talk = talk_begin();
    assert_int_equal(send_hello(&talk), HANDSHAKE_MORE);
    assert_int_equal(talk.reply_bytes, sizeof talk.reply);
    uint8_t theirs[HANDSHAKE_BYTES];
    memcpy(theirs, talk.reply + HANDSHAKE_BYTES, sizeof theirs);
    prove_as(&talk, 'a', &talk.key); // what the answerer must have proven
    assert_memory_equal(talk.proof, theirs, sizeof theirs);
    prove_as(&talk, 'c', &talk.key);
    assert_int_equal(send_proof(&talk), HANDSHAKE_DONE);
    assert_int_equal(talk.reply_bytes, 1);
    assert_int_equal(talk.received.caller, 4);
    assert_int_equal(talk.received.channel, 1);
}

/* The seal reserves a place, so it must cover every byte before it, with the right key; but with a
 * wrong one the answerer still answers, and so shows a caller which key it has. */
static void test_a_seal_is_seen(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < 8 * sizeof(HandshakeHello); bit++) {
        Talk talk = talk_begin();
        uint8_t whole[1 + sizeof talk.hello + HANDSHAKE_BYTES] = { 's' };
        memcpy(whole + 1, &talk.hello, sizeof talk.hello); // the seal's own bytes are 0
        crypto_auth(talk.hello.seal, whole, sizeof whole, talk.key.bytes);
        Talk damaged = talk;
        assert_int_equal(send_hello(&talk), HANDSHAKE_SEALED);
        prove_as(&talk, 'c', &talk.key);
        assert_int_equal(send_proof(&talk), HANDSHAKE_DONE);
        ((uint8_t *)&damaged.hello)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(send_hello(&damaged), HANDSHAKE_SEALED);
        free(damaged.answer);
    }
}

static void test_bytes_may_come_one_by_one(void **state)
{
    (void)state;
    Talk talk = talk_begin();
    for (size_t i = 0; i < sizeof talk.hello; i++) {
        assert_int_equal(take(&talk, (uint8_t *)&talk.hello + i, 1), HANDSHAKE_MORE);
        assert_int_equal(talk.reply_bytes > 0, i + 1 == sizeof talk.hello);
    }
    prove_as(&talk, 'c', &talk.key);
    for (size_t i = 0; i < sizeof talk.proof; i++)
        assert_int_equal(take(&talk, talk.proof + i, 1),
                         i + 1 == sizeof talk.proof ? HANDSHAKE_DONE : HANDSHAKE_MORE);
}

static void test_no_bit_may_be_another(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < 8 * sizeof(HandshakeHello); bit++) { // changed in transit
        Talk talk = talk_begin();
        ((uint8_t *)&talk.hello)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const HandshakeState answered = send_hello(&talk);
        ((uint8_t *)&talk.hello)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        prove_as(&talk, 'c', &talk.key);
        if (answered == HANDSHAKE_MORE)
            assert_int_equal(send_proof(&talk), HANDSHAKE_REFUSED);
        else
            assert_int_equal(answered, HANDSHAKE_REFUSED);
    }
    for (size_t bit = 0; bit < 8 * HANDSHAKE_BYTES; bit++) {
        Talk talk = talk_begin();
        send_hello(&talk);
        prove_as(&talk, 'c', &talk.key);
        talk.proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(send_proof(&talk), HANDSHAKE_REFUSED);
    }
}

static void test_another_place_or_version_is_refused(void **state)
{
    (void)state;
    for (int what = 0; what < 8; what++) { // even by a caller that knows the key
        Talk talk = talk_begin();
        HandshakeHello *hello = &talk.hello;
        hello->version -= what == 0; // a downgrade
        hello->service = what == 1 ? HANDSHAKE_STORE : hello->service;
        hello->answerer += what == 2;
        hello->attempt -= what == 3; // a rank that has outlived its attempt
        hello->group += what == 4;
        hello->caller = what == 5 ? 1 : what == 6 ? 8 : hello->caller; // no rank above the answerer
        hello->channel += what == 7;
        assert_int_equal(send_hello(&talk), HANDSHAKE_REFUSED);
        assert_int_equal(talk.reply_bytes, 0);
    }
}

static void test_a_wrong_key_is_refused(void **state)
{
    (void)state;
    Talk talk = talk_begin();
    setenv("TORCHELASTIC_RUN_ID", "another", 1);
    const Key256 others[] = { key_of(HANDSHAKE_STORE), key_of(HANDSHAKE_BACKEND), { { 0 } } };
    unsetenv("TORCHELASTIC_RUN_ID");
    for (size_t i = 0; i < LENGTH(others); i++) {
        talk = talk_begin();
        send_hello(&talk);
        prove_as(&talk, 'c', &others[i]);
        assert_int_equal(send_proof(&talk), HANDSHAKE_REFUSED);
    }
}

static void test_the_answerers_own_proof_is_no_callers(void **state)
{
    (void)state;
    Talk talk = talk_begin();
    send_hello(&talk);
    memcpy(talk.proof, talk.reply + HANDSHAKE_BYTES, sizeof talk.proof); // reflected
    assert_int_equal(send_proof(&talk), HANDSHAKE_REFUSED);
}

static void test_a_recorded_handshake_is_worth_nothing(void **state)
{
    (void)state;
    Talk talk = talk_begin(), parallel = talk, later = talk;
    send_hello(&talk);
    send_hello(&parallel);
    prove_as(&talk, 'c', &talk.key);
    memcpy(parallel.proof, talk.proof, sizeof talk.proof);
    assert_int_equal(send_proof(&parallel), HANDSHAKE_REFUSED);
    assert_int_equal(send_proof(&talk), HANDSHAKE_DONE);
    memcpy(later.proof, talk.proof, sizeof talk.proof);
    assert_int_equal(send_hello(&later), HANDSHAKE_MORE);
    assert_int_equal(send_proof(&later), HANDSHAKE_REFUSED);
}

/* ---- the caller's side ---- */

typedef struct {
    int fd;
    bool reflects; // sends back what comes, instead of answering
} Other;

static void *answer_loop(void *argument)
{
    const Other *other = argument;
    Talk talk = talk_begin();
    uint8_t data[sizeof(HandshakeHello)];
    for (ssize_t n = 1; other->reflects && n > 0;) {
        n = recv(other->fd, data, sizeof data, 0);
        send(other->fd, data, n > 0 ? (size_t)n : 0, MSG_NOSIGNAL);
    }
    struct pollfd arrival = { .fd = other->fd, .events = POLLIN };
    while (!other->reflects && poll(&arrival, 1, -1) == 1) {
        HandshakePurpose purpose = talk.own;
        const HandshakeState received =
            handshake_read(other->fd, &talk.answer, &talk.key, &purpose);
        if (received == HANDSHAKE_DONE || received == HANDSHAKE_REFUSED)
            break;
    }
    free(talk.answer);
    return NULL;
}

static int call(bool reflects, const Key256 *key)
{
    int ends[2];
    pthread_t thread;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Other other = { ends[1], reflects };
    pthread_create(&thread, NULL, answer_loop, &other);
    HandshakePurpose own = talk_begin().own;
    own.caller = 4;
    const int result = handshake_call(ends[0], key, &own, seconds_now() + TIMEOUT);
    const int reason = result < 0 ? errno : 0;
    shutdown(ends[0], SHUT_RDWR);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
    return reason;
}

static void test_a_caller_looks_at_the_answerer_too(void **state)
{
    (void)state;
    const Key256 key = key_of(HANDSHAKE_BACKEND), other = key_of(HANDSHAKE_STORE);
    assert_int_equal(call(false, &key), 0);
    assert_int_equal(call(false, &other), EACCES);
    assert_int_equal(call(true, &key), EACCES);
}

/* ---- the store ---- */

static void wait_without_secret(const void *context)
{
    Store store;
    unsetenv(SECRET_VARIABLE);
    if (store_connect(&store, "127.0.0.1", *(const int *)context, TIMEOUT))
        store_check_secret(&store);
}

static void connect_with_another(const void *context)
{
    Store store;
    strcat(path, "b"); // this process has read the server's
    write_secret("another secret of thirty-two bytes", 0600);
    setenv(SECRET_VARIABLE, path, 1);
    store_connect(&store, "127.0.0.1", *(const int *)context, TIMEOUT);
}

static void connect_with_secret(const void *context)
{
    Store store;
    store_connect(&store, "127.0.0.1", *(const int *)context, TIMEOUT);
}

static void test_a_store_with_a_secret_has_two_tables(void **state)
{
    (void)state;
    int port = 0;
    Store inside, outside;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    assert_non_null(server);
    assert_true(store_connect(&inside, "127.0.0.1", port, TIMEOUT));
    assert_true(inside.has_secret);
    unsetenv(SECRET_VARIABLE); // as PyTorch's clients
    assert_true(store_connect(&outside, "127.0.0.1", port, TIMEOUT));
    store_set(&inside, "key", "in", 2);
    store_ping(&inside);
    assert_false(store_check(&outside, "key"));
    store_set(&outside, "key", "out", 3);
    store_ping(&outside);
    char value[8] = "";
    assert_int_equal(store_get(&inside, "key", value, sizeof value), 2);
    assert_int_equal(store_get(&outside, "key", value, sizeof value), 3);
    assert_int_equal(store_count_worker(&outside, 1), 1);
    assert_int_equal(store_count_worker(&inside, 1), 1);
    assert_dies_saying(wait_without_secret, &port, 1, "has a secret and this process has none");
    setenv(SECRET_VARIABLE, path, 1);
    assert_dies_saying(connect_with_another, &port, 1, "does not know this job's secret");
    store_free(&outside);
    store_free(&inside);
    store_server_stop(server);
}

static void test_with_a_secret_nobody_falls_back(void **state)
{
    (void)state;
    int port = 0;
    unsetenv(SECRET_VARIABLE);
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    assert_non_null(server);
    setenv(SECRET_VARIABLE, path, 1);
    assert_dies_saying(connect_with_secret, &port, 1, "hangs up", "does not have this job's secret",
                       path);
    store_server_stop(server);
}

/* ---- the secret's file ---- */

static void find(const void *context)
{
    (void)context;
    secret_find(HANDSHAKE_STORE);
}

static void test_a_secret_must_be_kept(void **state)
{
    (void)state;
    const char *text = "0123456789abcdef0123456789abcdef";
    for (mode_t bit = 1; bit <= 0100; bit *= 2) {
        write_secret(text, 0600 | bit);
        assert_dies_saying(find, NULL, 2, path, "chmod 600");
    }
    write_secret(text, 0400);
    assert_int_equal(child_run(find, NULL), 0);
    write_secret("0123456789abcdef0123456789abcde", 0600);
    assert_dies_saying(find, NULL, 2, path, "has 31 bytes");
    write_secret("0123456012345601234560123456012345601234560", 0600);
    assert_dies_saying(find, NULL, 2, path, "has 43 bytes, 7 different");
    unlink(path);
    assert_dies_saying(find, NULL, 2, path, "No such file");
    mkfifo(path, 0600);
    assert_dies_saying(find, NULL, 2, path, "must be a file");
    setenv(SECRET_VARIABLE, "/", 1);
    assert_dies_saying(find, NULL, 2, "must be a file");
    setenv(SECRET_VARIABLE, "", 1); // a job without a secret
    assert_null(secret_find(HANDSHAKE_STORE));
}

static void find_two(const void *context)
{
    (void)context;
    Key256 secret[2];
    for (int i = 0; i < 2; i++) {
        unsetenv(SECRET_VARIABLE);
        secret_make();
        secret[i] = key_of(HANDSHAKE_STORE);
    }
    CHECK(memcmp(&secret[0], &secret[1], sizeof secret[0]) != 0, "two are the same");
    printf("%s", getenv(SECRET_VARIABLE));
}

static void test_a_secret_goes_with_the_process_that_made_it(void **state)
{
    (void)state;
    assert_int_equal(child_run(find_two, NULL), 0);
    assert_int_equal(strncmp(out, "/proc/", 6), 0);
    assert_int_equal(access(out, F_OK), -1);
    secret_make(); // the variable is set: it stays
    assert_string_equal(getenv(SECRET_VARIABLE), path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_each_service_has_a_key_of_its_own),
                                        TEST(test_who_knows_the_secret_is_let_in),
                                        TEST(test_a_seal_is_seen),
                                        TEST(test_bytes_may_come_one_by_one),
                                        TEST(test_no_bit_may_be_another),
                                        TEST(test_another_place_or_version_is_refused),
                                        TEST(test_a_wrong_key_is_refused),
                                        TEST(test_the_answerers_own_proof_is_no_callers),
                                        TEST(test_a_recorded_handshake_is_worth_nothing),
                                        TEST(test_a_caller_looks_at_the_answerer_too),
                                        TEST(test_a_store_with_a_secret_has_two_tables),
                                        TEST(test_with_a_secret_nobody_falls_back),
                                        TEST(test_a_secret_must_be_kept),
                                        TEST(test_a_secret_goes_with_the_process_that_made_it) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
