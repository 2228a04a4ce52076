/* Folders to write into: creating them, only checking them, and obstacles on the path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/folder.h"
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"
#include "tests/helpers/leaves.h"

static bool cannot_create; // as on some file systems
static int num_looks;

/* In place of libc's. */
int mkdir(const char *path, mode_t mode)
{
    return cannot_create ? errno = EPERM, -1 : mkdirat(AT_FDCWD, path, mode);
}

int lstat(const char *path, struct stat *status)
{
    if (++num_looks > 10000)
        abort(); // a check looks at each part of a path once
    return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

static const char *below(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void create(const void *path)
{
    folder_create(path, "--some-dir");
}

static void check(const void *path)
{
    folder_check(path, "--some-dir");
}

static void as_nobody(Body *body, const void *path)
{
    if (getuid() == 0 && setuid(65534) != 0) // because root passes every permission check
        _exit(99);
    body(path);
}

static void create_as_nobody(const void *path)
{
    as_nobody(create, path);
}

static void check_as_nobody(const void *path)
{
    as_nobody(check, path);
}

static int count_files(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2; // . and ..
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static void test_create(void **state)
{
    (void)state;
    static const char *const names[] = { "abc", "abc", "b/c/d", "b/c/d/", "e//f", "./g/../g/h" };
    for (size_t i = 0; i < LENGTH(names); i++) {
        check(below(names[i]));
        create(below(names[i]));
        assert_true(is_folder(below(names[i])));
        check(below(names[i]));
    }
    assert_int_equal(count_files(below("b/c/d")), 0);
    assert_int_equal(count_files(folder), 4);
    create("/");
    check("/tmp/");
    create(".");
    check("nowhere/in/this/folder"); // relative, and no part of it exists
    assert_false(is_folder("nowhere"));
    const int here = open(".", O_RDONLY);
    assert_int_equal(chdir(folder), 0);
    create("r/s"); // as short as names can be
    assert_true(is_folder(below("r/s")));
    assert_int_equal(fchdir(here), 0);
    close(here);
}

static void check_anew(void *path)
{
    check(path);
}

static void check_without_memory(const void *path)
{
    blocks_left = 0;
    check(path);
}

static void test_no_memory(void **state)
{
    (void)state;
    needs_own_malloc();
    assert_dies_saying(check_without_memory, below("new"), 1, "fatal: out of memory");
}

static void test_check_creates_nothing(void **state)
{
    (void)state;
    assert_leaves_nothing(check_anew, (void *)below("new"));
    const int before = count_files(folder);
    check(below("new"));
    check(below("new/and/deeper"));
    assert_int_equal(count_files(folder), before);
}

/* Both create and check refuse these. */
static void test_in_the_way(void **state)
{
    (void)state;
    const char *kinds[] = { "file", "pipe", "loop", "nowhere" };
    fclose(fopen(below("file"), "w"));
    assert_int_equal(mkfifo(below("pipe"), 0600), 0);
    assert_int_equal(symlink("loop", below("loop")), 0);
    assert_int_equal(symlink("missing/folder", below("nowhere")), 0);
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        char under[64];
        snprintf(under, sizeof under, "%s/x/y", kinds[i]);
        for (int deep = 0; deep < 2; deep++) {
            const char *path = below(deep ? under : kinds[i]);
            assert_dies_saying(create, path, 1, folder, kinds[i], "name another with --some-dir");
            assert_dies_saying(check, path, 2, folder, kinds[i], "name another with --some-dir");
        }
    }
    assert_dies_saying(check, "/dev/null/x", 2, "/dev/null", "Not a directory");
    assert_dies_saying(check, "/proc/x", 2, "/proc",
                       "--some-dir"); // writable according to its mode

    char name[300] = "", deep[PATH_MAX] = "";
    memset(name, 'n', sizeof name - 1);
    assert_dies_saying(check, name, 2, "File name too long");
    assert_dies_saying(create, name, 1, "File name too long");
    for (int more = 0; more < 2; more++) { // the longest path, and one that is too long
        char path[PATH_MAX + 1] = "/tmp";
        memset(path + 4, '/', (size_t)(PATH_MAX - 5 + more));
        assert_int_equal(folder_try(path), more == 0);
        path[PATH_MAX - sizeof "/.probe.XXXXXX" + (size_t)more] =
            '\0'; // with room for a name in it
        assert_int_equal(child_run(check, path), more == 0 ? 0 : 2);
    }
    memcpy(deep, "/tmp", 4);
    memset(deep + 4, '/', sizeof deep - 5); // exists, and leaves no room for a name
    assert_dies_saying(check, deep, 2, "cannot write into the folder /tmp////");
}

static void test_no_permission(void **state)
{
    (void)state;
    assert_int_equal(chmod(folder, 0755), 0);
    create(below("locked"));
    assert_int_equal(chmod(below("locked"), 0555), 0);
    assert_dies_saying(check_as_nobody, below("locked"), 2, "locked", "Permission denied");
    assert_dies_saying(check_as_nobody, below("locked/x"), 2, "locked", "Permission denied");
    assert_dies_saying(create_as_nobody, below("locked/x"), 1, "locked/x", "Permission denied");
    assert_int_equal(child_run(create_as_nobody, below("locked")), 0); // because it exists
    assert_int_equal(chmod(below("locked"), 0000), 0);
    assert_dies_saying(check_as_nobody, below("locked/x"), 2, "locked/x", "Permission denied");
    cannot_create = true;
    create(folder); // exists
    assert_dies_saying(create, below("new"), 1, "new", "Operation not permitted");
    cannot_create = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),        cmocka_unit_test(test_check_creates_nothing),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_in_the_way),
        cmocka_unit_test(test_no_permission),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
