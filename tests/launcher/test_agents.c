/* Two launchers of one job that have lost their connection. */
#include <signal.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "launcher/launch.h"
#include "launcher/node_assignment.h"
#include "tests/helpers/child.h"

#define SECONDS 300 // limit for both to end; child.h kills them at 600

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
                      "keep_alive_interval=0.2,keep_alive_max_attempt=300",
                      "sleep",
                      NULL };
    flags_parse(flags, NULL, sizeof words / sizeof words[0] - 1, words);
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
    join(&agents, &flags, "1");
    shutdown(agents.store.fd, SHUT_RDWR);
    end(&agents);
}

/* A node that cannot report its end must exit, or all nodes would wait for it forever. */
static void test_cannot_say_done(void **state)
{
    (void)state;
    port = net_free_port();
    FILE *other = tmpfile();
    const pid_t node_0 = child_start(run_node_0, NULL, fileno(other), fileno(other));
    assert_int_equal(child_run(run_node_1, NULL), 0);
    assert_string_equal(out, "node 0 is out of reach\n");
    assert_int_equal(child_wait(node_0), 0);
    char text[1000] = "";
    rewind(other);
    text[fread(text, 1, sizeof text - 1, other)] = '\0';
    assert_non_null(strstr(text, "node 1 has "));
    fclose(other);
}

static void join_only(const void *context)
{
    (void)context;
    static Flags flags;
    Agents agents;
    join(&agents, &flags, "1");
}

static void fail_node_0(const void *context)
{
    (void)context;
    static Flags flags;
    Agents agents;
    Failure failure;
    join(&agents, &flags, "0");
    failure_of_launcher(&failure, 0, EXIT_FAILURE, "no space left");
    agents_fail(&agents, &failure);
    agents_leave(&agents);
}

static void run_done_node_1(const void *context)
{
    (void)context;
    static Flags flags;
    Agents agents;
    join(&agents, &flags, "1");
    agents_done(&agents, false);
    const double deadline = seconds_now() + SECONDS;
    while (!agents.heartbeat_over && seconds_now() < deadline)
        usleep(10000);
    shutdown(agents.store.fd, SHUT_RDWR); // as if node 0 was killed before it could be asked
    end(&agents);
}

/* A node that is done, and can no longer ask how the others ended, does not take it for a success:
 * the node that saves the result may have failed. */
static void test_cannot_ask_how_it_ended(void **state)
{
    (void)state;
    port = net_free_port();
    FILE *other = tmpfile();
    const pid_t node_0 = child_start(fail_node_0, NULL, fileno(other), fileno(other));
    assert_int_equal(child_run(run_done_node_1, NULL), 0);
    assert_string_equal(out, "a node failed, and node 0 is gone\n");
    assert_int_equal(child_wait(node_0), 0);
    fclose(other);
}

/* Node 0 assigns ranks that no node can have. */
static void test_impossible_ranks(void **state)
{
    (void)state;
    static const char *const answers[] = { "[3, 3, 0, 1]", "[-1, 3, 0, 1]", "[1, 3, 1]", "{}" };
    for (size_t i = 0; i < LENGTH(answers); i++) {
        port = 0;
        StoreServer *node_0 = store_server_start("localhost", &port, NULL);
        Store store;
        assert_true(store_connect(&store, "localhost", port, SECONDS));
        store_set(&store, "none/torchelastic/assigned_ranks/1", answers[i], strlen(answers[i]));
        store_ping(&store);
        assert_dies_saying(join_only, NULL, 1, "node 0 gives nonsense for ranks: ", answers[i]);
        store_free(&store);
        store_server_stop(node_0);
    }
}

/* Another program has the port: no node waits for it to become a store. */
static void test_another_program_at_the_port(void **state)
{
    (void)state;
    port = 0;
    const int listener = net_listen("localhost", &port);
    const pid_t program = fork();
    if (program == 0) {
        alarm(600);
        for (char byte;;) {
            const int fd = net_accept(listener, seconds_now() + SECONDS);
            net_recv(fd, &byte, 1, seconds_now() + SECONDS);
            net_send(fd, "HTTP/1.1 400", 12, seconds_now() + SECONDS);
        }
    }
    close(listener);
    assert_dies_saying(join_only, NULL, 1, "no store of node 0 at localhost:",
                       "(what answers there is no store): are --master-addr and --master-port");
    kill(program, SIGKILL);
    child_wait(program);
}

/* Node 0's assignments to elastic nodes: each number at its limits and one beyond. */
static void test_impossible_assignments(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_possible;
    } cases[] = {
        { "[1, 2, 1, 0, 1, 0, 1, 0, 0, \"h\"]", true },
        { "[4095, 4096, 65535, 3, 4, 2, 3, 9, 9, \"h\"]", true },
        { "[0, 2, 1, 0, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[2, 2, 1, 0, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[1, 4097, 1, 0, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 0, 0, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 65536, 0, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 1, -1, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 1, 1, 1, 0, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 1, 0, 1, -1, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 1, 0, 1, 1, 1, 0, 0, \"h\"]", false },
        { "[1, 2, 1, 0, 1, 0, 1, -1, 0, \"h\"]", false },
        { "[1, 2, 1, 0, 1, 0, 1, 0, -1, \"h\"]", false },
        { "[1, 2, 1, 0, 1, 0, 1, 0, \"h\"]", false },
        { "[1, 2, 1, 0, 1, 0, 1, 0, 0, \"\"]", false },
        { "[1, 2, 1, 0, 1, 0, 1, 0, 0]", false },
        { "{\"status\": 0, \"reason\": \"\"}", true },
        { "{\"status\": 255, \"reason\": \"over\"}", true },
        { "{\"status\": 256, \"reason\": \"\"}", false },
        { "{\"status\": -1, \"reason\": \"\"}", false },
        { "{\"status\": 0}", false },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        Assignment assignment;
        const char *text = cases[i].text;
        if (assignment_decode(&assignment, text, strlen(text)) != cases[i].is_possible)
            fail_msg("%s is %s", text, cases[i].is_possible ? "refused" : "taken");
    }
}

/* An assignment, and the end of a job, arrive as they are sent. */
static void test_assignments_arrive(void **state)
{
    (void)state;
    static const Assignment sent[] = {
        { 5, 9, "alpha", 29500, { 10, 18, 3, 7 }, 2, 1, .is_over = false },
        { .is_over = true, .status = 75, .reason = "a b\xc3\xa4" },
    };
    for (size_t i = 0; i < LENGTH(sent); i++) {
        Assignment got;
        char *text = assignment_encode(&sent[i]);
        assert_true(assignment_decode(&got, text, strlen(text)));
        assert_memory_equal(&got, &sent[i], sizeof got);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cannot_say_done),
        cmocka_unit_test(test_cannot_ask_how_it_ended),
        cmocka_unit_test(test_impossible_ranks),
        cmocka_unit_test(test_another_program_at_the_port),
        cmocka_unit_test(test_impossible_assignments),
        cmocka_unit_test(test_assignments_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
