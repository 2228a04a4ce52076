/*
 * Bytes that no honest client sends, without any sockets: nonsense, absurd lengths, more than the
 * server keeps, and requests at random, right and almost right.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/memory.h"
#include "common/comm/store/store_service.c" // for its table
#include "tests/common/comm/store/store_requests.h"
#include "tests/helpers/child.h"
#include "tests/helpers/leaves.h"

/* Returns true if an unknown client may send this. */
static bool accepts(Service *service, bool validated, const void *bytes, size_t count)
{
    Client unproven = { .service = service, .validated = validated };
    const bool accepted = service_feed(&unproven, bytes, count);
    service_remove(&unproven);
    return accepted;
}

static void test_nonsense_is_hung_up_on(void **state)
{
    (void)state;
    Service service = { 0 };
    assert_true(accepts(&service, false, BYTES(VALIDATE)));
    assert_false(accepts(&service, false, BYTES("\0\xce\xf7\x85\x3d"))); // wrong magic
    assert_false(accepts(&service, false, BYTES(VALIDATE VALIDATE)));
    for (int operation = 1; operation < 256; operation++) {
        const uint8_t byte = (uint8_t)operation;
        assert_false(accepts(&service, false, &byte, 1)); // VALIDATE comes first
        const bool lacks = !has_extras && strchr(GETNUMKEYS LIST_KEYS, byte) != NULL;
        assert_int_equal(accepts(&service, true, &byte, 1), operation <= 18 && !lacks);
    }
}

/* Tries one more than the limit, and lengths that would overflow any sum. */
static void test_absurd_lengths_are_hung_up_on_at_once(void **state)
{
    (void)state;
    enum { KEY = 8192, KEYS = 131072, VALUE = 8388608 };
    static const struct {
        const char *start; // request up to a length
        size_t bytes;
        uint64_t limit; // largest such length
    } cases[] = {
        { BYTES("\1"), KEY },
        { BYTES("\2"), KEY },
        { BYTES("\3"), KEY },
        { BYTES("\4"), KEY },
        { BYTES("\5"), KEYS },
        { BYTES("\6"), KEYS },
        { BYTES("\10"), KEY },
        { BYTES("\11"), KEY },
        { BYTES("\12"), KEYS },
        { BYTES("\13"), KEYS },
        { BYTES("\16"), KEY },
        { BYTES("\17"), KEY },
        { BYTES("\20"), KEY },
        { BYTES("\22"), KEY },
        { BYTES("\5" U64("\1")), KEY },
        { BYTES("\6" U64("\2") ONE("k")), KEY },
        { BYTES("\1" ONE("k")), VALUE },
        { BYTES("\2" ONE("k")), VALUE },
        { BYTES("\2" ONE("k") ONE("v")), VALUE },
        { BYTES("\11" ONE("k")), VALUE },
        { BYTES("\13" U64("\2") ONE("k")), VALUE },
        { BYTES("\13" U64("\2") ONE("k") ONE("v")), KEY },
        { BYTES("\16" ONE("k")), VALUE },
    };
    Service service = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t limit = cases[i].limit;
        const uint64_t lengths[] = { limit,      limit + 1,      1ull << 32,
                                     1ull << 63, UINT64_MAX - 8, UINT64_MAX };
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            Bytes request = { 0 };
            bytes_put(&request, cases[i].start, cases[i].bytes);
            bytes_put_u64(&request, lengths[j]);
            assert_int_equal(accepts(&service, true, request.data, request.count),
                             lengths[j] <= limit);
            bytes_free(&request);
        }
    }
}

static void test_requests_and_replies_are_kept_up_to_a_limit(void **state)
{
    (void)state;
    const size_t size = 8 << 20;
    Service service = { 0 };
    Client client = { .service = &service, .validated = true };
    uint8_t *value = mem_calloc(size, 1);
    assert_true(service_feed(&client, BYTES("\13" U64("\10")))); // MULTI_SET of eight
    for (int i = 0; i < 8; i++) {
        Bytes pair = { 0 };
        bytes_put(&pair, BYTES(ONE("k")));
        bytes_put_blob(&pair, (Blob){ value, size });
        // Seven values of 8 MiB may come in one request, not eight.
        assert_int_equal(service_feed(&client, pair.data, pair.count), i < 7);
        bytes_free(&pair);
    }
    service_remove(&client);

    client = (Client){ .service = &service, .validated = true };
    Bytes request = { 0 };
    bytes_put(&request, BYTES("\1" ONE("k")));
    bytes_put_blob(&request, (Blob){ value, size });
    assert_true(service_feed(&client, request.data, request.count));
    assert_int_equal(client.in.capacity, 0); // a client with no request left uses no memory
    bytes_free(&request);
    free(value);
    assert_false(accepts(&service, true, BYTES(APPEND("k", ONE("v")))));
    for (int i = 0; i < 8; i++)
        assert_int_equal(service_feed(&client, BYTES(GET("k"))), i < 7);
    service_remove(&client);
    service_free(&service);
}

static void test_full_table_refuses_whoever_fills_it(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
    } requests[] = {
        { BYTES(SET("a", ONE("1"))) },    { BYTES(ADD("a", U64("\1"))) },
        { BYTES(APPEND("a", ONE("1"))) }, { BYTES(MULTI_SET("a", ONE("1"), "b", ONE("1"))) },
        { BYTES(PUSH("a", ONE("1"))) },   { BYTES(WAIT("a")) },
        { BYTES(BARRIER("a", "\1")) },    { BYTES(COMPARE_SET("a", EMPTY, ONE("1"))) },
    };
    Service service = { 0 };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (!has_extras && strchr("\11\13\22", *requests[i].bytes) != NULL)
            continue; // APPEND, MULTI_SET, BARRIER
        service.bytes += STORE_MAX_MEMORY - STORE_RESERVE; // as if it were full
        assert_false(accepts(&service, true, requests[i].bytes, requests[i].count));
        assert_true(accepts(&service, true, BYTES(GET("a") DELETE("a") POP("a"))));
        assert_int_equal(accepts(&service, true, BYTES(LIST_KEYS)), has_extras);
        service.bytes -= STORE_MAX_MEMORY - STORE_RESERVE;
        assert_true(accepts(&service, true, requests[i].bytes, requests[i].count));
        assert_true(accepts(&service, true, BYTES(DELETE("a") DELETE("b") POP("a"))));
        assert_int_equal(service.bytes, 0);
    }
}

/* What a client may have in memory, and what of it the table may use: one byte more is refused. */
static void test_memory_to_the_byte(void **state)
{
    (void)state;
    const size_t most = STORE_MAX_MEMORY, reserve = STORE_RESERVE, share = STORE_SHARE;
    const struct {
        size_t stored, unread, received, growth;
        size_t used; // by all, at most
    } cases[] = {
        { 0, 0, 0, 1, most - reserve - 1 }, // the table grows
        { 0, 0, 0, 0, most },
        { share - 1, 0, 0, 1, most - reserve - 1 },
        { share, 0, 0, 1, most - 2 * reserve - 1 }, // more than a share
        { share, 0, 1, 0, most - reserve },
        { 1, share - 2, 1, 0, most },
        { 1, share - 1, 1, 0, most - reserve },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t more = 0; more < 2; more++) {
            Service service = { .bytes = cases[i].used + more };
            Client client = { .service = &service,
                              .stored = cases[i].stored,
                              .unread = cases[i].unread,
                              .in.capacity = cases[i].received };
            assert_int_equal(service_has_room(&client, cases[i].growth), more == 0);
            assert_int_equal(client.stored, cases[i].stored + cases[i].growth);
        }
    const size_t key = sizeof(Entry) + 1 + NODE_BYTES, value = 3;
    for (size_t more = 0; more < 2; more++) {
        Service service = { .bytes = most - reserve - key + more };
        Client client = { .service = &service };
        Entry *entry = service_enter(&client, blob_of("k"));
        assert_int_equal(entry != NULL, more == 0);
        service.bytes = most - reserve - value + more;
        Entry own = { .key = { NULL, 0 } };
        assert_int_equal(service_write(&client, &own, blob_of("abc")), more == 0);
        free(own.value);
        service_free(&service);
    }
    const size_t reply = sizeof(Item) + sizeof(Value) + 4;
    for (size_t more = 0; more < 2; more++) {
        Service service = { 0 };
        Client client = { .service = &service,
                          .validated = true,
                          .unread = STORE_MAX_BUFFER - reply + more };
        LIST_INSERT_HEAD(&service.unread, &client, of_unread);
        assert_int_equal(service_feed(&client, BYTES(PING("ping"))), more == 0);
        client.unread = reply;
        service_remove(&client);
    }
}

/* Enters a key with a value when there is memory for so many blocks. */
static void enter(const void *blocks)
{
    Service service = { 0 };
    Client client = { .service = &service };
    blocks_left = *(const int *)blocks;
    Entry *entry = service_enter(&client, blob_of("k"));
    service_write(&client, entry, blob_of("abc"));
    bytes_put_u8(&client.in, 1);
    blocks_left = LONG_MAX;
    CHECK(value_of(entry).count == 3 && client.in.data[0] == 1, "not stored");
}

static void test_no_memory(void **state)
{
    (void)state;
    needs_own_malloc();
    assert_dies_until_enough(enter, "fatal: out of memory: ");
}

/* A request of 64 MiB, and one byte more. */
static void test_the_longest_request(void **state)
{
    (void)state;
    const size_t value = 8 << 20, others = 1 + 8 + 8 * (8 + 1 + 8);
    uint8_t *data = calloc(STORE_MAX_BUFFER + 1, 1);
    for (size_t more = 0; more < 2; more++) {
        uint8_t *at = data;
        *at++ = STORE_MULTI_SET;
        *at = 8;
        at += 8;
        for (int i = 0; i < 8; i++) {
            *at = 1; // a key of one byte
            at += 8 + 1;
            const uint64_t size = i < 7 ? value : value - others + more;
            memcpy(at, &size, sizeof size);
            at += sizeof size + size;
        }
        assert_int_equal(at - data, STORE_MAX_BUFFER + more);
        RequestMeasure measure = { 0 };
        assert_int_equal(request_measure(&measure, data, (size_t)(at - data)),
                         more == 0 ? REQUEST_WHOLE : REQUEST_NONSENSE);
        assert_true(more > 0 || measure.bytes == STORE_MAX_BUFFER);
    }
    free(data);
}

/* The first watched key that a client sets is remembered, if KEY/gone fits. */
static void test_watched_keys(void **state)
{
    (void)state;
    static const struct {
        size_t lengths[2]; // of the keys that it sets, of letters w
        size_t watched; // which is remembered, by length; 0 for none
    } cases[] = { { { 1, 3 }, 3 }, { { 2, 3 }, 2 }, { { 258, 2 }, 258 }, { { 259, 1 }, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Service service = { .watched = "ww" };
        Client client = { .service = &service, .validated = true };
        for (int j = 0; j < 2; j++) {
            uint8_t letters[300];
            memset(letters, 'w', sizeof letters);
            Bytes request = { 0 };
            bytes_put_u8(&request, STORE_SET);
            bytes_put_blob(&request, (Blob){ letters, cases[i].lengths[j] });
            bytes_put_blob(&request, blob_of("1"));
            assert_true(service_feed(&client, request.data, request.count));
            bytes_free(&request);
        }
        assert_int_equal(strspn(client.gone_key, "w"), cases[i].watched);
        assert_string_equal(client.gone_key + cases[i].watched,
                            cases[i].watched > 0 ? "/gone" : "");
        const int64_t before = service.num_values;
        service_remove(&client);
        assert_int_equal(service.num_values, before + (cases[i].watched > 0));
        service_free(&service);
    }
}

/* What shows a server that a client knows the job: a request, where there is no secret. */
static void test_what_proves_a_client(void **state)
{
    (void)state;
    for (int secret = 0; secret < 2; secret++) {
        Service service = { .reports_secret = secret };
        Client client = { .service = &service };
        assert_true(service_feed(&client, BYTES(VALIDATE PING("ping"))));
        assert_false(client.proven);
        assert_true(service_feed(&client, BYTES(GET("a"))));
        assert_int_equal(client.proven, !secret);
        service_remove(&client);
    }
}

/* A client that has stored much leaves a reserve for those that store little, which continue. A
 * table that is full for all clients can still be read and emptied. */
static void test_full_table_keeps_the_ranks(void **state)
{
    (void)state;
    Service service = { 0 };
    Client filler = { .service = &service, .validated = true },
           reader = { .service = &service, .validated = true },
           rank = { .service = &service, .validated = true };
    const size_t size = 2 << 20, filled = STORE_MAX_MEMORY - 2 * STORE_RESERVE - 2 * size;
    Bytes request = { 0 };
    uint8_t *value = mem_calloc(size, 1);
    bytes_put(&request, BYTES("\16" ONE("q")));
    bytes_put_blob(&request, (Blob){ value, size });
    assert_true(service_feed(&rank, BYTES(SET("r", ONE("1")) WAIT("a"))));
    service.bytes += filled; // as if by the first client
    bool goes_on = true;
    for (int i = 0; i < 3; i++)
        goes_on = service_feed(&filler, request.data, request.count);
    assert_false(goes_on);
    service_remove(&filler);
    assert_true(service_feed(&rank, BYTES(SET("s", TWO("22")) ADD("n", U64("\1")))));
    assert_true(accepts(&service, true, BYTES(SET("a", ONE("1")) PUSH("q", ONE("x")))));
    char received[40];
    assert_int_equal(read_reply(&rank, received, sizeof received), 8 + 1); // sum, end of its wait

    service.bytes += STORE_RESERVE + size;
    assert_true(service_feed(&reader, BYTES(POP("q")) - 1));
    assert_false(service_feed(&reader, "q", 1)); // more than a share
    assert_true(service_feed(&rank, BYTES(WAIT("r") SET("r", ONE("2")) GET("r"))));
    assert_true(service_feed(&rank, BYTES(ADD("n", U64("\1")) DELETE("n") PING("ping"))));
    assert_false(accepts(&service, true, BYTES(SET("t", ONE("1"))))); // the table would grow
    assert_false(accepts(&service, true, BYTES(WAIT("u"))));
    assert_int_equal(read_reply(&rank, received, sizeof received), 1 + 9 + 8 + 8 + 4);
    service.bytes -= filled + STORE_RESERVE + size;
    service_remove(&reader);
    service_remove(&rank);
    bytes_free(&request);
    free(value);
    service_free(&service);
    assert_int_equal(service.bytes, 0);
}

/* The bytes counted are those malloc has allocated, with its overhead, whatever is stored. */
static void test_table_counts_what_memory_costs(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // sanitizers have a malloc of their own
#endif
    Service service = { 0 };
    Client waiting = { .service = &service, .validated = true };
    const uint8_t *text = mem_calloc(1000, 1);
    const size_t before = mallinfo2().uordblks;
    for (uint32_t i = 0; i < 20000; i++) {
        const Blob key = { (const uint8_t *)&i, sizeof i };
        Entry *entry = service_enter(&waiting, key);
        if (i % 4 == 0) {
            assert_true(service_wait_begin(&waiting, entry));
        } else if (i % 4 == 1) {
            const Blob blob = { text, i % 100 };
            put_item(&service, &entry->queue, value_of_blob(&service, blob));
            entry->queue_length++;
        } else {
            assert_true(service_write(&waiting, entry, (Blob){ text, i % 1000 }));
        }
        if (i % 8 == 3 && has_extras) {
            Bytes request = { 0 };
            bytes_put_blob(&request, key);
            bytes_put_blob(&request, (Blob){ text, i % 50 });
            Cursor at = request.data;
            assert_true(service_execute(&waiting, STORE_APPEND, &at));
            bytes_free(&request);
        }
    }
    const size_t taken = mallinfo2().uordblks - before;
    assert_in_range(service.bytes, taken - (32 << 10), taken + (32 << 10)); // of 8 MB
    service_remove(&waiting);
    service_free(&service);
    free((void *)text);
}

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

/* Puts a mostly valid request, about few keys, so that clients interact. */
static void put_random_request(Bytes *request)
{
    static const char *const arguments[] = { "",   "bb", "bbb", "b",  "bi",  "nb", "nb",
                                             "",   "b",  "bb",  "nb", "nbb", "",   "u",
                                             "bb", "b",  "b",   "",   "bi" };
    const uint8_t operation = (uint8_t)(1 + random_below(18));
    bytes_put_u8(request, operation);
    const char *argument = arguments[operation];
    uint64_t times = 1;
    if (*argument == 'n') {
        times = random_below(4);
        bytes_put_u64(request, times);
        argument++;
    }
    for (; times > 0; times--) {
        for (const char *next = argument; *next != '\0'; next++) {
            const uint8_t digit = (uint8_t)('0' + random_below(4));
            if (*next == 'u')
                bytes_put(request, &(uint32_t){ (uint32_t)random_below(4) }, sizeof(uint32_t));
            else if (*next == 'i')
                bytes_put_u64(request, random_below(4));
            else
                bytes_put_blob(request, (Blob){ &digit, random_below(8) > 0 });
        }
    }
    if (random_below(50) == 0) // occasionally an invalid one
        request->data[random_below(request->count)] ^= (uint8_t)(1 << random_below(8));
}

/* Feeds a random request in two pieces, or only a part of it. */
static bool send_random(Client *client)
{
    Bytes request = { 0 };
    put_random_request(&request);
    size_t count = request.count;
    if (random_below(100) == 0)
        count = random_below(count);
    const size_t first = random_below(count + 1);
    const bool accepted = service_feed(client, request.data, first) &&
                          service_feed(client, request.data + first, count - first);
    bytes_free(&request);
    return accepted;
}

/* Counts a value for twalk_r, which visits a node with children three times. */
static void count_value(const void *node, VISIT visit, void *count)
{
    const Entry *entry = *(const Entry *const *)node;
    *(int64_t *)count += (visit == postorder || visit == leaf) && entry->value != NULL;
}

static void test_random_requests(void **state)
{
    (void)state;
    const char *seed = getenv("SEED");
    random_state = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    print_message("SEED=%llu repeats this\n", (unsigned long long)random_state);
    int num_accepted = 0;
    for (int round = 0; round < 100; round++) {
        Service service = { 0 };
        Client clients[4];
        for (int i = 0; i < 4; i++)
            clients[i] = (Client){ .service = &service };
        for (int i = 0; i < 500; i++) {
            Client *client = &clients[random_below(4)];
            client->service = &service;
            client->validated = true;
            const bool accepted = send_random(client);
            num_accepted += accepted;
            if (!accepted || random_below(100) == 0) {
                service_remove(client);
                *client = (Client){ .service = &service };
            }
            Client *reader = &clients[random_below(4)];
            static uint8_t received[1 << 16];
            read_reply(reader, received, sizeof received);
        }
        int64_t num_values = 0;
        twalk_r(service.tree, count_value, &num_values);
        assert_int_equal(num_values, service.num_values);
        for (int i = 0; i < 4; i++)
            service_remove(&clients[i]);
        service_free(&service);
        assert_int_equal(service.bytes, 0);
    }
    assert_true(num_accepted > (has_extras ? 40000 : 20000));
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nonsense_is_hung_up_on),
        cmocka_unit_test(test_absurd_lengths_are_hung_up_on_at_once),
        cmocka_unit_test(test_requests_and_replies_are_kept_up_to_a_limit),
        cmocka_unit_test(test_full_table_refuses_whoever_fills_it),
        cmocka_unit_test(test_memory_to_the_byte),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_the_longest_request),
        cmocka_unit_test(test_watched_keys),
        cmocka_unit_test(test_what_proves_a_client),
        cmocka_unit_test(test_full_table_keeps_the_ranks),
        cmocka_unit_test(test_table_counts_what_memory_costs),
        cmocka_unit_test(test_random_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
