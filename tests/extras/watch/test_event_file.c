/*
 * TensorBoard's event files, byte for byte as the formats' documents define them;
 * tests/against/torch/events.bats shows that TensorBoard itself reads them.
 */
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "extras/watch/event_file.h"
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

/* Compares an event except for its wall time, which cannot be predicted. */
static void assert_event(const unsigned char *event, const void *rest, size_t length)
{
    assert_int_equal(event[0], 0x09); // field 1, 64 bits: wall_time
    double seconds;
    memcpy(&seconds, event + 1, sizeof seconds);
    assert_true(seconds > 1.7e9); // since 1970, not since the machine's start
    assert_memory_equal(event + 9, rest, length);
}

static void test_bytes(void **state)
{
    (void)state;
    EventFile events;
    event_file_open(&events, folder, 1);
    event_file_scalar(&events, "loss", 300, 0.5);
    event_file_flush(&events); // a reader sees the file now

    unsigned char bytes[256];
    assert_int_equal(file_get(events.path, bytes, sizeof bytes), 16 + 26 + 16 + 15 + 16 + 27);
    // The length 26, then its masked CRC-32C, taken from TensorFlow's own files.
    static const unsigned char head[] = { 26, 0, 0, 0, 0, 0, 0, 0 };
    assert_memory_equal(bytes, head, sizeof head);
    assert_event(bytes + 12,
                 "\x10\x00\x1a\x0d"
                 "brain.Event:2",
                 17);
    assert_event(bytes + 54, "\x10\x01\x3a\x02\x08\x01", 6); // step 1: a session starts
    static const unsigned char scalar[] = { 0x10, 0xac, 0x02, // step 300: 2 * 128 + 44
                                            0x2a, 0x0d, // summary of 13 bytes
                                            0x0a, 0x0b, // value of 11 bytes
                                            0x0a, 0x04, 'l',  'o', 's', 's', // tag
                                            0x15, 0,    0,    0,   0x3f }; // simple_value 0.5
    assert_int_equal(bytes[73], 9 + sizeof scalar);
    assert_event(bytes + 85, scalar, sizeof scalar);
    event_file_close(&events);
}

/* Computes the CRC-32C independently, bit by bit with the polynomial that is not reflected. */
static uint32_t masked_crc_of(const unsigned char *bytes, size_t length)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t top = crc >> 31 ^ (bytes[i] >> bit & 1);
            crc = crc << 1 ^ (top ? 0x1edc6f41 : 0);
        }
    uint32_t reflected = 0;
    for (int bit = 0; bit < 32; bit++)
        reflected |= (crc >> bit & 1) << (31 - bit);
    reflected = ~reflected;
    return (reflected >> 15 | reflected << 17) + 0xa282ead8;
}

static void test_checksums(void **state)
{
    (void)state;
    assert_int_equal(masked_crc_of((const unsigned char *)"123456789", 9),
                     (uint32_t)((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u));
    EventFile events;
    event_file_open(&events, folder, 7);
    event_file_scalar(&events, "accuracy", UINT64_MAX, -1);
    event_file_close(&events);

    unsigned char bytes[512];
    const size_t length = file_get(events.path, bytes, sizeof bytes);
    size_t at = 0;
    int records = 0;
    for (; at < length; records++) {
        uint64_t size;
        uint32_t crc;
        memcpy(&size, bytes + at, 8);
        memcpy(&crc, bytes + at + 8, 4);
        assert_int_equal(crc, masked_crc_of(bytes + at, 8));
        assert_true(size < length - at);
        memcpy(&crc, bytes + at + 12 + size, 4);
        assert_int_equal(crc, masked_crc_of(bytes + at + 12, size));
        at += 16 + size;
    }
    assert_int_equal(at, length);
    assert_int_equal(records, 3); // version, "from step 7 on", the point
}

static void test_two_in_a_second(void **state)
{
    (void)state;
    EventFile first, second;
    event_file_open(&first, folder, 1);
    event_file_open(&second, folder, 1);
    assert_string_not_equal(first.path, second.path);
    event_file_close(&first);
    event_file_close(&second);
}

/* A text and settings, by the fields of TensorFlow's summary.proto and tensor.proto, of the
 * plugin's plugin_data.proto, and of struct.proto. */
static void test_plugins(void **state)
{
    (void)state;
    static const char text[] =
        "\x08\x07\x12\x00\x42\x05| a |"; // tensor: a string without dimensions
    static const char plugin[] = "\x4a\x0c\x0a\x08\x0a\x04text\x12\x00\x20\x02"; // metadata
    static const char *const entries[] = {
        "\x0a\x0f\x0a\x02lr\x12\x09\x11\0\0\0\0\0\0\xe0\x3f", // 0.5
        "\x0a\x0e\x0a\x05model\x12\x05\x1a\x03"
        "cnn",
        "\x0a\x0d\x0a\x04path\x12\x05\x1a\x03nan",
    };
    unsigned char bytes[512];
    EventFile events;
    assert_int_equal(clear_folder(NULL), 0);
    event_file_open(&events, folder, 1);
    event_file_text(&events, "places", 1, "| a |");
    json_t *settings = json_pack("{ss ss ss}", "lr", "0.5", "model", "cnn", "path", "nan");
    event_file_settings(&events, 1, settings);
    json_decref(settings);
    event_file_close(&events);
    const size_t size = file_get(events.path, bytes, sizeof bytes);
    assert_non_null(memmem(bytes, size, text, sizeof text - 1));
    assert_non_null(memmem(bytes, size, plugin, sizeof plugin - 1));
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_non_null(memmem(bytes, size, entries[i], 2 + (size_t)entries[i][1]));

    event_file_open(&events, folder, 2); // keeps them
    event_file_close(&events);
    assert_int_equal(clear_folder(NULL), 0);
}

/* Writes the file of a run of steps 1 to 4, in a folder without files. */
static size_t write_steps(char path[4096])
{
    EventFile events;
    assert_int_equal(clear_folder(NULL), 0);
    event_file_open(&events, folder, 1);
    for (uint64_t step = 1; step <= 4; step++)
        event_file_scalar(&events, "loss", step, 0.5);
    event_file_close(&events);
    strcpy(path, events.path);
    return 16 + 26 + 16 + 15 + 4 * (16 + 26);
}

static void start_at(uint64_t step)
{
    EventFile events;
    event_file_open(&events, folder, step);
    event_file_close(&events);
    assert_int_equal(unlink(events.path), 0);
}

/* Steps that the next run repeats are cut from earlier files, as from rankR.jsonl. */
static void test_cut(void **state)
{
    (void)state;
    enum { HEAD = 16 + 26, START = 16 + 15, POINT = 16 + 26 };
    static const struct {
        uint64_t step;
        size_t bytes;
    } cuts[] = { { 5, HEAD + START + 4 * POINT },
                 { 4, HEAD + START + 3 * POINT },
                 { 2, HEAD + START + POINT },
                 { 1, HEAD } };
    unsigned char bytes[512], cut[512];
    char path[4096];
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const size_t size = write_steps(path);
        assert_int_equal(file_get(path, bytes, sizeof bytes), size);
        start_at(cuts[i].step);
        assert_int_equal(file_get(path, cut, sizeof cut), cuts[i].bytes);
        assert_memory_equal(cut, bytes, cuts[i].bytes);
    }
    // The writer was killed at any point, or a disk has changed a byte.
    size_t size = write_steps(path);
    file_get(path, bytes, sizeof bytes);
    for (size_t left = 0; left < size; left++) {
        file_put(path, bytes, left);
        start_at(9);
        const size_t points = left < HEAD + START ? 0 : (left - HEAD - START) / POINT;
        assert_int_equal(file_get(path, cut, sizeof cut), left < HEAD ? left
                                                          : left < HEAD + START
                                                              ? HEAD
                                                              : HEAD + START + points * POINT);
    }
    size = write_steps(path);
    file_get(path, bytes, sizeof bytes);
    bytes[size - POINT - 9] ^= 1;
    file_put(path, bytes, size);
    start_at(9);
    assert_int_equal(file_get(path, cut, sizeof cut), size - 2 * POINT);
}

/* Files of other writers, which omit a step of 0, links, and other names are unchanged. */
static void test_cut_no_others(void **state)
{
    (void)state;
    unsigned char bytes[512], again[512];
    char path[4096], other[128];
    const size_t size = write_steps(path);
    file_get(path, bytes, sizeof bytes);
    assert_int_equal(unlink(path), 0);
    snprintf(other, sizeof other, "%s/kept", folder);
    file_put(other, bytes, size);
    snprintf(path, sizeof path, "%s/events.out.tfevents.1.a.2.0", folder);
    assert_int_equal(symlink(other, path), 0);
    snprintf(path, sizeof path, "%s/events.out.tfevents.1.a.2.1", folder);
    assert_int_equal(link(other, path), 0);
    start_at(1);
    assert_int_equal(file_get(other, again, sizeof again), size);

    assert_int_equal(unlink(path), 0);
    bytes[0] = 24; // without the step's key and value, as TensorFlow and PyTorch have it
    memmove(bytes + 21, bytes + 23, size - 23);
    uint32_t crc = masked_crc_of(bytes, 8);
    memcpy(bytes + 8, &crc, sizeof crc);
    crc = masked_crc_of(bytes + 12, 24);
    memcpy(bytes + 36, &crc, sizeof crc);
    file_put(path, bytes, size - 2);
    snprintf(other, sizeof other, "%s/events.out.tfevents.1.a.2.2", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    start_at(1);
    assert_int_equal(file_get(path, again, sizeof again), size - 2);
    assert_memory_equal(again, bytes, size - 2);
    assert_int_equal(clear_folder(NULL), 0);
}

/* A file that a running job still writes is not cut by another run in the folder. */
static void test_cut_no_live_file(void **state)
{
    (void)state;
    EventFile ours, theirs;
    unsigned char bytes[4096];
    event_file_open(&ours, folder, 1);
    event_file_scalar(&ours, "train/loss", 1, 2.5);
    event_file_flush(&ours);
    const size_t size = file_get(ours.path, bytes, sizeof bytes);
    event_file_open(&theirs, folder, 1);
    event_file_close(&theirs);
    assert_int_equal(file_get(ours.path, bytes, sizeof bytes), size);
    event_file_close(&ours);
    assert_int_equal(clear_folder(NULL), 0);
}

static void open_nowhere(const void *context)
{
    (void)context;
    EventFile events;
    event_file_open(&events, "/proc/no_such_folder", 1);
}

static void write_too_much(const void *context)
{
    (void)context;
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = { 4096, 4096 };
    setrlimit(RLIMIT_FSIZE, &limit);
    EventFile events;
    event_file_open(&events, folder, 1);
    for (int step = 1; step < 1000; step++)
        event_file_scalar(&events, "loss", (uint64_t)step, 1);
    event_file_close(&events);
}

static void test_failures(void **state)
{
    (void)state;
    assert_dies_saying(open_nowhere, NULL, 1, "/proc/no_such_folder", "--metrics-dir");
    assert_dies_saying(write_too_much, NULL, 0, "warning", "TensorBoard", "File too large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_checksums),
        cmocka_unit_test(test_plugins),
        cmocka_unit_test(test_two_in_a_second),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_no_others),
        cmocka_unit_test(test_cut_no_live_file),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
