/* The digits in the program, damaged after they are inflated: whatever is wrong is noticed. */
#include <dlfcn.h>
#include <zlib.h>

#include "common/data/dataset.h"
#include "tests/helpers/child.h"

/* What is replaced by what, once, in the text of the digits; NULL for nothing. */
typedef struct {
    const char *old, *new;
    size_t end; // bytes from the end on that are replaced instead; 0 for none
    int status; // what inflate returns
} Damage;

static const Damage *damage;

/* In place of zlib's. */
int inflate(z_streamp stream, int flush)
{
    int (*next)(z_streamp, int) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "inflate");
    const int status = next(stream, flush);
    if (damage == NULL)
        return status;
    char *end = (char *)stream->next_out, *text = end - stream->total_out;
    char *at = damage->old != NULL ? strstr(text, damage->old) : end - damage->end;
    if (damage->new != NULL)
        memcpy(at, damage->new, strlen(damage->new) + (damage->old == NULL));
    return damage->status;
}

static void read_digits(const void *context)
{
    damage = context;
    float *images;
    int32_t *labels;
    digits_read(true, &images, &labels);
}

static void test_damaged_digits(void **state)
{
    (void)state;
    static const Damage damages[] = {
        { "0,", "x,", 0, Z_STREAM_END }, // no number
        { "0,", ",,", 0, Z_STREAM_END }, { "16,", "17,", 0, Z_STREAM_END }, // too dark
        { "0,", "0;", 0, Z_STREAM_END }, { "\n", ",", 0, Z_STREAM_END },
        { NULL, "", 1, Z_STREAM_END }, // one character is missing at the end
        { NULL, "0", 0, Z_STREAM_END }, // or there is one more
        { NULL, NULL, 0, Z_OK }, // the compressed file does not end there
    };
    assert_int_equal(child_run(read_digits, NULL), 0);
    for (size_t i = 0; i < LENGTH(damages); i++)
        assert_dies_saying(read_digits, &damages[i], 1, "the digits in this program are damaged");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_damaged_digits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
