/* The folder's lock: its job is known before the rendezvous. */
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "05_fault_tolerance/checks/folder_lock.h"
#include "common/base/log.h"
#include "tests/helpers/folder.h"

static const char *const variables[] = { "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE",
                                         "SLURM_JOB_ID", "SLURM_STEP_ID" };
enum { NUM_VARIABLES = sizeof variables / sizeof variables[0] };

/* Sets the variables like a launcher; NULL unsets one. */
static void set_job(const char *const values[NUM_VARIABLES])
{
    for (int i = 0; i < NUM_VARIABLES; i++)
        if (values[i] != NULL)
            setenv(variables[i], values[i], 1);
        else
            unsetenv(variables[i]);
}

static void test_jobs_are_told_apart(void **state)
{
    (void)state;
    static const char *const jobs[][NUM_VARIABLES] = {
        { "127.0.0.1", "1234" },
        { "127.0.0.1", "1235" },
        { "alpha", "1234" },
        { NULL, NULL, "17" },
        { NULL, NULL, "18", "5", "0" },
        { NULL, NULL, NULL, "5", "0" },
        { NULL, NULL, NULL, "5", "1" },
    };
    enum { NUM_JOBS = sizeof jobs / sizeof jobs[0] };
    for (int holder = 0; holder < NUM_JOBS; holder++) {
        set_job(jobs[holder]);
        assert_false(folder_lock_is_foreign(folder)); // no job has it
        const int fd = folder_lock(folder);
        assert_true(fd >= 0);
        for (int other = 0; other < NUM_JOBS; other++) {
            set_job(jobs[other]);
            assert_int_equal(folder_lock_is_foreign(folder), other != holder);
        }
        set_job((const char *const[NUM_VARIABLES]){ "127.0.0.1", "9", "9", "9", "9" });
        assert_true(folder_lock_is_foreign(folder));
        close(fd);
        assert_false(folder_lock_is_foreign(folder));
    }
}

/* Locks as user `uid` in a child process. Returns its status. */
static int lock_as(uid_t uid)
{
    const pid_t child = fork();
    if (child == 0) {
        freopen("/dev/null", "w", stderr);
        if (uid != getuid() && setuid(uid) < 0)
            _exit(99);
        _exit(folder_lock(folder) >= 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static char path[64];

static void test_two_users_of_a_folder(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    if (getuid() != 0)
        skip(); // only root can become another user
    unlink(path);
    chmod(folder, 0777);
    assert_int_equal(lock_as(getuid()), 0);
    assert_int_equal(lock_as(NOBODY), 0);
    chmod(path, 0644); // as older versions left it: lockable, but not writable
    assert_int_equal(lock_as(NOBODY), 0);
    chmod(path, 0600);
    assert_int_equal(lock_as(NOBODY), EXIT_USAGE);
}

/* A user who may not write to the folder can neither block a run nor write the file. */
static void test_strangers(void **state)
{
    (void)state;
    static const struct {
        mode_t folder, lock;
    } cases[] = { { 0755, 0600 }, { 0700, 0600 }, { 0775, 0660 }, { 0777, 0666 }, { 01777, 0600 } };
    struct stat file;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int is_old = 0; is_old < 2; is_old++) { // or left by a version that let all users
            if (!is_old)
                unlink(path);
            else
                assert_int_equal(chmod(path, 0666), 0);
            assert_int_equal(chmod(folder, cases[i].folder), 0);
            assert_int_equal(lock_as(getuid()), 0);
            assert_int_equal(stat(path, &file), 0);
            assert_int_equal(file.st_mode & 07777, cases[i].lock);
        }
    assert_int_equal(chmod(folder, 0755), 0);
    if (getuid() == 0)
        assert_int_equal(lock_as(65534), EXIT_USAGE);
}

static void test_links(void **state)
{
    (void)state;
    char other[64];
    struct stat kept;
    snprintf(other, sizeof other, "%s/precious", folder);
    file_put(other, "data", 4);
    unlink(path);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(lock_as(getuid()), EXIT_USAGE);
    unlink(path);
    assert_int_equal(link(other, path), 0);
    assert_int_equal(lock_as(getuid()), EXIT_USAGE);
    assert_int_equal(stat(other, &kept), 0);
    assert_int_equal(kept.st_size, 4);
}

static int name_lock(void **state)
{
    const int made = make_folder(state);
    snprintf(path, sizeof path, "%s/.lock", folder);
    return made;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_jobs_are_told_apart),
                                        cmocka_unit_test(test_two_users_of_a_folder),
                                        cmocka_unit_test(test_strangers),
                                        cmocka_unit_test(test_links) };
    return cmocka_run_group_tests(tests, name_lock, remove_folder);
}
