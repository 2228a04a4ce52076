/* What each function of process_group.h asks of a backend: every field of the call, by a backend
 * that only records; and the limits of a group. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/store/net.h"
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"
#include "tests/helpers/ranks.h"

static Collective last; // the latest call
static long last_wait = -1; // the latest ticket waited for

static long record(void *state, const Collective *collective)
{
    (void)state;
    last = *collective;
    return (long)collective->op_id;
}

static void record_wait(void *state, long ticket)
{
    (void)state;
    last_wait = ticket;
}

static void record_end(void *state, ProcessGroup *pg)
{
    (void)state, (void)pg;
    last = (Collective){ .pg = NULL };
}

static const Backend recorder = {
    .name = "recorder", .start = record, .wait = record_wait, .destroy = record_end
};

static ProcessGroup group_of(int rank, int world_size)
{
    return (ProcessGroup){ .rank = rank, .world_size = world_size, .backend = &recorder };
}

/* Checks the latest call, and that a blocking one has been waited for. */
static void expect(const ProcessGroup *pg, CollectiveKind kind, ReduceOp op, int root,
                   const void *in, const void *out, Work *work)
{
    static uint64_t sequence;
    const bool counts = kind != SEND && kind != RECV;
    const uint64_t op_id = pg->calls.count - 1;
    sequence = op_id == 0 ? 0 : sequence;
    if (last.kind != kind || last.op != op || last.root != root || last.in != in ||
        last.out != out || last.count != 5 || last.type != INT64 || last.pg != pg)
        fail_msg("%s is started with other values", collective_name(kind));
    assert_int_equal(last.op_id, op_id);
    assert_int_equal(last.sequence, sequence);
    assert_int_equal(last.async, work != NULL);
    assert_int_equal(last_wait, work != NULL ? (long)op_id - 1 : (long)op_id);
    if (work != NULL)
        work_wait(*work);
    assert_int_equal(last_wait, op_id);
    sequence += counts;
    assert_int_equal(pg->sequence, sequence);
}

static void test_every_call_as_the_backend_gets_it(void **state)
{
    (void)state;
    ProcessGroup pg = group_of(1, 4);
    char a, b;
    Work work;
    last_wait = -1;
    all_reduce(&pg, &a, 5, INT64, REDUCE_MAX);
    expect(&pg, ALL_REDUCE, REDUCE_MAX, 0, &a, &a, NULL);
    broadcast(&pg, &a, 5, INT64, 3);
    expect(&pg, BROADCAST, 0, 3, &a, &a, NULL);
    reduce(&pg, &a, 5, INT64, REDUCE_MIN, 2);
    expect(&pg, REDUCE, REDUCE_MIN, 2, &a, &a, NULL);
    gather(&pg, &a, &b, 5, INT64, 3);
    expect(&pg, GATHER, 0, 3, &a, &b, NULL);
    all_gather(&pg, &a, &b, 5, INT64);
    expect(&pg, ALL_GATHER, 0, 0, &a, &b, NULL);
    scatter(&pg, &a, &b, 5, INT64, 3);
    expect(&pg, SCATTER, 0, 3, &a, &b, NULL);
    reduce_scatter(&pg, &a, &b, 5, INT64, REDUCE_MEAN);
    expect(&pg, REDUCE_SCATTER, REDUCE_MEAN, 0, &a, &b, NULL);
    pg_send(&pg, &a, 5, INT64, 2);
    expect(&pg, SEND, 0, 2, &a, NULL, NULL);
    pg_recv(&pg, &b, 5, INT64, 3);
    expect(&pg, RECV, 0, 3, NULL, &b, NULL);

    work = all_reduce_async(&pg, &a, 5, INT64, REDUCE_MAX);
    expect(&pg, ALL_REDUCE, REDUCE_MAX, 0, &a, &a, &work);
    work = broadcast_async(&pg, &a, 5, INT64, 3);
    expect(&pg, BROADCAST, 0, 3, &a, &a, &work);
    work = reduce_async(&pg, &a, 5, INT64, REDUCE_MIN, 2);
    expect(&pg, REDUCE, REDUCE_MIN, 2, &a, &a, &work);
    work = all_gather_async(&pg, &a, &b, 5, INT64);
    expect(&pg, ALL_GATHER, 0, 0, &a, &b, &work);
    work = reduce_scatter_async(&pg, &a, &b, 5, INT64, REDUCE_MEAN);
    expect(&pg, REDUCE_SCATTER, REDUCE_MEAN, 0, &a, &b, &work);

    barrier(&pg);
    assert_int_equal(last.kind, BARRIER);
    assert_int_equal(last.count + (size_t)last.type + (size_t)last.op + (size_t)last.root, 0);
    assert_false(last.async);
    assert_non_null(last.in); // an empty array is none that is NULL
    assert_non_null(last.out);
    assert_true(all_reduce_scalar(&pg, 2.5, REDUCE_MIN) == 2.5);
    assert_int_equal(last.count, 1);
    assert_int_equal(last.type, FLOAT64);
    assert_int_equal(last.op, REDUCE_MIN);
}

/* The largest count that a call of two ranks may have, and a larger one; ranks and peers. */
static void call(const void *context)
{
    const Collective *wanted = context;
    ProcessGroup pg = group_of(0, 2);
    static char data[1];
    if (wanted->kind == SEND)
        pg_send(&pg, data, wanted->count, wanted->type, wanted->root);
    else
        broadcast(&pg, data, wanted->count, wanted->type, wanted->root);
}

static void test_calls_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        Collective call;
        const char *error; // or NULL
    } cases[] = {
        { { .kind = BROADCAST, .type = UINT8, .count = SIZE_MAX / 2 }, NULL },
        { { .kind = BROADCAST, .type = UINT8, .count = SIZE_MAX / 2 + 1 }, "no memory is that" },
        { { .kind = BROADCAST, .type = INT64, .count = SIZE_MAX / 16 }, NULL },
        { { .kind = BROADCAST, .type = INT64, .count = SIZE_MAX / 8 + 2 }, "no memory is that" },
        { { .kind = BROADCAST, .root = 1 }, NULL },
        { { .kind = BROADCAST, .root = 2 }, "there is no rank 2: ranks are numbered from 0 to 1" },
        { { .kind = BROADCAST, .root = -1 }, "there is no rank -1" },
        { { .kind = SEND, .root = 1 }, NULL },
        { { .kind = SEND, .root = 0 }, "send #0 of 0 float32 to rank 0: that is this rank itself" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        if (cases[i].error == NULL)
            assert_int_equal(child_run(call, &cases[i].call), 0);
        else
            assert_dies_saying(call, &cases[i].call, 1, cases[i].error);
}

static void count_call(void *calls)
{
    ++*(int *)calls;
}

/* Only a backend that can, and not for one rank. */
static void test_keep_alive(void **state)
{
    (void)state;
    int calls = 0;
    const Backend able = { .keep_alive = count_call }, unable = { 0 };
    ProcessGroup pg = { .world_size = 2, .backend = &able, .state = &calls };
    process_group_keep_alive(&pg);
    assert_int_equal(calls, 1);
    process_group_keep_alive(&(ProcessGroup){ .world_size = 1, .parent = &pg });
    assert_int_equal(calls, 2);
    pg.world_size = 1;
    process_group_keep_alive(&pg);
    pg = (ProcessGroup){ .world_size = 2, .backend = &unable };
    process_group_keep_alive(&pg);
    assert_int_equal(calls, 2);
}

/* What extras/staging is asked, in place of the backend if a group has it. */
struct Staging {
    CollectiveKind started;
    long waited;
};

long __wrap_staging_start(struct Staging *staging, const Collective *collective);
void __wrap_staging_wait(struct Staging *staging, long ticket);
void __wrap_staging_free(struct Staging *staging);
void __wrap_group_extras_leaving(ProcessGroup *pg);

long __wrap_staging_start(struct Staging *staging, const Collective *collective)
{
    staging->started = collective->kind;
    return 77;
}

void __wrap_staging_wait(struct Staging *staging, long ticket)
{
    staging->waited = ticket;
}

void __wrap_staging_free(struct Staging *staging)
{
    staging->waited = -2;
}

void __wrap_group_extras_leaving(ProcessGroup *pg)
{
    (void)pg;
}

static void test_calls_that_are_staged(void **state)
{
    (void)state;
    struct Staging staging = { .waited = -1 };
    Store store = { .fd = -1 };
    ProcessGroup pg = group_of(0, 2), part = group_of(0, 2);
    pg.staging = &staging;
    part.parent = &pg;
    float number;
    last = (Collective){ .pg = &pg, .kind = BARRIER };
    last_wait = -1;
    work_wait(broadcast_async(&part, &number, 1, FLOAT32, 0));
    assert_int_equal(staging.started, BROADCAST);
    assert_int_equal(staging.waited, 77);
    assert_true(last.kind == BARRIER && last_wait == -1);
    pg.store = &store; // which is its caller's
    process_group_destroy(&pg);
    assert_int_equal(staging.started, BARRIER);
    assert_int_equal(staging.waited, -2);
    assert_null(last.pg); // the backend's destroy came last
}

static void test_rank_lists(void **state)
{
    (void)state;
    const struct {
        const char *has, *text;
    } cases[] = {
        { "x", "rank 0" },
        { "..x", "rank 2" },
        { "xx", "ranks 0 and 1" },
        { "xxx", "ranks 0 to 2" },
        { "x.xx.xxxx", "ranks 0, 2, 3 and 5 to 8" },
        { "xxx.xx", "ranks 0 to 2, 4 and 5" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool *has = mem_calloc(strlen(cases[i].has), sizeof *has); // ends where a page does
        char text[RANK_LIST_BYTES];
        const int n = (int)strlen(cases[i].has);
        for (int rank = 0; rank < n; rank++)
            has[rank] = cases[i].has[rank] == 'x';
        assert_string_equal(rank_list(has, n, text), cases[i].text);
        free(has);
    }
    bool many[4000];
    for (int rank = 0; rank < 4000; rank++)
        many[rank] = rank % 2 == 0;
    char text[RANK_LIST_BYTES];
    assert_int_equal(strlen(rank_list(many, 4000, text)), RANK_LIST_BYTES - 1); // cut off
}

/* ---- subgroups ---- */

static void test_subgroups(void **state)
{
    (void)state;
    ProcessGroup pg = group_of(4, 8), part, inner;
    pg.timeout = 7;
    pg.number = 3;
    const long before = num_arrays;
    process_group_new(&part, &pg, (int[]){ 2, 4, 6 }, 3, "part");
    process_group_new(&inner, &part, (int[]){ 2, 1 }, 2, "inner");
    assert_int_equal(part.rank, 1);
    assert_int_equal(part.world_size, 3);
    assert_int_equal(part.mean_ranks, 3);
    assert_int_equal(part.number, 3);
    assert_true(part.timeout == 7);
    assert_int_equal(inner.rank, 1);
    assert_int_equal(process_group_global_rank(&inner, 0), 6);
    assert_int_equal(process_group_global_rank(&inner, 1), 4);
    assert_int_equal(process_group_global_rank(&pg, 5), 5);
    assert_ptr_equal(process_group_root(&inner), &pg);
    assert_ptr_equal(process_group_root(&pg), &pg);

    char data;
    broadcast(&inner, &data, 1, UINT8, 0);
    broadcast(&part, &data, 1, UINT8, 0);
    broadcast(&inner, &data, 1, UINT8, 0);
    assert_int_equal(last.op_id, 2); // of all groups
    assert_int_equal(last.sequence, 1); // of this one
    char text[DESCRIPTION_BYTES];
    assert_string_equal(collective_describe(&last, text),
                        "broadcast #1 of 1 uint8 from rank 6 in group \"inner\"");
    subgroup_free(&inner);
    subgroup_free(&part);
    assert_int_equal(num_arrays, before);
}

static void name_group(const void *name)
{
    ProcessGroup pg = group_of(0, 1), part;
    process_group_new(&part, &pg, (int[]){ 0 }, 1, name);
    CHECK(strcmp(part.name, name) == 0, "named %s", part.name);
}

static void observe_part(const void *context)
{
    (void)context;
    ProcessGroup pg = group_of(0, 1), part = { .parent = &pg };
    process_group_observe(&part, &(Observer){ 0 });
}

static void test_what_a_subgroup_may_not(void **state)
{
    (void)state;
    char name[GROUP_NAME_BYTES + 1] = "";
    memset(name, 'n', GROUP_NAME_BYTES - 1);
    assert_int_equal(child_run(name_group, name), 0);
    memset(name, 'n', GROUP_NAME_BYTES);
    assert_dies_saying(name_group, name, 1, "groups within groups go no deeper than");
    assert_dies_saying(observe_part, NULL, 1, "is for the group of all ranks");
}

/* ---- limits ---- */

/* Where the store is. */
typedef struct {
    const char *host;
    int port;
    const char *error;
} Master;

static void open_group(const void *context)
{
    const Master *master = context;
    const Args args = { .backend = BACKEND_TCP, .timeout = 0.02 };
    ProcessGroup pg;
    process_group_open(&pg, &args, master->host, master->port, 1, 2, (MemoryLocation){ 0 });
}

static void test_where_the_master_is(void **state)
{
    (void)state;
    static const char wrong[] = "it must be one from 1 to 65535, the same on all ranks";
    static const Master masters[] = {
        { NULL, 29500, "MASTER_ADDR is not set: on several nodes" },
        { "127.0.0.1", -1, wrong },
        { "127.0.0.1", 0, wrong },
        { "127.0.0.1", 65536, wrong },
        { "127.0.0.1", 1, "no store at 127.0.0.1:1 within 0.02 s" },
        { "127.0.0.1", 65535, "no store at 127.0.0.1:65535 within 0.02 s" },
    };
    for (size_t i = 0; i < LENGTH(masters); i++)
        assert_dies_saying(open_group, &masters[i], 1, masters[i].error);
}

/* Rank 0 serves the store. Both may open as many files as context says. */
static void few_descriptors_body(Rank *rank)
{
    const rlim_t most = *(const rlim_t *)rank->context;
    int port = 0;
    if (rank->rank == 0) {
        port = net_free_port();
        store_set(&rank->store, "port", &port, sizeof port);
    }
    store_get(&rank->store, "port", &port, sizeof port);
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most, most }));
    ProcessGroup pg;
    process_group_init(&pg, &rank->args, "127.0.0.1", port, rank->rank, 2, (MemoryLocation){ 0 });
    process_group_destroy(&pg);
}

/* Here another process serves the store, so rank 0 needs no more than the others. */
static void served_body(Rank *rank)
{
    const rlim_t most = *(const rlim_t *)rank->context;
    ProcessGroup pg;
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most, most }));
    rank_join(rank, &pg);
    process_group_destroy(&pg);
}

static void test_rank_0_has_room_for_all(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, few_descriptors_body, &(rlim_t){ 2 * 64 + 4 * 2 - 1 }, end);
    expect_error(end, 0, "2 ranks take 136 descriptors here, and a process may open 135: raise");
    expect_error(end, 1, "rank 0 gives up: it may open too few files and connections (ulimit -n)");
    ranks_run_well(2, few_descriptors_body, &(rlim_t){ 2 * 64 + 4 * 2 });
    ranks_run_well(2, served_body, &(rlim_t){ 2 * 64 + 4 * 2 - 1 });
}

/* Every option that all ranks must share is in a rank's line. */
static void line_body(Rank *rank)
{
    ProcessGroup pg;
    args_defaults(&rank->args, "cnn");
    rank->args.backend = BACKEND_TCP;
    rank_join(rank, &pg);
    static const char begin[] = "rank 0 has --backend tcp, --device cpu, 1 ranks, --";
    CHECK(strncmp(pg.options, begin, strlen(begin)) == 0, "it begins with %.60s", pg.options);
    const char *at = pg.options + strlen(begin) - strlen(", --");
    for (const Option *option = args_options; option->name != NULL; option++) {
        if (option->scope == OF_RANK || option->kind == OPTION_ACTION)
            continue;
        char text[64];
        const int length = snprintf(text, sizeof text, ", --%s ", option->name);
        CHECK(strncmp(at, text, (size_t)length) == 0, "%s is not at the front of %s", text, at);
        const char *next = strstr(at + length, ", --");
        at = next != NULL ? next : at + strlen(at);
    }
    CHECK(*at == '\0', "%s", at);
    process_group_destroy(&pg);
}

static void test_the_line_has_all_shared_options(void **state)
{
    (void)state;
    ranks_run_well(1, line_body, NULL);
}

/* As the C library's, for names of any length. */
int gethostname(char *name, size_t bytes)
{
    CHECK(bytes == 63, "%zu bytes for a name, of 64", bytes);
    memset(name, 'n', bytes);
    return 0;
}

/* Two processes take rank 1 of three. */
static void twice_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 2) {
        store_wait(&rank->store, "group 0/process of rank 1");
        rank->rank = 1;
    }
    rank->args.timeout = 1;
    rank_join(rank, &pg);
}

static void test_a_rank_is_taken_once(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, twice_body, NULL, end);
    char host[64] = "", text[160];
    memset(host, 'n', sizeof host - 1);
    snprintf(text, sizeof text,
             " on %s is rank 1 already: every rank needs a number of its own (RANK)", host);
    expect_error(end, 2, text);
    assert_null(strstr(end[1].errors, "already"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_as_the_backend_gets_it),
        cmocka_unit_test(test_calls_that_make_no_sense),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_calls_that_are_staged),
        cmocka_unit_test(test_rank_lists),
        cmocka_unit_test(test_subgroups),
        cmocka_unit_test(test_what_a_subgroup_may_not),
        cmocka_unit_test(test_where_the_master_is),
        cmocka_unit_test(test_rank_0_has_room_for_all),
        cmocka_unit_test(test_the_line_has_all_shared_options),
        cmocka_unit_test(test_a_rank_is_taken_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
