/* How the launcher parses torchrun's flags. tests/steps/ddprun.bats tests errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/elastic_group.h"
#include "tests/helpers/unit.h"

#define PARSE(flags, ...) \
    do { \
        char *words[] = { "ddprun", __VA_ARGS__, NULL }; \
        flags_parse(flags, &more_flags, sizeof words / sizeof words[0] - 1, words); \
    } while (0)

static void test_defaults(void **state)
{
    (void)state;
    Flags flags, other;
    PARSE(&flags, "train");
    PARSE(&other, "train");
    assert_int_equal(flags.nproc_per_node, 1);
    assert_int_equal(flags.min_nodes, 1);
    assert_int_equal(flags.max_nodes, 1);
    assert_string_equal(flags.master_addr, "127.0.0.1");
    assert_int_equal(flags.master_port, 0);
    assert_int_equal(flags.max_restarts, 0);
    assert_true(flags.monitor_interval == 0.1);
    assert_true(flags.shutdown_timeout == 30);
    assert_true(flags.join_timeout == 900);
    assert_string_equal(flags.role, "default");
    assert_null(flags.log_dir);
    assert_string_equal(flags.command[0], "train");
    assert_null(flags.command[1]);
    assert_int_equal(strlen(flags.run_id), 36); // a UUID
    assert_string_not_equal(flags.run_id, other.run_id);
    flags_free(&flags);
    flags_free(&other);
}

static void test_who_serves_the_store(void **state)
{
    (void)state;
    Flags flags;
    PARSE(&flags, "--nnodes", "2", "x");
    assert_int_equal(flags.master_port, 29500);
    assert_string_equal(flags.run_id, "none");
    flags_free(&flags);
    PARSE(&flags, "--master-addr=h", "--master-port=7", "x");
    assert_string_equal(flags.master_addr, "h");
    assert_int_equal(flags.master_port, 7);
    assert_string_equal(flags.run_id, "none");
    flags_free(&flags);

    const struct {
        const char *endpoint, *host;
        int port;
    } cases[] = {
        { "h", "h", 29500 },
        { "h:1234", "h", 1234 },
        { "10.0.0.1:65535", "10.0.0.1", 65535 },
        { "[::1]:1234", "::1", 1234 },
        { "[fe80::1]", "fe80::1", 29500 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        PARSE(&flags, "--nnodes=2", "--rdzv-endpoint", (char *)cases[i].endpoint, "x");
        assert_string_equal(flags.master_addr, cases[i].host);
        assert_int_equal(flags.master_port, cases[i].port);
        flags_free(&flags);
    }
    PARSE(&flags, "--nnodes=2", "--master-addr", "[::1]", "x");
    assert_string_equal(flags.master_addr, "::1");
    flags_free(&flags);
    PARSE(&flags, "--standalone", "--rdzv-backend=etcd", "--rdzv-endpoint=h:1", "x");
    assert_string_equal(flags.master_addr, "127.0.0.1");
    assert_int_equal(flags.master_port, 0);
    flags_free(&flags);
}

static void test_nodes_that_come_and_go(void **state)
{
    (void)state;
    const struct {
        char *words[3];
        int min, max, port;
        bool elastic;
    } cases[] = {
        { { "--nnodes=1:2", "--rdzv-endpoint=h", "x" }, 1, 2, 29400, true },
        { { "--nnodes=2:2", "--rdzv-endpoint=h", "x" }, 2, 2, 29500, false },
        { { "--nnodes=1:1", "--rdzv-endpoint=h:7", "x" }, 1, 1, 7, false },
        { { "--nnodes=1:4096", "--rdzv-endpoint=h:7", "--master-port=8" }, 1, 4096, 7, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Flags flags;
        PARSE(&flags, cases[i].words[0], cases[i].words[1], cases[i].words[2], "x");
        assert_int_equal(flags.min_nodes, cases[i].min);
        assert_int_equal(flags.max_nodes, cases[i].max);
        assert_int_equal(flags.master_port, cases[i].port);
        assert_int_equal(flags.elastic, cases[i].elastic);
        flags_free(&flags);
    }
    Flags flags;
    PARSE(&flags, "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "x");
    assert_true(flags.elastic);
    assert_true(flags.join_timeout == 600);
    assert_true(flags.last_call_timeout == 30);
    assert_int_equal(flags.is_host, -1);
    flags_free(&flags);
    PARSE(&flags, "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h",
          "--rdzv-conf=timeout=1,last_call_timeout=2.5,is_host=1,keep_alive_max_attempt=9", "x");
    assert_true(flags.join_timeout == 1);
    assert_true(flags.last_call_timeout == 2.5);
    assert_int_equal(flags.is_host, 1);
    assert_int_equal(flags.heartbeat_limit, 9);
    flags_free(&flags);
    PARSE(&flags, "--nnodes=2", "--rdzv-conf=join_timeout=7,keep_alive_interval=2", "x");
    assert_true(flags.join_timeout == 7);
    assert_true(flags.heartbeat_interval == 2);
    flags_free(&flags);
    // From PyTorch's own tests.
    PARSE(&flags, "--nnodes=1:2", "--nproc-per-node=4", "--rdzv-backend=c10d",
          "--rdzv-endpoint=localhost:7",
          "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=4'", "--rdzv-id=7",
          "--monitor-interval=1", "--start-method=spawn", "x");
    assert_true(flags.join_timeout == 4);
    assert_true(flags.last_call_timeout == 1);
    flags_free(&flags);
}

/* Removes the flag variables of the environment that runs the tests. */
static void clear_flag_variables(void)
{
    extern char **environ;
    for (char **variable = environ; *variable != NULL;) {
        char name[64] = "";
        sscanf(*variable, "%63[^=]", name);
        const bool ours =
            strncmp(name, "PET_", 4) == 0 || strncmp(name, "TORCH", strlen("TORCH")) == 0;
        if (ours && unsetenv(name) == 0)
            variable = environ; // restarts, because the list has moved
        else
            variable++;
    }
}

static void test_variables(void **state)
{
    (void)state;
    Flags flags;
    setenv("PET_NNODES", "2:4", 1);
    setenv("PET_RDZV_ENDPOINT", "h", 1);
    setenv("PET_MAX_RESTARTS", "5", 1);
    setenv("PET_RDZV_CONF", "timeout=1,join_timeout=7.5,keep_alive_interval=2", 1);
    setenv("PET_ROLE", "", 1);
    setenv("PET_NO_PYTHON", "0", 1);
    setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "4", 1);
    PARSE(&flags, "--max-restarts=6", "a.py");
    assert_int_equal(flags.min_nodes, 2);
    assert_int_equal(flags.max_nodes, 4);
    assert_int_equal(flags.max_restarts, 6);
    assert_true(flags.join_timeout == 7.5);
    assert_true(flags.heartbeat_interval == 2);
    assert_string_equal(flags.role, "default");
    assert_true(flags.shutdown_timeout == 4);
    assert_string_equal(flags.command[0], "python3");
    flags_free(&flags);

    setenv("PET_NO_PYTHON", "1", 1);
    PARSE(&flags, "a.py");
    assert_string_equal(flags.command[0], "a.py");
    flags_free(&flags);
    clear_flag_variables();
}

static void test_command(void **state)
{
    (void)state;
    Flags flags;
    PARSE(&flags, "-m", "--pass_local_rank", "pkg.mod", "--nnodes", "9");
    const char *const words[] = { "python3",  "-u", "-m", "pkg.mod", flags.local_rank_argument,
                                  "--nnodes", "9" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_string_equal(flags.command[i], words[i]);
    assert_null(flags.command[sizeof words / sizeof words[0]]);
    assert_ptr_equal(flags.command[4], flags.local_rank_argument);
    assert_string_equal(flags.program, "pkg.mod");
    assert_int_equal(flags.max_nodes, 1);
    flags_free(&flags);
}

int main(void)
{
    clear_flag_variables();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_who_serves_the_store),
        cmocka_unit_test(test_nodes_that_come_and_go),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
