/* What backends share: a watchdog, the bytes of a call, a comparison, and the words for a call. */
#include <dlfcn.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "common/base/log.h"
#include "common/comm/library_calls.h"
#include "tests/helpers/child.h"

static int num_joined; // threads that have been waited for

/* In place of libc's. */
int pthread_join(pthread_t thread, void **result)
{
    int (*next)(pthread_t, void **) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_join");
    num_joined++;
    return next(thread, result);
}

static const char *missing = ""; // which of the next two fails

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return strcmp(missing, "thread") == 0 ? EAGAIN : next(thread, attributes, body, argument);
}

int eventfd(unsigned value, int flags)
{
    int (*next)(unsigned, int) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "eventfd");
    return strcmp(missing, "descriptor") == 0 ? (errno = EMFILE, -1) : next(value, flags);
}

int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "ppoll");
    CHECK(count == 1, "it waits for %d descriptors", (int)count);
    return next(polled, count, time, mask);
}

/* Stops the watchdog in time, or too late. */
static void keep_waiting(const void *context)
{
    const double *seconds = context;
    Watchdog watchdog;
    const int next = dup(STDOUT_FILENO); // the first free descriptor
    close(next);
    watchdog_start(&watchdog, seconds[0], "the call", "start the others");
    usleep((useconds_t)(seconds[1] * 1e6));
    watchdog_stop(&watchdog);
    assert_int_equal(num_joined, 1);
    assert_int_equal(dup(STDOUT_FILENO), next);
}

static void test_watchdog(void **state)
{
    (void)state;
    assert_int_equal(child_run(keep_waiting, (double[]){ 1000, 0 }), 0);
    assert_int_equal(child_run(keep_waiting, (double[]){ 1000, 0.01 }), 0);
    assert_string_equal(err, "");
    assert_int_equal(child_run(keep_waiting, (double[]){ 0.05, 300 }), 1);
    assert_non_null(strstr(err, "the call did not end within 0.05 s: start the others\n"));
}

static void start_without(const void *what)
{
    Watchdog watchdog;
    missing = what;
    watchdog_start(&watchdog, 1000, "the call", "start the others");
}

static void test_no_watchdog(void **state)
{
    (void)state;
    assert_dies_saying(start_without, "descriptor", 1, "Too many open files");
    assert_dies_saying(start_without, "thread", 1, "cannot start a thread that watches the time");
}

/* The bytes that a call reads and writes, in shares of a rank: as process_group.h says. */
static void test_extents(void **state)
{
    (void)state;
    static const struct {
        CollectiveKind kind;
        size_t in, out, root_in, root_out;
    } cases[] = {
        { ALL_REDUCE, 1, 1, 1, 1 },     { BROADCAST, 0, 1, 1, 0 },  { REDUCE, 1, 0, 1, 1 },
        { GATHER, 1, 0, 1, 3 },         { ALL_GATHER, 1, 3, 1, 3 }, { SCATTER, 0, 1, 3, 1 },
        { REDUCE_SCATTER, 3, 1, 3, 1 }, { BARRIER, 0, 0, 0, 0 },    { SEND, 1, 0, 0, 0 },
        { RECV, 0, 1, 0, 0 },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        for (int root = 0; root < 2; root++) {
            const ProcessGroup pg = { .rank = 1, .world_size = 3 };
            const Collective c = {
                .pg = &pg, .kind = cases[i].kind, .type = INT32, .count = 10, .root = root
            };
            size_t in = 1, out = 1;
            collective_extents(&c, &in, &out);
            assert_int_equal(in, 40 * (root == 1 ? cases[i].root_in : cases[i].in));
            assert_int_equal(out, 40 * (root == 1 ? cases[i].root_out : cases[i].out));
        }
}

static int differing; // the rank whose call differs

static void compare(const void *context)
{
    const ProcessGroup pg = { .world_size = 3 };
    const Collective same = {
        .sequence = 1, .kind = REDUCE, .type = INT32, .op = REDUCE_MAX, .count = 10, .root = 1
    };
    Collective all[] = { same, same, same };
    if (context != NULL)
        all[differing] = *(const Collective *)context;
    collectives_compare(&pg, all);
}

static void test_compared_calls(void **state)
{
    (void)state;
    static const struct {
        Collective call;
        const char *text;
    } others[] = {
        { { NULL, 0, 2, REDUCE, INT32, REDUCE_MAX, 10, 1, NULL, NULL, 0 },
          "reduce #2 of 10 int32 (max) to rank 1" },
        { { NULL, 0, 1, GATHER, INT32, REDUCE_MAX, 10, 1, NULL, NULL, 0 },
          "gather #1 of 10 int32 to rank 1" },
        { { NULL, 0, 1, REDUCE, INT64, REDUCE_MAX, 10, 1, NULL, NULL, 0 },
          "reduce #1 of 10 int64 (max) to rank 1" },
        { { NULL, 0, 1, REDUCE, INT32, REDUCE_MIN, 10, 1, NULL, NULL, 0 },
          "reduce #1 of 10 int32 (min) to rank 1" },
        { { NULL, 0, 1, REDUCE, INT32, REDUCE_MAX, 11, 1, NULL, NULL, 0 },
          "reduce #1 of 11 int32 (max) to rank 1" },
        { { NULL, 0, 1, REDUCE, INT32, REDUCE_MAX, 10, 0, NULL, NULL, 0 },
          "reduce #1 of 10 int32 (max) to rank 0" },
    };
    assert_int_equal(child_run(compare, NULL), 0);
    for (size_t i = 0; i < 2 * LENGTH(others); i++) {
        char line[DESCRIPTION_BYTES];
        differing = 1 + (int)i % 2;
        snprintf(line, sizeof line,
                 "the ranks' calls differ: rank 0 calls reduce #1 of 10 int32 (max) to rank 1, "
                 "rank %d calls ",
                 differing);
        assert_dies_saying(compare, &others[i / 2].call, 1, line, others[i / 2].text);
    }
}

/* Every kind, as messages have it. */
static void test_descriptions(void **state)
{
    (void)state;
    static const char *const texts[] = {
        [ALL_REDUCE] = "all_reduce #3 of 5 int64 (max)",
        [BROADCAST] = "broadcast #3 of 5 int64 from rank 1",
        [REDUCE] = "reduce #3 of 5 int64 (max) to rank 1",
        [GATHER] = "gather #3 of 5 int64 to rank 1",
        [ALL_GATHER] = "all_gather #3 of 5 int64",
        [SCATTER] = "scatter #3 of 5 int64 from rank 1",
        [REDUCE_SCATTER] = "reduce_scatter #3 of 5 int64 (max)",
        [BARRIER] = "barrier #3",
        [SEND] = "send #3 of 5 int64 to rank 1",
        [RECV] = "recv #3 of 5 int64 from rank 1",
    };
    ProcessGroup pg = { .world_size = 2 };
    for (size_t kind = 0; kind < 2 * LENGTH(texts); kind++) {
        char text[DESCRIPTION_BYTES], expected[DESCRIPTION_BYTES];
        const char *quoted = kind < LENGTH(texts) ? "" : " in group \"g\"";
        strcpy(pg.name, *quoted ? "g" : "");
        const Collective call = { .pg = &pg,
                                  .sequence = 3,
                                  .kind = (CollectiveKind)(kind % LENGTH(texts)),
                                  .type = INT64,
                                  .op = REDUCE_MAX,
                                  .count = 5,
                                  .root = 1 };
        snprintf(expected, sizeof expected, "%s%s", texts[call.kind], quoted);
        assert_string_equal(collective_describe(&call, text), expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watchdog),     cmocka_unit_test(test_no_watchdog),
        cmocka_unit_test(test_extents),      cmocka_unit_test(test_compared_calls),
        cmocka_unit_test(test_descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
