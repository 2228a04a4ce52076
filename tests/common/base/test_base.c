/* The small files of common/base: memory, host, element types, divergence. */
#include <dlfcn.h>
#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include "common/base/divergence.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "tests/helpers/child.h"
#include "tests/helpers/leaves.h"

static void test_memory(void **state)
{
    (void)state;
    mallopt(M_PERTURB, 0x55); // so that fresh memory is not zero by chance
    const size_t sizes[] = { 0, 1, 63, 64, 65, 100000 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *memory = mem_calloc(sizes[i], 3);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t byte = 0; byte < 3 * sizes[i]; byte++)
            assert_int_equal(memory[byte], 0);
        free(memory);
    }
}

static void allocate(const void *context)
{
    const size_t *sizes = context;
    free(mem_calloc(sizes[0], sizes[1]));
}

static int status_of_calloc(size_t count, size_t size)
{
    return child_run(allocate, (size_t[]){ count, size });
}

static void test_memory_overflow(void **state)
{
    (void)state;
    static const size_t sizes[][2] = { { SIZE_MAX / 2, 4 },
                                       { SIZE_MAX, 1 },
                                       { 1, SIZE_MAX - 62 },
                                       { (size_t)1 << 62, 2 },
                                       { PTRDIFF_MAX, 1 } };
    char words[128];
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        snprintf(words, sizeof words, "%zu elements of %zu bytes do not fit", sizes[i][0],
                 sizes[i][1]);
        assert_dies_saying(allocate, sizes[i], 1, words);
    }
    assert_dies_saying(allocate, ((size_t[]){ PTRDIFF_MAX - 1, 1 }), 1, "out of memory: ");
    assert_int_equal(status_of_calloc(10, 10), 0);
}

/* Memory in use is refused, because the kernel would overcommit and kill the process using it. */
static void test_memory_in_use(void **state)
{
    (void)state;
    struct sysinfo info;
    assert_int_equal(sysinfo(&info), 0);
    const size_t all = info.totalram + info.totalswap;
    size_t left = 0;
    assert_false(mem_fits(SIZE_MAX, &left));
    assert_true(left > 0 && left < all * info.mem_unit);
    assert_int_equal(status_of_calloc(all, info.mem_unit), 1);
    assert_non_null(strstr(err, "out of memory: "));
    assert_non_null(strstr(err, "this machine has"));
    assert_int_equal(status_of_calloc(100 << 20, 1), 0);
}

static const char *machine; // what /proc/meminfo says instead

/* In place of libc's. */
FILE *fopen(const char *path, const char *mode)
{
    if (machine != NULL && strcmp(path, "/proc/meminfo") == 0)
        return fmemopen((char *)machine, strlen(machine), "r");
    FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    return next(path, mode);
}

/* From 64 MiB on; a sixteenth of the whole memory stays free. */
static void test_memory_of_a_small_machine(void **state)
{
    (void)state;
    size_t left = 0;
    static const struct {
        const char *text;
        size_t left; // bytes
    } machines[] = {
        { "MemTotal: 1600 kB\nMemAvailable: 300 kB\nSwapFree: 70 kB\n", (300 + 70 - 100) * 1024 },
        { "MemTotal: 1600 kB\nMemAvailable: 90 kB\nSwapFree: 20 kB\n", (90 + 20 - 100) * 1024 },
        // No more than stays free, with and without swap space.
        { "MemTotal: 1600 kB\nMemAvailable: 99 kB\nSwapFree: 1 kB\n", 0 },
        { "MemTotal: 1600 kB\nMemAvailable: 100 kB\n", 0 },
        { "MemTotal: 15 kB\nMemAvailable: 1 kB\nSwapFree: 0 kB\n", 1024 },
        { "MemAvailable: 1 kB\n", 1024 },
    };
    for (size_t i = 0; i < LENGTH(machines); i++) {
        machine = machines[i].text;
        assert_false(mem_fits(64 << 20, &left));
        assert_int_equal(left, machines[i].left);
        assert_true(mem_fits((64 << 20) - 1, &left));
    }
    machine = "MemTotal: 1600000 kB\nMemAvailable: 200000 kB\nSwapFree: 0 kB\n"; // 100,000 to give
    assert_true(mem_fits(102400000, &left));
    assert_false(mem_fits(102400001, &left));
    machine = "MemTotal: 1600 kB\nMemFree: 99 kB\n"; // a kernel that does not say
    assert_true(mem_fits(64 << 20, &left));
    machine = NULL;
    const int next = dup(STDIN_FILENO);
    close(next);
    assert_true(mem_fits(64 << 20, &left));
    assert_int_equal(dup(STDIN_FILENO), next); // the file is closed
    close(next);
}

static bool has_many_cores; // more than a cpu_set_t holds

/* In place of libc's. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    if (has_many_cores || pid != 0)
        return errno = EINVAL, -1;
    memset(set, 0, size);
    return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
}

static void allocate_in_vain(const void *sizes)
{
    blocks_left = 0;
    allocate(sizes);
}

static void test_no_memory(void **state)
{
    (void)state;
    needs_own_malloc();
    assert_dies_saying(allocate_in_vain, ((size_t[]){ 100, 1 }), 1,
                       "fatal: out of memory: 128 bytes wanted");
}

static void test_host(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(host_num_cores(), 1, CPU_COUNT(&all));

    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(host_num_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    has_many_cores = true;
    assert_in_range(host_num_cores(), 1, sysconf(_SC_NPROCESSORS_ONLN));
    has_many_cores = false;
}

/* The launcher by its variables: the first whose rank, size and local rank are set; a rank's own
 * need no local rank, nor do the others' if there is nothing better. In a child, which may clear
 * its environment. */
static void find_launchers(const void *context)
{
    (void)context;
    static const struct {
        const char *set[7]; // these variables
        const char *rank; // the launcher's variable; NULL if it is none
    } cases[] = {
        { { NULL }, NULL },
        { { "RANK" }, NULL },
        { { "WORLD_SIZE" }, NULL },
        { { "RANK", "WORLD_SIZE" }, "RANK" },
        { { "PMI_RANK", "PMI_SIZE" }, "PMI_RANK" },
        { { "PMIX_RANK" }, NULL },
        { { "SLURM_PROCID", "SLURM_LOCALID" }, NULL },
        { { "PMI_RANK", "PMI_SIZE", "FLUX_TASK_RANK", "FLUX_JOB_SIZE" }, "FLUX_TASK_RANK" },
        { { "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "FLUX_TASK_RANK", "FLUX_JOB_SIZE" },
          "PMI_RANK" },
        { { "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "RANK", "WORLD_SIZE" }, "RANK" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        clearenv();
        for (int j = 0; j < 7 && cases[i].set[j] != NULL; j++)
            setenv(cases[i].set[j], "1", 1);
        const Launcher *launcher = launcher_find();
        const char *found = launcher != NULL ? launcher->rank : "none";
        const char *expected = cases[i].rank != NULL ? cases[i].rank : "none";
        CHECK(strcmp(found, expected) == 0, "case %zu: %s, not %s", i, found, expected);
    }
}

static void test_launchers(void **state)
{
    (void)state;
    if (child_run(find_launchers, NULL) != 0)
        fail_msg("%s", err);
    static const char of_mpi[] = " OMPI_COMM_WORLD_RANK MV2_COMM_WORLD_RANK JSM_NAMESPACE_RANK "
                                 "FLUX_TASK_RANK PMI_RANK PMIX_RANK PALS_RANKID ";
    for (const Launcher *launcher = launchers; launcher->rank != NULL; launcher++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", launcher->rank);
        assert_int_equal(launcher->is_mpi, strstr(of_mpi, word) != NULL);
    }
}

static void test_env_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int count;
    } cases[] = { { "1", 1 },       { "4,2", 4 }, { "4 ", 4 },  { "1048576", 1 << 20 },
                  { "1048577", 0 }, { "3x", 0 },  { "x", 0 },   { "-1", 0 },
                  { "", 0 },        { "0", 0 },   { "4.5", 0 }, { "99999999999999999999", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("TEST_COUNT", cases[i].text, 1);
        assert_int_equal(host_env_count("TEST_COUNT"), cases[i].count);
    }
    unsetenv("TEST_COUNT");
    assert_int_equal(host_env_count("TEST_COUNT"), 0);
}

static void test_dtypes(void **state)
{
    (void)state;
    const struct {
        DType type;
        size_t size;
        const char *name;
    } known[] = {
        { FLOAT32, 4, "float32" }, { BFLOAT16, 2, "bfloat16" }, { FLOAT64, 8, "float64" },
        { INT32, 4, "int32" },     { INT64, 8, "int64" },       { UINT8, 1, "uint8" },
    };
    assert_int_equal(sizeof known / sizeof known[0], NUM_DTYPES);
    for (size_t i = 0; i < NUM_DTYPES; i++) {
        assert_int_equal(dtype_size(known[i].type), known[i].size);
        assert_string_equal(dtype_name(known[i].type), known[i].name);
    }
}

static void make_text(void *text)
{
    json_decref(json_text(text));
}

/* Table 3-7 of the Unicode standard: no overlong or truncated sequences, no surrogates, nothing
 * beyond U+10FFFF. */
static void test_json_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "" },
        { "a \"\\\n", "a \"\\\n" },
        { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
        { "\xc3\xa4\xff b", "??? b" }, // one invalid byte, and only ASCII is kept
        { "\xc0\xaf", "??" },
        { "\xed\xa0\x80", "???" },
        { "\xf4\x90\x80\x80", "????" },
        { "cut \xe2\x82", "cut ??" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        json_t *text = json_text(cases[i][0]);
        assert_string_equal(json_string_value(text), cases[i][1]);
        json_decref(text);
    }
    assert_leaves_nothing(make_text, "\xff");
}

/* A check of a run that has diverged, or has not. */
typedef struct {
    Args args;
    Divergence found;
    int times;
} Check;

static void check(const void *context)
{
    const Check *c = context;
    for (int i = 0; i < c->times; i++)
        check_divergence(&c->args, c->found);
}

static void test_divergence(void **state)
{
    (void)state;
    static const Args stops = { .lr = 0.25 }, warns = { .lr = 0.25, .on_nan = ON_NAN_WARN },
                      fp16 = { .lr = 0.25, .amp = AMP_FP16 };
    static const char *const begin = "training diverged: ", *const warning = "warning: training ",
                             *const lr = ": try a smaller --lr than 0.25, or look for bad rows",
                             *const goes_on = "in the data (--on-nan warn goes on)\n";
    assert_dies_saying(check, (&(Check){ stops, { .weights = 6, .loss = 1 }, 1 }), 1, begin,
                       "weights are nan or infinite after step 6, and the loss since step 1", lr,
                       goes_on);
    assert_dies_saying(check, (&(Check){ fp16, { .weights = 1 }, 1 }), 1, begin,
                       "fp16 overflowed 50 times in a row until step 1, though no rank's loss is "
                       "yet",
                       lr, goes_on);
    assert_dies_saying(check, (&(Check){ warns, { .weights = 6 }, 3 }), 0, warning,
                       "after step 6, though no rank's loss is yet", lr, "in the data\n");
    assert_int_equal(child_run(check, &(Check){ stops, { .loss = 6 }, 1 }), 0);
    assert_string_equal(err, "");

    char path[] = "/tmp/test_base.XXXXXX"; // the launcher need not start it again
    close(mkstemp(path));
    unlink(path);
    log_set_rank(0, 1);
    setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    assert_int_equal(child_run(check, &(Check){ stops, { .weights = 6 }, 1 }), 1);
    unsetenv("TORCHELASTIC_ERROR_FILE");
    json_t *error = json_load_file(path, 0, NULL);
    assert_true(json_is_false(json_object_get(error, "restart")));
    json_decref(error);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_overflow),
        cmocka_unit_test(test_memory_in_use),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_memory_of_a_small_machine),
        cmocka_unit_test(test_env_counts),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_json_text),
        cmocka_unit_test(test_divergence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
