/* Two launchers of one job, one of which can no longer talk to the other. */
#include <sys/resource.h>

#include "common/base/log.h"
#include "common/dist/net.h"
#include "common/launch/agents.h"
#include "tests/child.h"

#define SECONDS 15 // until both must have ended; child.h kills them at 20

static int port;

static void join(Agents *agents, Flags *flags, const char *node_rank)
{
    char number[16];
    snprintf(number, sizeof number, "%d", port);
    char *words[] = { "ddprun",
                      "--nnodes",
                      "2",
                      "--node-rank",
                      (char *)node_rank,
                      "--master-addr",
                      "localhost",
                      "--master-port",
                      number,
                      "--rdzv-conf",
                      "keep_alive_interval=0.2",
                      "sleep",
                      NULL };
    flags_parse(flags, STEP_ENV, sizeof words / sizeof words[0] - 1, words);
    agents_join(agents, flags);
}

static void end(Agents *agents)
{
    const double deadline = seconds_now() + SECONDS;
    Verdict verdict = VERDICT_NONE;
    agents_done(agents, false);
    while (verdict == VERDICT_NONE && seconds_now() < deadline) {
        usleep(10000);
        verdict = agents_verdict(agents);
    }
    printf("%s\n", verdict == VERDICT_FAILED ? agents_root_cause(agents)->message
                                             : "not noticed, or no failure");
    fflush(stdout);
    agents_leave(agents);
}

static void run_node_0(const void *context)
{
    (void)context;
    static Flags flags;
    Agents agents;
    join(&agents, &flags, "0");
    end(&agents);
}

static void run_node_1(const void *context)
{
    (void)context;
    static Flags flags;
    Agents agents;
    if (getuid() == 0 && setuid(65534) != 0) // root may have any number of processes
        _exit(99);
    join(&agents, &flags, "1");
    if (setrlimit(RLIMIT_NPROC, &(struct rlimit){ 0, 0 }) != 0)
        _exit(98);
    end(&agents);
}

/* Else all nodes would wait for one that they take for busy, for ever. */
static void test_cannot_say_done(void **state)
{
    (void)state;
    close(net_listen("localhost", &port));
    FILE *other = tmpfile();
    const pid_t node_0 = child_start(run_node_0, NULL, fileno(other), fileno(other));
    assert_int_equal(child_run(run_node_1, NULL), 0);
    assert_string_equal(out, "node 0 is out of reach\n");
    assert_non_null(strstr(err, "cannot start a process that talks to node 0: "));
    assert_int_equal(child_wait(node_0), 0);
    char text[1000] = "";
    rewind(other);
    text[fread(text, 1, sizeof text - 1, other)] = '\0';
    assert_non_null(strstr(text, "node 1 has "));
    fclose(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cannot_say_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
