/* Whose job has the folder: known before the ranks have met. */
#include <stdbool.h>

#include "05_fault_tolerance/folder_lock.h"
#include "tests/helpers/folder.h"

static const char *const variables[] = { "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE",
                                         "SLURM_JOB_ID", "SLURM_STEP_ID" };
enum { NUM_VARIABLES = sizeof variables / sizeof variables[0] };

/* As a launcher sets them; NULL: not at all. */
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
        assert_false(folder_lock_is_foreign(folder)); // nobody has it
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_jobs_are_told_apart) };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
