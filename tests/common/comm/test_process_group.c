/* How a group forms and ends: absent or disagreeing ranks are named, and nothing is left behind. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/store/net.h"
#include "tests/helpers/exact.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

/* The line with which a rank announces itself; its content is tested elsewhere. */
static const char LINE[] = "rank 0 has --backend tcp, --device cpu, 4 ranks";

static double most_seconds = 1e9; // that a rank may wait for the others

bool __real_store_try_wait(Store *store, const char *key, double seconds);
bool __wrap_store_try_wait(Store *store, const char *key, double seconds);

bool __wrap_store_try_wait(Store *store, const char *key, double seconds)
{
    CHECK(seconds <= most_seconds || strstr(key, "/agreement ") == NULL, "it would wait for %g s",
          seconds);
    return __real_store_try_wait(store, key, seconds);
}

static int num_secret_checks;

void __wrap_store_check_secret(Store *store);

void __wrap_store_check_secret(Store *store)
{
    (void)store;
    num_secret_checks++;
}

static bool tells_backend; // and ends then, with the status of a usage error

/* The extras' functions, each of which belongs to one moment of a group; the latest three calls. */
static char moments[4] = "...";

static void note(char moment)
{
    memmove(moments, moments + 1, 2);
    moments[2] = moment;
}

void __real_group_extras_check(const ProcessGroup *pg, const Args *args);
void __wrap_group_extras_check(const ProcessGroup *pg, const Args *args);
void __real_group_extras_formed(ProcessGroup *pg, const Args *args);
void __wrap_group_extras_formed(ProcessGroup *pg, const Args *args);
void __real_group_extras_leaving(ProcessGroup *pg), __wrap_group_extras_leaving(ProcessGroup *pg);

void __wrap_group_extras_check(const ProcessGroup *pg, const Args *args)
{
    if (tells_backend)
        usage_error("chooses %s", pg->backend->name);
    note('c');
    __real_group_extras_check(pg, args);
}

void __wrap_group_extras_formed(ProcessGroup *pg, const Args *args)
{
    note(pg->state != NULL ? 'f' : '?');
    __real_group_extras_formed(pg, args);
}

void __wrap_group_extras_leaving(ProcessGroup *pg)
{
    note(pg->sequence == 0 ? 'l' : '?');
    __real_group_extras_leaving(pg);
}

/* Agrees on a free port for a store that rank 0 serves. */
static int agree_on_port(Rank *rank)
{
    int port = 0;
    if (rank->rank == 0) {
        port = net_free_port();
        store_set(&rank->store, "port", &port, sizeof port);
    }
    store_get(&rank->store, "port", &port, sizeof port);
    return port;
}

static void serve_by_rank_0(Rank *rank)
{
    const int port = agree_on_port(rank);
    store_free(&rank->store);
    store_init(&rank->store, "127.0.0.1", port, rank->rank == 0, 300);
}

/* Ranks 0 and 1 are present before the timeout of rank 0 begins, however late they are. If rank 0
 * serves the store, it takes it with it. Rank 1 would wait much longer. */
static void missing_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->context != NULL)
        serve_by_rank_0(rank);
    else if (rank->rank == 2)
        store_wait(&rank->store, "group 1/all left 0"); // the two that came
    if (rank->rank >= 2)
        return;
    if (rank->rank == 1)
        store_set(&rank->store, "group 1/line of rank 1", LINE, strlen(LINE));
    store_wait(&rank->store, "group 1/line of rank 1");
    rank->args.timeout = rank->rank == 0 ? 0.6 : 300;
    most_seconds = rank->args.timeout;
    rank_join(rank, &pg);
}

static void test_missing_ranks_are_named(void **state)
{
    (void)state;
    for (int served = 0; served < 2; served++) {
        RankEnd end[MAX_RANKS];
        ranks_run(4, missing_body, served ? "by rank 0" : NULL, end);
        expect_error_at_once(end, 0, "fatal: ranks 2 and 3 of 4 did not come within 0.6 s\n");
        expect_error_at_once(end, 1, "fatal: ranks 2 and 3 of 4 did not come within 0.6 s\n");
        assert_int_equal(end[2].status, 0);
    }
}

/* Rank 0 alone comes, and leaves at once: nobody else has to. */
static void alone_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.timeout = 0.2;
    if (rank->rank == 0)
        rank_join(rank, &pg);
    store_wait(&rank->store, "group 1/all left 0");
}

static void test_the_only_rank(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, alone_body, NULL, end);
    expect_error(end, 0, "fatal: rank 1 of 2 did not come within 0.2 s\n");
    assert_int_equal(end[1].status, 0);
}

static void late_body(Rank *rank)
{
    ProcessGroup pg;
    const long before = num_arrays;
    const bool is_late = rank->rank == *(const int *)rank->context;
    if (is_late)
        usleep((useconds_t)(1e6 * (STORE_QUIET_SECONDS + 1)));
    rank_join(rank, &pg);
    CHECK(num_secret_checks == !is_late, "%d checks", num_secret_checks);
    process_group_destroy(&pg);
    CHECK(num_arrays == before, "%ld arrays are left", num_arrays - before);
}

/* By rank 0, or by rank 1 if that is the one. */
static void test_a_long_wait_is_logged(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        RankEnd end[MAX_RANKS];
        char line[80];
        ranks_run(3, late_body, &late, end);
        snprintf(line, sizeof line, "waits for rank %d of 3, 300 s at most (--timeout)\n", late);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(end[rank].status, 0);
            assert_int_equal(strstr(end[rank].errors, line) != NULL, rank == !late);
        }
    }
}

static void disagreeing_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.check_collectives = rank->rank == 2;
    rank_join(rank, &pg);
}

static void other_size_body(Rank *rank)
{
    ProcessGroup pg;
    rank->world_size += rank->rank == 1;
    rank_join(rank, &pg);
}

/* Rank 1 answers with a line that this build would not have. */
static void other_answer_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 1) {
        store_set(&rank->store, "group 1/agreement 0", rank->context, strlen(rank->context));
        store_wait(&rank->store, "group 1/leaving 0"); // the mismatch has been detected
    } else {
        rank_join(rank, &pg);
    }
}

/* The store ends with rank 0, but only after all ranks know the reason. */
static void served_by_rank_0_body(Rank *rank)
{
    serve_by_rank_0(rank);
    if (rank->rank == 3)
        usleep(200 * 1000);
    disagreeing_body(rank);
}

/* Rank 3, not a member, sees the key that the last of three sets on leaving: no wait times out. */
static void seen_off_body(Rank *rank)
{
    if (rank->rank == 3)
        store_wait(&rank->store, "group 1/all left 0");
    rank->world_size = 3;
    if (rank->rank < 3)
        disagreeing_body(rank);
}

/* Rank 1 publishes a line, at this key, that is too long for rank 0's memory. */
static void long_line_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 0) {
        store_wait(&rank->store, rank->context);
        rank_join(rank, &pg);
    }
    char line[2 * OPTIONS_BYTES] = "rank 1 has ";
    memset(line + strlen(line), 'x', sizeof line - strlen(line));
    store_set(&rank->store, rank->context, line, sizeof line);
    store_ping(&rank->store);
}

static void test_lines_that_are_too_long(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        size_t bytes; // that rank 0 has for it
    } lines[] = { { "group 1/first line 0", OPTIONS_BYTES },
                  { "group 1/agreement 0", OPTIONS_BYTES },
                  { "group 0/process of rank 0", 96 } };
    for (int i = 0; i < 3; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, long_line_body, (void *)lines[i].key, end);
        expect_error(end, 0, "rank 1 has x");
        const char *line = strstr(end[0].errors, "rank 1 has x");
        assert_int_equal(strcspn(line, "x") + strspn(strchr(line, 'x'), "x"), lines[i].bytes - 1);
    }
}

static void test_disagreeing_ranks_are_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(4, seen_off_body, NULL, end);
    assert_int_equal(end[3].status, 0);
    for (int rank = 0; rank < 3; rank++) {
        expect_error_at_once(end, rank, "the ranks disagree: rank ");
        expect_error(end, rank, "has --check-collectives off, rank 2 has --check-collectives on\n");
    }
    ranks_run(4, served_by_rank_0_body, NULL, end);
    for (int rank = 0; rank < 4; rank++)
        expect_error_at_once(end, rank, "rank 2 has --check-collectives on");

    ranks_run(2, other_size_body, NULL, end);
    expect_error_at_once(end, 0, "the ranks disagree: rank 0 has 2 ranks, rank 1 has 3 ranks\n");
    expect_error_at_once(end, 1, "the ranks disagree: rank 0 has 2 ranks, rank 1 has 3 ranks\n");

    ranks_run(2, other_answer_body,
              "rank 1 has --backend mpi, --device cpu, 2 ranks, --check-collectives off", end);
    expect_error_at_once(end, 0, "rank 0 has --backend tcp, rank 1 has --backend mpi\n");
    ranks_run(2, other_answer_body, "rank 1 gives up", end);
    expect_error_at_once(end, 0, "fatal: rank 1 gives up\n");
}

/* Sets an option on rank 1. */
static void other_option_body(Rank *rank)
{
    const char *const *option = rank->context;
    args_defaults(&rank->args, "cnn");
    rank->args.backend = BACKEND_TCP;
    if (rank->rank == 1)
        option_set(args_option(option[0]), &rank->args, option[1], NULL);
    ProcessGroup pg;
    rank_join(rank, &pg);
    process_group_destroy(&pg);
}

/* Options that change the training or the calls must be equal on all ranks, and the error names the
 * option; other options may differ. */
static void test_other_options_are_named(void **state)
{
    (void)state;
    static const char *const changed[][3] = {
        { "seed", "2", "rank 0 has --seed 0, rank 1 has --seed 2\n" },
        { "lr", "0.5", "rank 0 has --lr 0.01, rank 1 has --lr 0.5\n" },
        { "dropout", "off", "rank 0 has --dropout on, rank 1 has --dropout off\n" },
        { "lr-schedule", "cosine", "--lr-schedule constant, rank 1 has --lr-schedule cosine\n" },
        { "max-steps", "9", "rank 0 has --max-steps 0, rank 1 has --max-steps 9\n" },
        { "init-from", "a", "rank 0 has --init-from none, rank 1 has --init-from FILE\n" },
    };
    static const char *const free[][2] = { { "threads", "1" },
                                           { "timeout", "200" },
                                           { "data-dir", "x" },
                                           { "checkpoint-dir", "y" },
                                           { "save-every", "3" } };
    RankEnd end[MAX_RANKS];
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        ranks_run(2, other_option_body, (void *)changed[i], end);
        expect_error_at_once(end, 0, changed[i][2]);
    }
    for (size_t i = 0; i < sizeof free / sizeof *free; i++)
        ranks_run_well(2, other_option_body, (void *)free[i]);
}

/* A rank that exits for a reason of its own reports that one, even if its store is gone. */
static void leaving_body(Rank *rank)
{
    shutdown(rank->store.fd, SHUT_RDWR);
    process_group_leave(&(ProcessGroup){ .store = &rank->store }, &rank->store, 2);
}

static void test_leaving_without_a_store(void **state)
{
    (void)state;
    ranks_run_well(1, leaving_body, NULL);
}

typedef struct {
    BackendKind backend;
    bool on_gpu;
    const char *text; // the backend, or why there is none
} Choice;

static void choice_body(Rank *rank)
{
    const Choice *choice = rank->context;
    ProcessGroup pg;
    rank->args.backend = choice->backend;
    tells_backend = true;
    setenv("OMPI_COMM_WORLD_RANK", "0", 1); // as mpirun's only rank
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    process_group_init_store(&pg, &rank->args, &rank->store, 0, 1,
                             (MemoryLocation){ .on_gpu = choice->on_gpu });
}

static void test_which_backend_is_chosen(void **state)
{
    (void)state;
    const bool has_nccl = backend_nccl.remedy == NULL;
    const char *no_nccl = "this program was built without nccl";
    const char *tcp = has_staging ? "chooses tcp" : "--backend tcp does not reach GPU memory";
    const Choice cases[] = {
        { BACKEND_GLOO, false, "--backend gloo is for beyond/gloo/train_gloo: here take tcp" },
        { BACKEND_MPI, false,
          backend_mpi.remedy == NULL ? "chooses mpi" : "built without mpi: install Open MPI" },
        { BACKEND_NCCL, false, has_nccl ? "needs --device cuda" : no_nccl },
        { BACKEND_NCCL, true, has_nccl ? "chooses nccl" : no_nccl },
        { BACKEND_AUTO, false, "chooses tcp" },
        { BACKEND_AUTO, true, has_nccl ? "chooses nccl" : tcp },
        { BACKEND_TCP, false, "chooses tcp" },
        { BACKEND_TCP, true, tcp },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(1, choice_body, (void *)&cases[i], end);
        assert_int_equal(end[0].status, 2);
        assert_non_null(strstr(end[0].errors, cases[i].text));
    }
}

static void wrong_rank_body(Rank *rank)
{
    ProcessGroup pg;
    process_group_init_store(&pg, &rank->args, &rank->store, *(const int *)rank->context, 2,
                             (MemoryLocation){ 0 });
}

static void test_wrong_ranks(void **state)
{
    (void)state;
    for (int rank = -1; rank <= 2; rank += 3) {
        RankEnd end[MAX_RANKS];
        char text[64];
        ranks_run(1, wrong_rank_body, &rank, end);
        snprintf(text, sizeof text, "rank %d in a group of 2: ranks are counted from 0", rank);
        expect_error(end, 0, text);
    }
}

static void two_groups_body(Rank *rank)
{
    for (int i = 0; i < 2; i++) {
        ProcessGroup pg;
        rank_join(rank, &pg);
        CHECK(strcmp(moments + 1, "cf") == 0, "the extras are called at %s", moments);
        process_group_destroy(&pg);
        CHECK(strcmp(moments, "cfl") == 0, "the extras are called at %s", moments);
    }
    log_info("done");
}

/* Whatever is logged took seconds, not the days since the machine was started. */
static void test_two_groups_after_each_other(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    setenv("DDP_LOG", "distributed", 1);
    ranks_run(3, two_groups_body, NULL, end);
    unsetenv("DDP_LOG");
    for (int rank = 0; rank < 3; rank++) {
        double seconds[2] = { -1, -1 };
        assert_non_null(strstr(end[rank].errors, "done"));
        const char *there = strstr(end[rank].errors, "all 3 ranks are there after ");
        const char *connected = strstr(end[rank].errors, "connected by tcp after ");
        assert_int_equal(there != NULL && connected != NULL, has_extras);
        if (!has_extras)
            continue;
        sscanf(there, "all 3 ranks are there after %lf s", &seconds[0]);
        sscanf(connected, "connected by tcp after %lf s", &seconds[1]);
        for (int i = 0; i < 2; i++)
            assert_true(seconds[i] >= 0 && seconds[i] < AT_ONCE);
    }
}

/* Rank 0 serves each group's store at one address; no rank may take the last store for the next. */
static void same_address_body(Rank *rank)
{
    const int port = agree_on_port(rank);
    const long before = num_arrays;
    for (int i = 0; i < 10; i++) {
        ProcessGroup pg;
        process_group_init(&pg, &rank->args, "127.0.0.1", port, rank->rank, rank->world_size,
                           (MemoryLocation){ 0 });
        CHECK(all_reduce_scalar(&pg, 1, REDUCE_SUM) == rank->world_size, "wrong sum");
        process_group_destroy(&pg);
        CHECK(num_arrays == before, "%ld arrays are left", num_arrays - before);
    }
}

static void test_groups_after_each_other_at_one_address(void **state)
{
    (void)state;
    ranks_run_well(4, same_address_body, NULL);
}

/* Groups end in any order, repeatedly, without a false alarm. */
static void ending_body(Rank *rank)
{
    for (int i = 0; i < 20; i++) {
        ProcessGroup pg;
        rank_join(rank, &pg);
        if (i % rank->world_size == rank->rank)
            usleep(5000);
        process_group_destroy(&pg);
    }
}

static void test_no_false_alarms_at_the_end(void **state)
{
    (void)state;
    ranks_run_well(4, ending_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_ranks_are_named),
        cmocka_unit_test(test_the_only_rank),
        cmocka_unit_test(test_a_long_wait_is_logged),
        cmocka_unit_test(test_disagreeing_ranks_are_named),
        cmocka_unit_test(test_lines_that_are_too_long),
        cmocka_unit_test(test_other_options_are_named),
        cmocka_unit_test(test_leaving_without_a_store),
        cmocka_unit_test(test_which_backend_is_chosen),
        cmocka_unit_test(test_wrong_ranks),
        cmocka_unit_test(test_two_groups_after_each_other),
        cmocka_unit_test(test_groups_after_each_other_at_one_address),
        cmocka_unit_test(test_no_false_alarms_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
