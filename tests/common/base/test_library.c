/* Functions of libraries that are opened on demand, and the error messages if that fails. */
#include "tests/helpers/child.h"

#include "common/base/library.h"

/* Two functions of zlib, declared as in a header, since only the library's name is known here. */
const char *zlibVersion(void);
unsigned long compressBound(unsigned long bytes);
#define LIBRARY "libz.so.1"
#define NEEDED_BY "--this option"
#define ZLIB(FUNCTION) FUNCTION(version, zlibVersion) FUNCTION(bound, compressBound)

static void test_a_function_is_the_library_s(void **state)
{
    (void)state;
    const struct {
        ZLIB(LIBRARY_POINTER)
    } zlib = { ZLIB(LIBRARY_FIND) };
    assert_int_equal(zlib.version()[0], '1');
    assert_int_equal(zlib.bound(0), 13);
    assert_non_null(library_function(LIBRARY, "inflate", NEEDED_BY));
}

static void call(const void *context)
{
    const char *const *names = context;
    library_function(names[0], names[1], NEEDED_BY);
}

static void test_what_is_missing_is_named(void **state)
{
    (void)state;
    assert_dies(call, (const char *[]){ "libno_such.so.7", "x" }, 1,
                (const char *[]){ NEEDED_BY, "libno_such.so.7", "LD_LIBRARY_PATH", NULL });
    assert_dies(call, (const char *[]){ LIBRARY, "no_such_function" }, 1,
                (const char *[]){ NEEDED_BY, LIBRARY, "no_such_function", "newer", NULL });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_function_is_the_library_s),
        cmocka_unit_test(test_what_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
