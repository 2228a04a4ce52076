/* The address of an interface, which GLOO_SOCKET_IFNAME names; tests/steps/nodes.bats has the
 * variable's other tests. */
#include "extras/interface/interface.h"
#include "tests/helpers/unit.h"

#include <errno.h>
#include <netdb.h>

static void test_the_address_is_numeric(void **state)
{
    (void)state;
    char address[NI_MAXHOST];
    assert_int_equal(interface_address("lo", address, sizeof address), 0);
    assert_string_equal(address, "127.0.0.1");
}

static void test_no_address(void **state)
{
    (void)state;
    char address[NI_MAXHOST];
    assert_int_equal(interface_address("lo", address, 2), -1); // too long
    assert_int_equal(errno, ENODEV);
    assert_int_equal(interface_address("nosuch0", address, sizeof address), -1);
    assert_int_equal(errno, ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_address_is_numeric),
                                        cmocka_unit_test(test_no_address) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
