/* What is left of interrupted writes is removed, and nothing else. */
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "05_fault_tolerance/snapshot_folder.h"
#include "common/base/log.h"
#include "tests/common/save/safetensors_files.h"

#define SWEEP_SECONDS 2.0

/* Stands in for the C library's, so that more commits are made in that time. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

/* What no dead writer has left stays, and nobody waits for the other end of a pipe. */
static void test_sweep(void **state)
{
    (void)state;
    static const char *const names[] = { "a.safetensors.1.tmp", "b.safetensors.x.tmp", "c.1.tmp",
                                         "d.safetensors.1.tmp" };
    char name[4][PATH_MAX];
    for (int i = 0; i < 4; i++) {
        snprintf(name[i], sizeof name[i], "%s/%s", folder, names[i]);
        assert_int_equal(mknod(name[i], i < 3 ? S_IFREG | 0600 : S_IFIFO | 0600, 0), 0);
    }
    alarm(120);
    snapshot_folder_sweep(folder);
    alarm(0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(unlink(name[i]), i == 0 ? -1 : 0);
}

/* Whoever sweeps all the time takes no file from a writer that lives, not even one just created. */
static void test_sweep_beside(void **state)
{
    (void)state;
    const pid_t pid = fork();
    if (pid == 0)
        for (;;)
            snapshot_folder_sweep(folder);
    Safetensors *file = make_small();
    int failed = 0;
    for (const double end = seconds_now() + SWEEP_SECONDS; seconds_now() < end;)
        failed += !safetensors_commit(file, path, error, sizeof error);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (failed > 0)
        fail_msg("%d commits failed: %s", failed, error);
    safetensors_free(file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_sweep_beside),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
