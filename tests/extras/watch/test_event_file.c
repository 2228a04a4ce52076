/*
 * TensorBoard's event files, byte for byte as the formats' documents have them; that TensorBoard
 * itself reads them is shown by tests/against/torch/events.bats.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "extras/watch/event_file.h"
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

/* The event's wall time is not ours to predict. */
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
    event_file_flush(&events); // a reader sees it now

    unsigned char bytes[256];
    assert_int_equal(file_get(events.path, bytes, sizeof bytes), 16 + 26 + 16 + 27);
    // The length 26, then its masked CRC-32C as TensorFlow's own files of that length have it.
    static const unsigned char head[] = { 26, 0, 0, 0, 0, 0, 0, 0 };
    assert_memory_equal(bytes, head, sizeof head);
    assert_event(bytes + 12,
                 "\x10\x00\x1a\x0d"
                 "brain.Event:2",
                 17);
    static const unsigned char scalar[] = { 0x10, 0xac, 0x02, // step 300: 2 * 128 + 44
                                            0x2a, 0x0d, // summary of 13 bytes
                                            0x0a, 0x0b, // value of 11 bytes
                                            0x0a, 0x04, 'l',  'o', 's', 's', // tag
                                            0x15, 0,    0,    0,   0x3f }; // simple_value 0.5
    assert_int_equal(bytes[42], 9 + sizeof scalar);
    assert_event(bytes + 54, scalar, sizeof scalar);
    event_file_close(&events);
}

/* CRC-32C bit by bit over a polynomial that is not reflected: another way to the same number. */
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
        cmocka_unit_test(test_two_in_a_second),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
