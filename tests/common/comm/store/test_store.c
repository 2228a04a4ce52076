/*
 * The store's client against our server: every operation, waiting and waking, many clients at once.
 * What store_init adds, and errors that end a process, are in test_store_init.c.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/store.h"
#include "tests/common/comm/store/store_ops.h"
#include "tests/common/comm/store/store_requests.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 300.0 // seconds

typedef struct {
    StoreServer *server;
    int port;
    Store a, b; // two clients
} Fixture;

static int set_up(void **state)
{
    Fixture *f = mem_calloc(1, sizeof *f);
    f->server = store_server_start("127.0.0.1", &f->port, NULL);
    *state = f;
    return f->server == NULL || !store_connect(&f->a, "localhost", f->port, TIMEOUT) ||
           !store_connect(&f->b, "127.0.0.1", f->port, TIMEOUT) || f->a.has_secret;
}

static int tear_down(void **state)
{
    Fixture *f = *state;
    store_free(&f->a);
    store_free(&f->b);
    store_server_stop(f->server);
    free(f);
    return 0;
}

#define with_fresh_store(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#define assert_holds(store, key, text) \
    do { \
        char value[64] = ""; \
        assert_int_equal(store_get(store, key, value, sizeof value), strlen(text)); \
        assert_memory_equal(value, text, strlen(text)); \
    } while (0)

static void test_values_come_back_as_they_are(void **state)
{
    Fixture *f = *state;
    store_set(&f->a, "text", "hello", 5);
    assert_holds(&f->b, "text", "hello");
    store_set(&f->a, "text", "again", 5);
    assert_holds(&f->a, "text", "again");
    store_set(&f->a, "empty", NULL, 0);
    assert_holds(&f->a, "empty", "");
    store_set(&f->a, "", "of the empty key", 16);
    assert_holds(&f->a, "", "of the empty key");

    uint8_t bytes[256], back[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    store_set(&f->a, "bytes", bytes, sizeof bytes);
    assert_int_equal(store_get(&f->a, "bytes", back, sizeof back), sizeof bytes);
    assert_memory_equal(back, bytes, sizeof bytes);

    back[4] = 77; // a value that does not fit is truncated, and later replies are not disturbed
    assert_int_equal(store_get(&f->a, "bytes", back, 4), sizeof bytes);
    assert_int_equal(back[4], 77);
    assert_holds(&f->a, "text", "again");
}

static void test_largest_key_and_value(void **state)
{
    Fixture *f = *state;
    const size_t size = 8 << 20;
    char *value = mem_calloc(size, 1), *back = mem_calloc(size, 1), *key = mem_calloc(8192, 1);
    memset(key, 'k', 8191); // and a slash in front of it
    for (size_t i = 0; i < size; i++)
        value[i] = (char)(i * 31 >> 3);
    store_set(&f->a, key, value, size);
    assert_int_equal(store_get(&f->b, key, back, size), size);
    assert_memory_equal(back, value, size);
    assert_int_equal(store_get(&f->b, key, back, 10), size);
    key[8190] = 'x'; // all of it counts
    assert_false(store_check(&f->b, key));
    free(value);
    free(back);
    free(key);
}

static void test_add_counts_in_text(void **state)
{
    Fixture *f = *state;
    assert_int_equal(store_add(&f->a, "n", 5), 5);
    assert_int_equal(store_add(&f->b, "n", -7), -2);
    assert_holds(&f->a, "n", "-2");
    store_set(&f->a, "n", "40", 2);
    assert_int_equal(store_add(&f->a, "n", 2), 42);
    assert_int_equal(store_add(&f->a, "z", 0), 0);
    assert_true(store_check(&f->a, "z"));
}

static void test_compare_set(void **state)
{
    Fixture *f = *state;
    const struct {
        const char *expected, *desired, *result;
    } steps[] = { { "no", "x", "no" }, // absent key: returns `expected`, and nothing is stored
                  { "", "1", "1" },
                  { "1", "two", "two" },
                  { "1", "3", "two" } };
    for (int i = 0; i < 4; i++) {
        char result[8] = "";
        assert_int_equal(store_compare_set(&f->a, "c", steps[i].expected, steps[i].desired, result,
                                           sizeof result),
                         strlen(steps[i].result));
        assert_string_equal(result, steps[i].result);
        assert_int_equal(store_check(&f->b, "c"), i > 0);
    }
}

static void test_append_delete_and_lists(void **state)
{
    Fixture *f = *state;
    needs_torch_store();
    strcpy(f->a.prefix, "p/");
    store_append(&f->a, "log", "ab", 2);
    store_append(&f->a, "log", "cd", 2);
    store_append(&f->a, "log", "", 0);
    assert_holds(&f->a, "log", "abcd");
    assert_holds(&f->b, "p/log", "abcd");

    const char *keys[] = { "x", "log", "y" };
    store_multi_set(&f->a, 2, (const char *[]){ "x", "y" },
                    (StoreValue[]){ { "1", 1 }, { "22", 2 } });
    char data[3][4] = { "" };
    StoreValue values[3] = { { data[0], 4 }, { data[1], 3 }, { data[2], 4 } };
    store_multi_get(&f->a, 3, keys, values);
    assert_string_equal(data[0], "1");
    assert_string_equal(data[1], "abc"); // three bytes fit
    assert_string_equal(data[2], "22");
    assert_int_equal(values[1].bytes, 4);

    store_set(&f->b, "other", "", 0);
    store_ping(&f->b); // now every client sees it
    assert_int_equal(store_num_keys(&f->a), 4);
    assert_true(store_delete(&f->a, "x"));
    assert_false(store_delete(&f->a, "x"));
    assert_false(store_check(&f->a, "x"));
    store_ping(&f->a);
    char *list = store_list_keys(&f->a);
    assert_true(strcmp(list, "log\ny\n") == 0 || strcmp(list, "y\nlog\n") == 0);
    free(list);
}

static void test_queues(void **state)
{
    Fixture *f = *state;
    char data[8] = "";
    StoreValue value = { data, sizeof data };
    if (has_extras)
        assert_int_equal(store_queue_len(&f->a, "q"), 0);
    assert_false(store_queue_pop(&f->a, "q", false, &value));
    store_queue_push(&f->a, "q", "first", 5);
    store_queue_push(&f->a, "q", "", 0);
    store_set(&f->a, "q", "v", 1);
    if (has_extras) {
        assert_int_equal(store_queue_len(&f->a, "q"), 2);
        assert_int_equal(store_num_keys(&f->a), 1);
    }
    assert_true(store_queue_pop(&f->a, "q", true, &value));
    assert_int_equal(value.bytes, 5);
    assert_memory_equal(data, "first", 5);
    assert_true(store_delete(&f->a, "q"));
    assert_true(store_check(&f->a, "q")); // because its queue is not empty
    assert_true(store_queue_pop(&f->a, "q", true, &value));
    assert_int_equal(value.bytes, 0);
    assert_false(store_check(&f->a, "q"));
}

static void *act_later(void *argument)
{
    Store *store = argument;
    usleep(100000);
    store_set(store, "set", "1", 1);
    store_add(store, "add", 1);
    store_compare_set(store, "swap", "", "1", NULL, 0);
    store_queue_push(store, "push", "1", 1);
    if (!has_extras)
        return NULL;
    store_append(store, "append", "1", 1);
    store_multi_set(store, 1, (const char *[]){ "multi" }, (StoreValue[]){ { "1", 1 } });
    store_barrier(store, "barrier", 2);
    return NULL;
}

/* One thread waits for each in turn; the first is delayed so that the thread really waits. */
static void test_everything_that_sets_a_key_wakes(void **state)
{
    Fixture *f = *state;
    const double start = seconds_now();
    pthread_t thread;
    pthread_create(&thread, NULL, act_later, &f->b);
    assert_holds(&f->a, "set", "1");
    assert_true(seconds_now() - start > 0.09);
    assert_holds(&f->a, "add", "1");
    assert_holds(&f->a, "swap", "1");
    char data[1];
    assert_true(store_queue_pop(&f->a, "push", true, &(StoreValue){ data, 1 }));
    if (has_extras) {
        assert_holds(&f->a, "append", "1");
        assert_holds(&f->a, "multi", "1");
        store_barrier(&f->a, "barrier", 2);
        assert_holds(&f->a, "barrier", "2");
    }
    pthread_join(thread, NULL);
}

static void test_try_wait_leaves_the_connection_usable(void **state)
{
    Fixture *f = *state;
    const double start = seconds_now();
    assert_false(store_try_wait(&f->a, "never", 0.1));
    assert_true(seconds_now() - start >= 0.1);
    assert_false(store_try_wait(&f->a, "never", 0));
    store_set(&f->b, "never", "now", 3); // must not reach the abandoned wait
    store_ping(&f->b);
    assert_holds(&f->a, "never", "now");
    assert_true(store_try_wait(&f->a, "never", 0));
}

typedef struct {
    pthread_t thread;
    int port;
    int64_t last;
} Adder;

enum { NUM_ADDERS = 64, NUM_ADDS = 50 };

static void *add_often(void *argument)
{
    Adder *adder = argument;
    Store store;
    if (!store_connect(&store, "localhost", adder->port, TIMEOUT))
        return NULL;
    if (store_add(&store, "arrived", 1) == NUM_ADDERS)
        store_set(&store, "start", "", 0);
    store_wait(&store, "start");
    for (int i = 0; i < NUM_ADDS; i++)
        adder->last = store_add(&store, "sum", 1);
    store_free(&store);
    return NULL;
}

static void test_many_clients_add_at_once(void **state)
{
    Fixture *f = *state;
    static Adder adders[NUM_ADDERS];
    for (int i = 0; i < NUM_ADDERS; i++) {
        adders[i].port = f->port;
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add_often, &adders[i]), 0);
    }
    int num_last = 0;
    for (int i = 0; i < NUM_ADDERS; i++) {
        pthread_join(adders[i].thread, NULL);
        num_last += adders[i].last == NUM_ADDERS * NUM_ADDS;
    }
    assert_int_equal(num_last, 1); // exactly one call returned the full sum
    assert_int_equal(store_add(&f->a, "sum", 0), NUM_ADDERS * NUM_ADDS);
}

static void test_killed_waiter_is_forgotten(void **state)
{
    Fixture *f = *state;
    const pid_t child = fork();
    if (child == 0) {
        alarm(900);
        Store store;
        if (!store_connect(&store, "localhost", f->port, TIMEOUT))
            _exit(1);
        store_add(&store, "alive", 1);
        store_wait(&store, "fate");
        _exit(2);
    }
    store_wait(&f->a, "alive");
    usleep(20000); // now it waits
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    store_set(&f->a, "fate", "1", 1);
    store_ping(&f->a);
    assert_holds(&f->b, "fate", "1");
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        with_fresh_store(test_values_come_back_as_they_are),
        with_fresh_store(test_largest_key_and_value),
        with_fresh_store(test_add_counts_in_text),
        with_fresh_store(test_compare_set),
        with_fresh_store(test_append_delete_and_lists),
        with_fresh_store(test_queues),
        with_fresh_store(test_everything_that_sets_a_key_wakes),
        with_fresh_store(test_try_wait_leaves_the_connection_usable),
        with_fresh_store(test_many_clients_add_at_once),
        with_fresh_store(test_killed_waiter_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
