/* The five variables as a program of one's own reads them, and the cores that a rank reports. */
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/dist_env.h"
#include "common/comm/env.h"
#include "tests/helpers/child.h"

/* Reads WORLD_SIZE where the five variables but those in `missing` are set. */
static void print_world_size(const void *missing)
{
    static const char *const five[] = { " RANK", " LOCAL_RANK", " WORLD_SIZE", " MASTER_ADDR",
                                        " MASTER_PORT" };
    clearenv();
    for (size_t i = 0; i < LENGTH(five); i++)
        if (strstr(missing, five[i]) == NULL)
            setenv(five[i] + 1, "3", 1);
    printf("%d", env_int("WORLD_SIZE"));
}

static void test_all_missing_ones_are_named(void **state)
{
    (void)state;
    assert_int_equal(child_run(print_world_size, ""), 0);
    assert_string_equal(out, "3");
    static const char *const cases[][2] = {
        { " WORLD_SIZE", ": WORLD_SIZE is not set: start this" },
        { " WORLD_SIZE MASTER_PORT", ": WORLD_SIZE, MASTER_PORT are not set: start this" },
        { " RANK LOCAL_RANK WORLD_SIZE", ": RANK, LOCAL_RANK, WORLD_SIZE are not set: start this" },
        { " LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT", // all but the first
          ": LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set: start this" },
        { " RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR", // all but the last
          ": RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR are not set: start this" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        assert_dies_saying(print_world_size, cases[i][0], 1, cases[i][1]);
}

static int num_checks; // of other launchers' variables, by extras/comfort

void __real_comfort_check_launchers(void), __wrap_comfort_check_launchers(void);

void __wrap_comfort_check_launchers(void)
{
    num_checks++;
    __real_comfort_check_launchers();
}

/* With this variable alone; with NULL no variable is left, and environ is NULL. */
static void print_five(const void *name)
{
    clearenv();
    if (name != NULL)
        setenv(name, "/", 1);
    printf("%d ", env_int("LOCAL_RANK"));
    CHECK(num_checks == 0, "%d checks", num_checks);
    printf("%d %d %s", env_int("RANK"), env_int("WORLD_SIZE"), env_str("MASTER_ADDR"));
    CHECK(env_int("MASTER_PORT") > 0 && num_checks == 1, "no port, or %d checks", num_checks);
}

static void test_without_any_one_rank_is_alone(void **state)
{
    (void)state;
    static const char *const names[] = { "HOME", NULL };
    for (size_t i = 0; i < LENGTH(names); i++) {
        assert_int_equal(child_run(print_five, names[i]), 0);
        assert_string_equal(out, "0 0 1 localhost");
        assert_has(err, "no launcher: one rank trains alone; for more, start this program with");
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); // once
    }
}

/* As a rank of mpirun's, of as many as context says. */
static void print_five_by_mpirun(const void *num_ranks)
{
    clearenv();
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", num_ranks, 1);
    printf("%d", env_int("WORLD_SIZE"));
}

static void test_one_of_several_is_not_alone(void **state)
{
    (void)state;
    assert_int_equal(child_run(print_five_by_mpirun, "1"), 0);
    assert_string_equal(out, "1");
    assert_dies_saying(print_five_by_mpirun, "2", 1,
                       "RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set");
}

static void print_cores(const void *set)
{
    SYS_CHECK(sched_setaffinity(0, sizeof(cpu_set_t), set));
    char text[DIST_ENV_CORES_BYTES];
    const int next = dup(STDIN_FILENO); // the first free descriptor
    close(next);
    printf("%s", dist_env_cores(text));
    assert_int_equal(dup(STDIN_FILENO), next);
}

static void test_cores_are_those_that_the_kernel_allows(void **state)
{
    (void)state;
    cpu_set_t set;
    char expected[16];
    int core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(core, &set))
        core++;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    assert_int_equal(child_run(print_cores, &set), 0);
    snprintf(expected, sizeof expected, "%d", core);
    assert_string_equal(out, expected);
}

static bool has_no_proc;

/* In place of libc's. */
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    return has_no_proc ? NULL : next(path, mode);
}

static void test_cores_of_a_system_without_proc(void **state)
{
    (void)state;
    char text[DIST_ENV_CORES_BYTES] = "7";
    has_no_proc = true;
    assert_string_equal(dist_env_cores(text), "unknown");
    has_no_proc = false;
}

static size_t name_bytes; // that there are for the name of this machine

int gethostname(char *name, size_t bytes)
{
    name_bytes = bytes;
    strcpy(name, "n7");
    return 0;
}

/* Where no launcher says which node this is, its name does. */
static void log_unnumbered(const void *context)
{
    (void)context;
    clearenv();
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    setenv("LOCAL_RANK", "0", 1);
    DistEnv env;
    dist_env_init(&env);
    CHECK(name_bytes == sizeof env.host - 1, "%zu bytes for the name", name_bytes);
    printf("%d", env.node);
    dist_env_log(&env, "cuda", (MemoryLocation){ .on_gpu = true, .index = 3 });
}

static void test_a_node_without_a_number(void **state)
{
    (void)state;
    assert_int_equal(child_run(log_unnumbered, NULL), 0);
    assert_string_equal(out, "35320281"); // zlib.crc32(b"n7") & 0x7fffffff in Python
    assert_has(err, "host n7: local rank 0 (LOCAL_RANK), cuda:3, cores ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_several_is_not_alone),
        cmocka_unit_test(test_all_missing_ones_are_named),
        cmocka_unit_test(test_without_any_one_rank_is_alone),
        cmocka_unit_test(test_cores_are_those_that_the_kernel_allows),
        cmocka_unit_test(test_cores_of_a_system_without_proc),
        cmocka_unit_test(test_a_node_without_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
