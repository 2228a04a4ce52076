/* Only files that killed runs have left are removed, without waiting for a pipe's other end. */
#include <sys/stat.h>

#include "extras/comfort/parts.h"
#include "tests/helpers/folder.h"

static void touch(const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    fclose(fopen(path, "w"));
}

static void test_sweep(void **state)
{
    (void)state;
    static const char *const others[] = { "b.tmp", "c.safetensors.tmp", "d.safetensors",
                                          "e.safetensors.x.tmp" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        touch(others[i], path);
    touch("a.safetensors.12.tmp", path);
    touch("a.safetensors.18446744073709551615.tmp", path);
    snprintf(path, sizeof path, "%s/f.safetensors.3.tmp", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/g.safetensors.3.tmp", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/h.safetensors.3.tmp", folder);
    assert_int_equal(symlink("d.safetensors", path), 0);
    alarm(120);
    leftovers_remove(folder);
    alarm(0);
    assert_int_equal(run_on_folder("test $(ls", "| wc -l) -eq 7"), 0);
    assert_int_equal(run_on_folder("! ls", "| grep '^a'"), 0);
    leftovers_remove("/nowhere");
    assert_int_equal(clear_folder(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(test_sweep, clear_folder) };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
