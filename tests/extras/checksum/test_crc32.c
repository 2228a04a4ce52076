/* CRC-32 as it is defined, a bit at a time, beside what programs call: at every length and place
 * that a kernel may treat apart. */
#include "tests/helpers/child.h"

#include <zlib.h>

static uint32_t by_bits(uint32_t crc, const uint8_t *bytes, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static void test_definition(void **state)
{
    (void)state;
    assert_int_equal(crc32_z(0, (const Bytef *)"123456789", 9), 0xcbf43926); // the standard's check
    static uint8_t bytes[5000];
    uint32_t value = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)((value = value * 1664525 + 1013904223) >> 24);
    for (size_t count = 0; count < 1100; count++)
        for (size_t place = 0; place < 9; place += 4) {
            const uLong crc = crc32_z(value, bytes + place, count);
            assert_int_equal(crc, by_bits(value, bytes + place, count));
        }
    assert_int_equal(crc32_z(0, bytes + 1, 4000), by_bits(0, bytes + 1, 4000));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_definition) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
