/*
 * Plays the recorded conversations of real PyTorch clients with real PyTorch servers to our server,
 * and compares each reply byte for byte. A record that was made "while conn N blocks in" something
 * is played between that request and its reply, so that blocking and waking are tested too.
 */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"
#include "common/comm/store/store_protocol.h"
#include "tests/common/comm/store/store_requests.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 300.0 // seconds to wait for a reply
enum { MAX_RECORDS = 512, MAX_CONNECTIONS = 16 };

typedef struct {
    json_t *record[MAX_RECORDS];
    size_t frames_played[MAX_RECORDS];
    int num_records, num_replies;
    int fd[MAX_CONNECTIONS];
    int port;
} Replay;

static const char *text_of(const json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));
    return text == NULL ? "" : text;
}

static int connection_of(const json_t *record)
{
    return (int)json_integer_value(json_object_get(record, "conn"));
}

/* Decodes bytes written in hexadecimal. The caller frees them. */
static uint8_t *from_hex(const char *hex, size_t *count)
{
    *count = strlen(hex) / 2;
    uint8_t *data = mem_calloc(*count, 1);
    for (size_t i = 0; i < *count; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        data[i] = (uint8_t)byte;
    }
    return data;
}

static int compare_blobs(const void *left, const void *right)
{
    const Blob *a = left, *b = right;
    const size_t shorter = a->count < b->count ? a->count : b->count;
    const int order = memcmp(a->data, b->data, shorter);
    return order != 0 ? order : (a->count > b->count) - (a->count < b->count);
}

/* Sorts the keys of a reply to LIST_KEYS, because the server may list them in any order. */
static void sort_list(uint8_t *reply, size_t count)
{
    Blob *keys = mem_calloc(count, sizeof *keys);
    uint8_t *copy = mem_calloc(count, 1);
    memcpy(copy, reply, count);
    Cursor at = copy;
    size_t num_keys = take_u64(&at);
    for (size_t i = 0; i < num_keys; i++)
        keys[i] = take_blob(&at);
    qsort(keys, num_keys, sizeof *keys, compare_blobs);
    Bytes sorted = { 0 };
    bytes_put_u64(&sorted, num_keys);
    for (size_t i = 0; i < num_keys; i++)
        bytes_put_blob(&sorted, keys[i]);
    memcpy(reply, sorted.data, count);
    bytes_free(&sorted);
    free(copy);
    free(keys);
}

static int replay_fd(Replay *replay, const json_t *record)
{
    int *fd = &replay->fd[connection_of(record)];
    if (*fd < 0)
        *fd = net_connect("127.0.0.1", replay->port, seconds_now() + TIMEOUT);
    assert_true(*fd >= 0);
    return *fd;
}

static void play_frame(Replay *replay, const json_t *record, size_t frame)
{
    const json_t *pair = json_array_get(json_object_get(record, "frames"), frame);
    const char *side = json_string_value(json_array_get(pair, 0));
    size_t count = 0;
    uint8_t *bytes = from_hex(json_string_value(json_array_get(pair, 1)), &count);
    const int fd = replay_fd(replay, record);
    if (strcmp(side, "c") == 0) {
        assert_int_equal(net_send(fd, bytes, count, seconds_now() + TIMEOUT), 0);
    } else if (strcmp(side, "s") == 0) {
        uint8_t *reply = mem_calloc(count, 1);
        if (net_recv(fd, reply, count, seconds_now() + TIMEOUT) < 0)
            fail_msg("record %s %s: %s", text_of(record, "backend"), text_of(record, "op"),
                     strerror(errno));
        if (strcmp(text_of(record, "op"), "list_keys") == 0) {
            sort_list(reply, count);
            sort_list(bytes, count);
        }
        assert_memory_equal(reply, bytes, count);
        free(reply);
        replay->num_replies++;
    }
    free(bytes);
}

/* Sends the first request of the record during which this one was made, if any. A PING shows that
 * the server has read it, because other requests are answered while one waits. */
static void play_beginning_of_blocked(Replay *replay, int i)
{
    int blocked = 0;
    if (sscanf(text_of(replay->record[i], "note"), "while conn %d blocks", &blocked) != 1)
        return;
    int j = i + 1;
    while (connection_of(replay->record[j]) != blocked)
        j++;
    if (replay->frames_played[j] > 0)
        return;
    play_frame(replay, replay->record[j], 0);
    replay->frames_played[j] = 1;
    uint8_t ping[] = { STORE_PING, 1, 2, 3, 4 }, echo[4];
    const int fd = replay_fd(replay, replay->record[j]);
    assert_int_equal(net_send(fd, ping, sizeof ping, seconds_now() + TIMEOUT), 0);
    assert_int_equal(net_recv(fd, echo, sizeof echo, seconds_now() + TIMEOUT), 0);
    assert_memory_equal(echo, ping + 1, sizeof echo);
}

/* Plays the records of one recorded server to a fresh one of ours. */
static int replay_all(const char *backend, bool by_call)
{
    Replay replay = { 0 };
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        replay.fd[i] = -1;
    FILE *file = fopen("tests/golden/tcpstore.jsonl", "r");
    assert_non_null(file);
    json_t *record;
    while ((record = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        const bool has_result = json_object_get(record, "result") != NULL;
        if (strcmp(text_of(record, "backend"), backend) == 0 && has_result == by_call)
            replay.record[replay.num_records++] = record;
        else
            json_decref(record);
    }
    fclose(file);

    StoreServer *server = store_server_start("127.0.0.1", &replay.port, NULL);
    assert_non_null(server);
    for (int i = 0; i < replay.num_records; i++) {
        play_beginning_of_blocked(&replay, i);
        const size_t num_frames = json_array_size(json_object_get(replay.record[i], "frames"));
        for (size_t frame = replay.frames_played[i]; frame < num_frames; frame++)
            play_frame(&replay, replay.record[i], frame);
    }
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        if (replay.fd[i] >= 0)
            close(replay.fd[i]);
    store_server_stop(server);
    for (int i = 0; i < replay.num_records; i++)
        json_decref(replay.record[i]);
    print_message("%s: %d records, %d replies as recorded\n", backend, replay.num_records,
                  replay.num_replies);
    return replay.num_replies;
}

static void test_clients_of_libuv_server(void **state)
{
    (void)state;
    needs_torch_store();
    assert_int_equal(replay_all("libuv", true), 85);
}

/* The legacy server has no queues and wakes no client on COMPARE_SET; the rest holds for ours. */
static void test_clients_of_legacy_server(void **state)
{
    (void)state;
    needs_torch_store();
    assert_int_equal(replay_all("legacy", true), 73);
}

static void test_serving_process_counts_workers(void **state)
{
    (void)state;
    assert_int_equal(replay_all("libuv", false), 4);
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_of_libuv_server),
        cmocka_unit_test(test_clients_of_legacy_server),
        cmocka_unit_test(test_serving_process_counts_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
