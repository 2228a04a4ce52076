/*
 * Our side of the store, for store.py to set against PyTorch's.
 *
 *     store_peer serve                  prints its port and serves until standard input ends
 *     store_peer client HOST PORT T     executes standard input line by line; T: its timeout
 *
 * Lines are words: an operation and its arguments, "set KEY VALUE". Values are written in
 * hexadecimal, with an x in front, so that any byte and an empty value can be written. Each line is
 * answered by one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/store.h"
#include "tests/common/comm/store/store_ops.h"

enum { MAX_WORDS = 64, SHORT_VALUE = 256, MAX_VALUE = 8 << 20 }; // values: bytes

static StoreValue from_hex(const char *word)
{
    CHECK(word != NULL && word[0] == 'x', "a value begins with x, not so: %s", word);
    StoreValue value = { .bytes = strlen(word + 1) / 2 };
    unsigned char *bytes = mem_calloc(value.bytes + 1, 1);
    for (size_t i = 0; i < value.bytes; i++) {
        const char digits[] = { word[1 + 2 * i], word[2 + 2 * i], '\0' };
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    value.data = bytes;
    return value;
}

static void print_hex(const void *data, size_t bytes)
{
    putchar('x');
    for (size_t i = 0; i < bytes; i++)
        printf("%02x", ((const unsigned char *)data)[i]);
}

/* word[0] is the operation, then its arguments and NULL. Prints the answer without the line end. */
typedef void Action(Store *store, char **word);

static void do_write(Store *store, char **word)
{
    StoreValue value = from_hex(word[2]);
    if (strcmp(word[0], "set") == 0)
        store_set(store, word[1], value.data, value.bytes);
    else if (strcmp(word[0], "append") == 0)
        store_append(store, word[1], value.data, value.bytes);
    else
        store_queue_push(store, word[1], value.data, value.bytes);
    free(value.data);
}

static void do_get(Store *store, char **word)
{
    char *value = mem_calloc(MAX_VALUE, 1);
    print_hex(value, store_get(store, word[1], value, MAX_VALUE));
    free(value);
}

static void do_compare_set(Store *store, char **word)
{
    char result[SHORT_VALUE];
    StoreValue expected = from_hex(word[2]), desired = from_hex(word[3]);
    print_hex(result, store_compare_set(store, word[1], expected.data, desired.data, result,
                                        sizeof result));
    free(expected.data);
    free(desired.data);
}

static void do_multi_set(Store *store, char **word)
{
    const char *keys[MAX_WORDS] = { NULL };
    StoreValue values[MAX_WORDS] = { { 0 } };
    int count = 0;
    for (; word[2 * count + 1] != NULL; count++) {
        keys[count] = word[2 * count + 1];
        values[count] = from_hex(word[2 * count + 2]);
    }
    store_multi_set(store, count, keys, values);
    for (int i = 0; i < count; i++)
        free(values[i].data);
}

static void do_multi_get(Store *store, char **word)
{
    char result[MAX_WORDS][SHORT_VALUE];
    StoreValue values[MAX_WORDS];
    int count = 0;
    for (; word[count + 1] != NULL; count++)
        values[count] = (StoreValue){ result[count], SHORT_VALUE };
    store_multi_get(store, count, (const char *const *)word + 1, values);
    for (int i = 0; i < count; i++) {
        print_hex(values[i].data, values[i].bytes);
        if (i + 1 < count)
            putchar(' ');
    }
}

static void do_pop(Store *store, char **word)
{
    char result[SHORT_VALUE];
    StoreValue value = { result, sizeof result };
    if (store_queue_pop(store, word[1], strcmp(word[2], "block") == 0, &value))
        print_hex(value.data, value.bytes);
    else
        fputs("empty", stdout);
}

static void do_list_keys(Store *store, char **word)
{
    (void)word;
    char *keys = store_list_keys(store);
    for (char *end = keys; (end = strchr(end, '\n')) != NULL;)
        *end = ' ';
    fputs(keys, stdout);
    free(keys);
}

/* Executes an operation whose answer is a number. */
static void do_number(Store *store, char **word)
{
    const char *name = word[0], *key = word[1];
    int64_t answer = 0;
    if (strcmp(name, "add") == 0)
        answer = store_add(store, key, strtoll(word[2], NULL, 10));
    else if (strcmp(name, "count_worker") == 0)
        answer = store_count_worker(store, 1);
    else if (strcmp(name, "check") == 0)
        answer = store_check(store, key);
    else if (strcmp(name, "delete") == 0)
        answer = store_delete(store, key);
    else if (strcmp(name, "try_wait") == 0)
        answer = store_try_wait(store, key, atof(word[2]));
    else if (strcmp(name, "queue_len") == 0)
        answer = store_queue_len(store, key);
    else
        answer = store_num_keys(store);
    printf("%" PRId64, answer);
}

/* Executes an operation whose only answer is its end. */
static void do_wait(Store *store, char **word)
{
    if (strcmp(word[0], "ping") == 0)
        store_ping(store);
    else if (strcmp(word[0], "wait") == 0)
        store_wait(store, word[1]);
    else
        store_barrier(store, word[1], strtoll(word[2], NULL, 10));
}

static const struct {
    const char *name;
    int min_arguments;
    Action *action;
} operations[] = {
    { "set", 2, do_write },
    { "append", 2, do_write },
    { "push", 2, do_write },
    { "get", 1, do_get },
    { "pop", 2, do_pop },
    { "compare_set", 3, do_compare_set },
    { "multi_set", 2, do_multi_set },
    { "multi_get", 1, do_multi_get },
    { "list_keys", 0, do_list_keys },
    { "add", 2, do_number },
    { "count_worker", 0, do_number },
    { "check", 1, do_number },
    { "delete", 1, do_number },
    { "try_wait", 2, do_number },
    { "queue_len", 1, do_number },
    { "num_keys", 0, do_number },
    { "ping", 0, do_wait },
    { "wait", 1, do_wait },
    { "barrier", 2, do_wait },
};

static void execute(Store *store, char *line)
{
    char *word[MAX_WORDS + 1] = { NULL };
    int count = 0;
    for (char *rest = line, *w; (w = strtok_r(rest, " \n", &rest)) != NULL && count < MAX_WORDS;)
        word[count++] = w;
    for (size_t i = 0; count > 0 && i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, word[0]) == 0 && count > operations[i].min_arguments) {
            operations[i].action(store, word);
            putchar('\n');
            CHECK(fflush(stdout) == 0, "nobody listens: %s", strerror(errno));
            return;
        }
    usage_error("store_peer does not understand %s", count > 0 ? word[0] : "an empty line");
}

static void run_client(char **argv)
{
    Store store;
    CHECK(store_connect(&store, argv[0], atoi(argv[1]), atof(argv[2])), "no store at %s:%s: %s",
          argv[0], argv[1], strerror(errno));
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0)
        execute(&store, line);
    free(line);
    store_free(&store);
}

static void serve(void)
{
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    CHECK(server != NULL, "cannot serve: %s", strerror(errno));
    printf("%d\n", port);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    store_server_stop(server);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        serve();
    else if (argc == 5 && strcmp(argv[1], "client") == 0)
        run_client(argv + 2);
    else
        usage_error("usage: store_peer serve, or store_peer client HOST PORT TIMEOUT");
    return 0;
}
