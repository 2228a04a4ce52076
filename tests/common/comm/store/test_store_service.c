/*
 * What the store's server does with the bytes of its clients, without any sockets: the meaning of
 * the operations, in all corner cases that the protocol's description mentions.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/comm/store/store_service.h"
#include "tests/common/comm/store/store_requests.h"
#include "tests/helpers/unit.h"

static Service service;
static Client client[4];

static int set_up(void **state)
{
    (void)state;
    service = (Service){ 0 };
    for (int i = 0; i < 4; i++) {
        client[i] = (Client){ .service = &service };
        if (!service_feed(&client[i], BYTES(VALIDATE)))
            return -1;
    }
    return 0;
}

/* Checks after every test that neither waits nor memory are left. */
static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        service_remove(&client[i]);
    service_free(&service);
    return service.bytes == 0 && service.num_values == 0 ? 0 : -1;
}

static void say(int who, const char *bytes, size_t count)
{
    assert_true(service_feed(&client[who], bytes, count));
}

/* Asserts all that this client has been sent since the last call. */
static void assert_received(int who, const char *bytes, size_t count)
{
    uint8_t received[1000];
    assert_int_equal(read_reply(&client[who], received, sizeof received), count);
    if (count > 0)
        assert_memory_equal(received, bytes, count);
}

#define SAY(who, literal) say(who, BYTES(literal))
#define RECEIVED(who, literal) assert_received(who, BYTES(literal))
#define SILENT(who) assert_received(who, NULL, 0)

static void test_requests_in_pieces_of_any_size(void **state)
{
    needs_torch_store();
    static const char talk[] = CONVERSATION;
    for (size_t size = 1; size < sizeof talk; size += size < 20 ? 1 : 50) {
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
        for (size_t i = 0; i < sizeof talk - 1; i += size) {
            const size_t left = sizeof talk - 1 - i;
            say(0, talk + i, left < size ? left : size);
        }
        RECEIVED(0, ANSWERS);
    }
}

static void test_nothing_happens_before_a_request_is_whole(void **state)
{
    (void)state;
    needs_torch_store();
    static const char request[] = MULTI_SET("a", ONE("1"), "b", TWO("22"));
    SAY(1, WAIT("a"));
    say(0, request, sizeof request - 2);
    SILENT(1);
    SAY(2, CHECK_KEY("a"));
    RECEIVED(2, "\1");
    SAY(0, "2");
    RECEIVED(1, "\0");
}

static void test_numbers_are_read_as_by_strtoll(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *sum; // sum after adding 1 (NULL if the value is not a number)
    } cases[] = {
        { "40", "41" },
        { " \t\n12abc", "13" },
        { "3.9", "4" },
        { "0x10", "1" },
        { "-5", "-4" },
        { "+7", "8" },
        { "-9223372036854775808", "-9223372036854775807" },
        { "9223372036854775807", "-9223372036854775808" }, // wraps around
        { "9223372036854775808", NULL },
        { "", NULL },
        { "  ", NULL },
        { "x1", NULL },
        { "- 1", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool is_number = cases[i].sum != NULL;
        const char *after = is_number ? cases[i].sum : cases[i].text;
        Client adder = { .service = &service, .validated = true };
        Bytes request = { 0 };
        bytes_put(&request, BYTES("\1" ONE("n")));
        bytes_put_blob(&request, (Blob){ (uint8_t *)cases[i].text, strlen(cases[i].text) });
        bytes_put(&request, BYTES(ADD("n", U64("\1"))));
        assert_int_equal(service_feed(&adder, request.data, request.count), is_number);
        char value[32] = "";
        SAY(0, GET("n"));
        assert_int_equal(read_reply(&client[0], value, sizeof value), 8 + strlen(after));
        assert_memory_equal(value + 8, after, strlen(after));
        int64_t sum = 0;
        assert_int_equal(read_reply(&adder, &sum, sizeof sum) > 0, is_number);
        assert_true(!is_number || sum == strtoll(after, NULL, 10));
        bytes_free(&request);
        service_remove(&adder);
    }
    SAY(0, SET("n", ONE("x")));
    assert_false(service_feed(&client[0], BYTES(BARRIER("n", "\1"))));
}

static void test_compare_set_in_all_cases(void **state)
{
    (void)state;
    SAY(0, WAIT("c"));
    SAY(1, COMPARE_SET("c", ONE("x"), ONE("y")) CHECK_KEY("c"));
    RECEIVED(1, ONE("x") "\1"); // not stored, and no client is woken
    SILENT(0);
    SAY(1, COMPARE_SET("c", EMPTY, ONE("y")));
    RECEIVED(1, ONE("y"));
    RECEIVED(0, "\0");
    SAY(1, COMPARE_SET("c", ONE("x"), ONE("z")) COMPARE_SET("c", TWO("yy"), ONE("z")));
    RECEIVED(1, ONE("y") ONE("y"));
    SAY(1, COMPARE_SET("c", ONE("y"), EMPTY) COMPARE_SET("c", EMPTY, ONE("z")) GET("c"));
    RECEIVED(1, EMPTY ONE("z") ONE("z"));
}

static void test_waits_count_keys_that_came(void **state)
{
    (void)state;
    SAY(0, WAIT_TWO("a", "b") PING("ping")); // other requests are answered meanwhile
    RECEIVED(0, "ping");
    SAY(1, SET("a", EMPTY) DELETE("a"));
    SILENT(0);
    SAY(1, ADD("b", U64("\0"))); // it is enough that a has existed
    RECEIVED(0, "\0");
    SAY(0, WAIT_TWO("d", "d"));
    SAY(1, SET("d", EMPTY));
    RECEIVED(0, "\0"); // once
    SAY(1, SET("d", ONE("2")));
    SILENT(0);
    SAY(0, "\6" U64("\0")); // no keys at all
    RECEIVED(0, "\0");
    SAY(2, WAIT("e"));
    SAY(3, WAIT("e"));
    SAY(0, ADD("e", U64("\1"))); // wakes all
    RECEIVED(2, "\0");
    RECEIVED(3, "\0");
}

static void test_waits_are_cancelled_and_replaced(void **state)
{
    (void)state;
    SAY(0, CANCEL_WAIT WAIT("a") CANCEL_WAIT);
    RECEIVED(0, "\1\1");
    SAY(1, SET("a", EMPTY));
    SILENT(0);
    SAY(0, WAIT("x") WAIT("a") WAIT("y")); // a exists; y replaces x
    RECEIVED(0, "\0");
    SAY(1, SET("y", EMPTY));
    RECEIVED(0, "\0");
    SAY(1, SET("x", EMPTY));
    SILENT(0);
    SAY(0, WAIT("z"));
    SAY(1, SET("z", EMPTY));
    SAY(0, CANCEL_WAIT);
    RECEIVED(0, "\0\1"); // too late
}

static void test_push_wakes_the_oldest_waiter_only(void **state)
{
    (void)state;
    SAY(0, WAIT_TWO("q", "r"));
    SAY(1, WAIT("q"));
    SAY(2, WAIT("q"));
    SAY(3, PUSH("q", ONE("x")));
    SILENT(0); // it has q, and still waits for r
    RECEIVED(1, "\0");
    SILENT(2);
    SAY(1, POP("q") WAIT("s"));
    RECEIVED(1, U64("\1") ONE("x"));
    SAY(3, PUSH("q", ONE("y")));
    RECEIVED(2, "\0");
    SILENT(1); // nothing is left of its first wait
    SAY(3, SET("r", EMPTY));
    RECEIVED(0, "\0");
    SAY(0, WAIT_TWO("q", "t")); // a queue that is not empty counts as present
    SAY(1, SET("t", EMPTY));
    RECEIVED(0, "\0");
}

static void test_barrier_counts_on(void **state)
{
    (void)state;
    needs_torch_store();
    SAY(0, BARRIER("b", "\3"));
    SAY(1, BARRIER("b", "\3") CANCEL_WAIT); // a client that cancels stays counted
    RECEIVED(1, "\1");
    SILENT(0);
    SAY(2, BARRIER("b", "\3"));
    RECEIVED(0, "\0");
    RECEIVED(2, "\0");
    SILENT(1);
    SAY(1, BARRIER("b", "\3") GET("b")); // a barrier works only once
    RECEIVED(1, "\0" ONE("4"));
    SAY(0, BARRIER("c", "\2"));
    SAY(1, DELETE("c"));
    RECEIVED(1, U64("\1"));
    SAY(1, SET("c", ONE("0")));
    RECEIVED(0, "\0");
}

/* The value is absent, shared with a reply, waited for, or owned by the entry alone. */
static void test_append_in_all_cases(void **state)
{
    (void)state;
    needs_torch_store();
    SAY(0, WAIT("k"));
    SAY(1, APPEND("k", ONE("a")));
    RECEIVED(0, "\0");
    SAY(0, GET("k")); // gets the old value even if it is sent late
    SAY(1, APPEND("k", ONE("b")) APPEND("k", TWO("cd")) APPEND("k", EMPTY) GET("k"));
    RECEIVED(0, ONE("a"));
    RECEIVED(1, U64("\4") "abcd");
    SAY(0, BARRIER("n", "\3"));
    SAY(1, APPEND("n", ONE("5")));
    RECEIVED(0, "\0");
    SAY(1, ADD("n", U64("\1")));
    RECEIVED(1, U64("\20")); // 15 + 1
}

static void test_who_has_gone_is_not_woken(void **state)
{
    (void)state;
    SAY(0, WAIT_TWO("a", "b"));
    SAY(1, WAIT("a"));
    service_remove(&client[0]);
    SAY(2, SET("a", EMPTY));
    service_remove(&client[1]); // woken, but not yet sent a reply
    SAY(2, SET("b", EMPTY));
    SILENT(0);
    client[0] = client[1] = (Client){ .service = &service };
}

static void test_who_set_a_watched_key_is_missed(void **state)
{
    (void)state;
    service.watched = "w";
    say(0, BYTES("\6" U64("\1") U64("\6") "w/gone")); // WAIT
    SAY(1, SET("w", ONE("1")));
    SAY(2, SET("v", ONE("1")));
    SAY(3, GET("w"));
    service_remove(&client[2]);
    service_remove(&client[3]);
    client[2] = client[3] = (Client){ .service = &service };
    SILENT(0);
    service_remove(&client[1]);
    client[1] = (Client){ .service = &service };
    RECEIVED(0, "\0");
}

/* What each request adds to the table, in this order. A value that a reply shares stays beside the
 * next one. */
static void test_growth_to_the_byte(void **state)
{
    (void)state;
    const size_t node = 32, key = sizeof(Entry) + 1 + node; // node: the tree's
    const struct {
        const char *bytes;
        size_t count, growth;
    } requests[] = {
        { BYTES(SET("k", U64("\3") "abc")), key + 3 },
        { BYTES(SET("k", U64("\5") "abcde")), 5 - 3 },
        { BYTES(SET("k", U64("\4") "abcd")), 0 },
        { BYTES(GET("k") SET("k", U64("\5") "abcde")), 5 },
        { BYTES(ADD("n", U64("\7"))), key + 1 },
        { BYTES(PUSH("k", TWO("xy"))), sizeof(Item) + sizeof(Value) + 2 },
        { BYTES(WAIT_TWO("k", "w")), key + sizeof(Wait) },
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const size_t before = client[0].stored;
        assert_true(service_feed(&client[0], requests[i].bytes, requests[i].count));
        assert_int_equal(client[0].stored - before, requests[i].growth);
    }
}

/* Clients that ask for too much half-way: at a key that is there, and after a first reply. */
static void test_what_has_no_room_is_refused(void **state)
{
    (void)state;
    const size_t full = STORE_MAX_MEMORY - STORE_RESERVE, length = sizeof(Item) + sizeof(Value) + 8;
    SAY(0, WAIT("a"));
    service.bytes += full;
    assert_false(service_feed(&client[1], BYTES(WAIT("a"))));
    service.bytes -= full;
    SAY(2, PUSH("q", ONE("x")));
    SAY(3, PING("ping")); // so that it has something unread
    const size_t more = STORE_MAX_BUFFER - client[3].unread - length + 1;
    client[3].unread += more;
    assert_false(service_feed(&client[3], BYTES(POP("q"))));
    client[3].unread -= more;
}

/* Grows by more than it must, so that many small pieces are not copied as often; when it is full,
 * not before. Nothing of it is left when its client is gone. */
static void test_the_memory_of_a_queue_of_bytes(void **state)
{
    (void)state;
    Bytes bytes = { 0 };
    int times = 0;
    for (size_t count = 0; count < 100000; count++) {
        const size_t before = bytes.capacity;
        bytes_put_u8(&bytes, (uint8_t)count);
        assert_true(bytes.capacity == before || count == before);
        times += bytes.capacity != before;
    }
    assert_in_range(times, 1, 17); // the logarithm of 100,000
    client[0].in = bytes;
    service.bytes += bytes.capacity;
    service_remove(&client[0]);
    assert_null(client[0].in.data);
    client[0] = (Client){ .service = &service };
}

/* Only in a job with a secret there is a key that says so, and only to clients without it. */
static void test_what_reports_a_secret(void **state)
{
    (void)state;
    static const char check[] = "\5" U64("\2") ONE("a") U64("\14") "ddp.c/secret";
    SAY(0, SET("a", EMPTY));
    for (int secret = 0; secret < 2; secret++) {
        service.reports_secret = secret;
        say(0, check, sizeof check - 1);
        assert_received(0, secret ? "\0" : "\1", 1);
        SAY(0, "\5" U64("\2") ONE("a") ONE("b"));
        RECEIVED(0, "\1");
        SAY(0, CHECK_KEY("a"));
        RECEIVED(0, "\0");
    }
}

enum { LARGE = 100000 }; // bytes; such a value is not copied into replies

static void set_large(int who, const char *request, size_t bytes, char letter)
{
    static char value[LARGE];
    memset(value, letter, LARGE);
    say(who, request, bytes);
    say(who, (const char *)&(uint64_t){ LARGE }, sizeof(uint64_t));
    say(who, value, LARGE);
}

/* Asserts the next bytes of the replies, taken in odd pieces. */
static void assert_received_letters(int who, char letter, size_t count)
{
    uint8_t received[777];
    while (count > 0) {
        const size_t most = count < sizeof received ? count : sizeof received;
        assert_int_equal(read_reply(&client[who], received, most), most);
        for (size_t i = 0; i < most; i++)
            assert_int_equal(received[i], letter);
        count -= most;
    }
}

static void assert_received_large(int who, char letter, size_t count)
{
    uint64_t length = 0;
    assert_int_equal(read_reply(&client[who], &length, sizeof length), sizeof length);
    assert_int_equal(length, count);
    assert_received_letters(who, letter, count);
}

/* A reply has the value from the time of the request, whatever happens before it is sent, and takes
 * no memory of its own. */
static void test_large_replies_are_not_copied(void **state)
{
    (void)state;
    set_large(0, BYTES("\1" ONE("k")), 'a');
    const size_t before = service.bytes;
    SAY(1, PING("pppp") GET("k") PING("qqqq") GET("k") GET("k"));
    SAY(2, GET("k"));
    assert_in_range(service.bytes, before + 1, before + 1000);
    set_large(0, BYTES("\1" ONE("k")), 'b');
    assert_in_range(service.bytes, before + LARGE, before + LARGE + 1000);
    SAY(2, GET("k"));
    if (has_extras)
        set_large(0, BYTES("\11" ONE("k")), 'b'); // APPEND
    SAY(3, COMPARE_SET("k", ONE("x"), ONE("y")));
    set_large(0, BYTES("\16" ONE("q")), 'q'); // QUEUE_PUSH
    SAY(3, POP("q"));
    SAY(0, DELETE("k") SET("k", ONE("1")) GET("k"));
    RECEIVED(0, U64("\1") ONE("1"));

    assert_received_letters(1, 'p', 4);
    assert_received_large(1, 'a', LARGE);
    assert_received_letters(1, 'q', 4);
    assert_received_large(1, 'a', LARGE);
    assert_received_large(1, 'a', LARGE);
    SILENT(1);
    assert_received_large(2, 'a', LARGE);
    assert_received_large(2, 'b', LARGE);
    assert_received_large(3, 'b', has_extras ? 2 * LARGE : LARGE);
    uint64_t length = 0;
    assert_int_equal(read_reply(&client[3], &length, sizeof length), sizeof length);
    assert_int_equal(length, 1); // the queue's length
    assert_received_large(3, 'q', LARGE);
    assert_in_range(service.bytes, 1, 1000); // nothing is left of the replaced values

    set_large(0, BYTES("\1" ONE("k")), 'c');
    SAY(1, GET("k"));
    SAY(0, DELETE("k"));
    RECEIVED(0, U64("\1"));
    assert_in_range(service.bytes, LARGE, LARGE + 1000);
    service_remove(&client[1]); // before it has read any of it
    client[1] = (Client){ .service = &service };
    assert_int_equal(service.bytes, 0);
}

#define with_service(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        with_service(test_requests_in_pieces_of_any_size),
        with_service(test_nothing_happens_before_a_request_is_whole),
        with_service(test_numbers_are_read_as_by_strtoll),
        with_service(test_compare_set_in_all_cases),
        with_service(test_waits_count_keys_that_came),
        with_service(test_waits_are_cancelled_and_replaced),
        with_service(test_push_wakes_the_oldest_waiter_only),
        with_service(test_barrier_counts_on),
        with_service(test_append_in_all_cases),
        with_service(test_who_has_gone_is_not_woken),
        with_service(test_who_set_a_watched_key_is_missed),
        with_service(test_growth_to_the_byte),
        with_service(test_what_has_no_room_is_refused),
        with_service(test_the_memory_of_a_queue_of_bytes),
        with_service(test_what_reports_a_secret),
        with_service(test_large_replies_are_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
