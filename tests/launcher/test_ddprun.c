/* Step 05's launcher as a whole, in children: the environment of its ranks, what its flags refuse,
 * and how jobs of one node, of fixed nodes and of elastic ones end. */
#define main ddprun_main
#include "05_fault_tolerance/ddprun.c"
#undef main

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/comfort.h"
#include "common/comm/store/net.h"
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

enum { MAX_WORDS = 32 };

/* A launcher in the background. */
typedef struct {
    pid_t pid;
    FILE *output;
} Running;

static char port[16], endpoint[32];

static void launch(const void *context)
{
    signal(SIGINT, SIG_DFL); // which a shell ignores for programs in the background
    char *words[MAX_WORDS] = { "ddprun" };
    int num_words = 1;
    for (const char *const *word = context; *word != NULL; word++)
        words[num_words++] = (char *)*word;
    const int status = ddprun_main(num_words, words);
    fflush(NULL);
    _exit(status);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define DDPRUN(...) child_run(launch, WORDS(__VA_ARGS__))
#define START(...) start_words(WORDS(__VA_ARGS__))
#define SCRIPT(text) "sh", "-c", text

static Running start_words(const char *const *words)
{
    Running node = { .output = tmpfile() };
    node.pid = child_start(launch, words, fileno(node.output), fileno(node.output));
    return node;
}

/* Waits for the launcher, which must end with this status, and returns what it has written. */
static char *end_with(Running *node, int status)
{
    static char text[OUTPUT_BYTES];
    const int ended = child_wait(node->pid);
    read_back(node->output, text);
    if (ended != status)
        fail_msg("ended with %d, not %d: %s", ended, status, text);
    return text;
}

/* Waits until the ranks have made this file. */
static void await_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int i = 0; access(path, F_OK) != 0; i++) {
        assert_true(i < 10000);
        usleep(10000);
    }
}

static void choose_port(void)
{
    snprintf(port, sizeof port, "%d", net_free_port());
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", port);
}

static int make_temporary_folder(void **state)
{
    choose_port();
    return make_folder(state) != 0 || setenv("TMPDIR", folder, 1) != 0;
}

#define ENVIRONMENT \
    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE " \
    "$GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $TORCHELASTIC_RUN_ID " \
    "$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_USE_AGENT_STORE " \
    "${TORCHELASTIC_ERROR_FILE##*/attempt_} $TORCHELASTIC_SIGNALS_TO_HANDLE $MASTER_PORT"

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(DDPRUN("--nproc-per-node", "3", "--role=r", "--rdzv-id", "job7",
                            "--max-restarts=2", "--master-port", port, SCRIPT(ENVIRONMENT)),
                     0);
    for (int rank = 0; rank < 3; rank++) {
        char line[256];
        snprintf(line, sizeof line,
                 "%d/3 %d/3 r %d/3 0/1 127.0.0.1 job7 0/2 True 0/%d/error.json "
                 "SIGTERM,SIGINT,SIGHUP,SIGQUIT %s\n",
                 rank, rank, rank, rank, port);
        assert_has(out, line);
    }
    assert_string_equal(err, "");
}

/* Which programs are handed to Python, and how. */
static void test_programs_of_python(void **state)
{
    (void)state;
    setenv("PYTHON_EXEC", "echo", 1);
    assert_int_equal(DDPRUN("--run-path", "a.py", "x"), 0);
    assert_string_equal(out, "-u -c import runpy, sys; sys.argv = sys.argv[1:]; "
                             "runpy.run_path(sys.argv[0], run_name='__main__') a.py x\n");
    assert_int_equal(DDPRUN("--module", "a.b", "x"), 0);
    assert_string_equal(out, "-u -m a.b x\n");
    char path[256], line[300];
    snprintf(path, sizeof path, "%s/text", folder);
    fclose(fopen(path, "w")); // nothing that the kernel would start
    assert_int_equal(DDPRUN(path, "x"), 0);
    snprintf(line, sizeof line, "-u %s x\n", path);
    assert_string_equal(out, line);
    unsetenv("PYTHON_EXEC");
    clear_folder(NULL);
}

/* How the first rank to fail ends the job. */
static void test_ends(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int status;
        const char *message, *timeout;
    } cases[] = {
        { "exit 0", 0, "", "300" },
        { "exit 75", 75, "", "300" },
        { "[ $RANK = 1 ] || exec sleep 1000; exit 7", 7, "exit status 7", "300" },
        { "[ $RANK = 1 ] || exec sleep 1000; kill -9 $$", 137, "SIGKILL", "300" },
        { "[ $RANK = 1 ] || exec sleep 1000; exit 75", 75, "exit status 75", "0.1" },
        { "[ $RANK = 1 ] || exit 0; exit 75", 75, "exit status 75", "300" },
        { "trap '' TERM; sleep 1000 & [ $RANK = 1 ] && exit 7; wait", 7, "exit status 7", "0.1" },
        { "sleep 1000 & exit 0", 0, "", "300" }, // ends what a rank leaves behind
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(DDPRUN("--nproc-per-node", "2", "--shutdown-timeout", cases[i].timeout,
                                SCRIPT(cases[i].script)),
                         cases[i].status);
        assert_has(err, cases[i].message);
        assert_int_equal(cases[i].message[0] == '\0', err[0] == '\0');
    }
    assert_int_equal(DDPRUN("./nosuch"), 127);
    assert_has(err, "cannot start ./nosuch: No such file or directory");
    assert_int_equal(DDPRUN("--no-python", "/"), 126);
    assert_has(err, "cannot start /: Permission denied");
}

/* Of workers that ended at once, a killed one is no consequence of the others; the first one counts
 * otherwise, and a stopped one last. */
static void test_who_failed(void **state)
{
    (void)state;
    static const struct {
        int status[3], signal[3], failed;
    } cases[] = {
        { { 7, 137, 134 }, { 0, 9, 6 }, 1 }, { { 7, 8, 0 }, { 0, 0, 0 }, 0 },
        { { 75, 0, 8 }, { 0, 0, 0 }, 2 },    { { 75, 0, 75 }, { 0, 0, 0 }, 2 },
        { { 75, 75, 75 }, { 0, 0, 0 }, -1 }, { { 0, 0, 0 }, { 0, 0, 0 }, -1 },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        Worker worker[3] = { 0 };
        for (int k = 0; k < 3; k++) {
            worker[k].status = cases[i].status[k];
            worker[k].signal = cases[i].signal[k];
        }
        const Workers workers = { .worker = worker, .num_workers = 3 };
        assert_ptr_equal(workers_failed(&workers, 300),
                         cases[i].failed < 0 ? NULL : &worker[cases[i].failed]);
    }
}

static void test_restarts(void **state)
{
    (void)state;
    assert_int_equal(
        DDPRUN("--max-restarts", "2", SCRIPT("echo $TORCHELASTIC_RESTART_COUNT; exit 3")), 3);
    assert_string_equal(out, "0\n1\n2\n");
    assert_has(err, "attempt 0: rank 0 on node 0 (");
    assert_has(err, "): exit status 3; restarting the group\n");
    assert_has(err, "attempt 1: rank 0 on node 0 (");
    assert_has(err, "Earlier attempts:\n  attempt 0: rank 0");
    assert_int_equal(
        DDPRUN("--max-restarts", "2",
               SCRIPT("echo $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]")),
        0);
    assert_string_equal(out, "0\n1\n");
    assert_null(strstr(err, "Earlier"));

    // What would fail again is not started again.
    static const char *const hopeless[] = {
        "echo $TORCHELASTIC_RESTART_COUNT; exit 2",
        "echo $TORCHELASTIC_RESTART_COUNT; echo '{\"message\": \"diverged\", \"restart\": false}' "
        ">$TORCHELASTIC_ERROR_FILE; exit 2",
    };
    for (size_t i = 0; i < LENGTH(hopeless); i++) {
        assert_int_equal(DDPRUN("--max-restarts", "2", SCRIPT(hopeless[i])), 2);
        assert_string_equal(out, "0\n");
    }
}

/* The launcher passes a request to end on to its ranks, and tells which signal ended the job. */
static void test_requests(void **state)
{
    (void)state;
    static const struct {
        const char *handled;
        int sent;
        const char *got, *status;
        int ends_with;
    } cases[] = {
        { "SIGTERM,SIGINT", SIGTERM, "TERM", "1", 128 + SIGTERM },
        { "SIGTERM,SIGUSR2", SIGUSR2, "USR2", "1", 128 + SIGUSR2 },
        { NULL, SIGINT, "INT", "75", 75 },
        { NULL, SIGUSR1, "USR1", "1", 128 + SIGUSR1 },
        { NULL, SIGUSR2, "TERM", "0", 0 },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        const char script[] = "for name in TERM INT USR1 USR2; do"
                              "    trap \"echo got $name; kill \\$!; exit $1\" $name; "
                              "done; sleep 1000 & touch $TMPDIR/up_$RANK; wait";
        const char *const words[] = { "--nproc-per-node",
                                      "2",
                                      "--signals-to-handle",
                                      cases[i].handled,
                                      "sh",
                                      "-c",
                                      script,
                                      "rank",
                                      cases[i].status,
                                      NULL };
        const char *const plain[] = { words[0], words[1], words[4], words[5],
                                      words[6], words[7], words[8], NULL };
        Running job = start_words(cases[i].handled != NULL ? words : plain);
        await_file("up_0");
        await_file("up_1");
        kill(job.pid, cases[i].sent);
        char *text = end_with(&job, cases[i].ends_with), line[32];
        snprintf(line, sizeof line, "got %s\n", cases[i].got);
        assert_non_null(strstr(strstr(text, line) + 1, line)); // both ranks
        snprintf(line, sizeof line, "ended by SIG%s\n", cases[i].got);
        assert_int_equal(strstr(text, line) != NULL, cases[i].ends_with > 128);
        clear_folder(NULL);
    }
}

static Running start_fixed(const char *rank, const char *nproc, const char *role,
                           const char *script)
{
    return START("--nnodes", "2", "--node-rank", rank, "--nproc-per-node", nproc, "--role", role,
                 "--master-port", port, "--max-restarts", "1", SCRIPT(script));
}

static void test_two_nodes(void **state)
{
    (void)state;
    const char script[] = ENVIRONMENT "; echo \"secret: ${DDP_SECRET_FILE-unset}.\"";
    Running nodes[] = { start_fixed("0", "1", "a", script), start_fixed("1", "2", "b", script) };
    assert_has(end_with(&nodes[0], 0), "0/3 0/1 a 0/1 0/2 127.0.0.1 none 0/1 True 0/0/error.json");
    const char *text = end_with(&nodes[1], 0);
    assert_has(text, "1/3 0/2 b 0/2 1/2 127.0.0.1 none 0/1 True 0/0/error.json");
    assert_has(text, "2/3 1/2 b 1/2 1/2 127.0.0.1 none 0/1 True 0/1/error.json");
    assert_has(text, "secret: .\n"); // so that no rank says again that there is none

    const char once[] = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; "
                        "[ $RANK = 2 ] && exit 7; exec sleep 1000";
    for (int i = 0; i < 2; i++)
        nodes[i] = start_fixed(i == 0 ? "0" : "1", "2", "a", once);
    for (int i = 0; i < 2; i++) {
        assert_has(end_with(&nodes[i], 0), "attempt 0: rank 2 on node 1 (");
    }
    for (int i = 0; i < 2; i++)
        nodes[i] = start_fixed(i == 0 ? "0" : "1", "2", "a", "[ $RANK = 2 ] && exit 7; sleep 1000");
    for (int i = 0; i < 2; i++) {
        text = end_with(&nodes[i], 7);
        assert_has(text, "Earlier attempts:\n  attempt 0: rank 2 on node 1 (");
    }
}

/* Returns a socket that has the port, so that no process can listen there. */
static int take_port(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    here.sin_port = htons((uint16_t)atoi(port));
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    return fd;
}

/* Nodes of different jobs. */
static void test_nodes_apart(void **state)
{
    (void)state;
    Running other = START("--nnodes", "3", "--node-rank", "1", "--master-port", port, "true");
    assert_int_equal(DDPRUN("--nnodes", "2", "--master-port", port, "true"), 1);
    assert_has(err, ": give all nodes the same\n");
    assert_has(end_with(&other, 1), ": give all nodes the same\n");

    other = START("--nnodes", "1:2", "--rdzv-id=a", "--rdzv-endpoint", endpoint, "--rdzv-conf",
                  "last_call_timeout=0.1", SCRIPT("touch $TMPDIR/up; exec sleep 1000"));
    await_file("up");
    assert_int_equal(DDPRUN("--nnodes", "1:2", "--rdzv-id=b", "--rdzv-endpoint", endpoint, "true"),
                     1);
    assert_has(err, "this node has --nnodes 1:2 --rdzv-id b --max-restarts 0, but the job at ");
    assert_has(err, " --nnodes 1:2 --rdzv-id a --max-restarts 0: give all the same\n");
    kill(other.pid, SIGTERM);
    end_with(&other, 128 + SIGTERM);
    clear_folder(NULL);
}

static void test_nodes_that_do_not_come(void **state)
{
    (void)state;
    static const struct {
        const char *nodes, *at, *conf, *message;
    } cases[] = {
        { "--nnodes=2", "--node-rank=0", "join_timeout=3", "fatal: node 1 did not come to " },
        { "--nnodes=2", "--node-rank=1", "join_timeout=3", "fatal: node 0 did not come to " },
        { "--nnodes=2:3", "--node-rank=0", "join_timeout=3",
          "only 1 of at least 2 nodes came to " },
        { "--nnodes=2:3", "--node-rank=0", "is_host=0,timeout=3", "no rendezvous at 127.0.0.1:" },
    };
    Running nodes[LENGTH(cases)];
    int taken[LENGTH(cases)];
    const double begun = seconds_now();
    for (size_t i = 0; i < LENGTH(cases); i++) {
        choose_port();
        taken[i] = i % 2 == 0 ? -1 : take_port();
        nodes[i] = START(cases[i].nodes, cases[i].at, "--rdzv-endpoint", endpoint, "--rdzv-conf",
                         cases[i].conf, "true");
    }
    for (size_t i = LENGTH(cases); i-- > 0;) {
        const char *text = end_with(&nodes[i], 1);
        assert_true(seconds_now() >= begun + 3);
        assert_has(text, cases[i].message);
        assert_has(text, " within 3 s");
        if (taken[i] >= 0)
            close(taken[i]);
    }
}

/* Enough nodes wait for others to come, however soon those would be given up. */
static void test_a_last_call_longer_than_the_wait_for_nodes(void **state)
{
    (void)state;
    choose_port();
    assert_int_equal(DDPRUN("--nnodes", "1:2", "--rdzv-endpoint", endpoint, "--rdzv-conf",
                            "join_timeout=0.1,last_call_timeout=0.5", "true"),
                     0);
}

/* A rank of an elastic node makes a file of its attempt, its rank and their number. */
static Running start_elastic(void)
{
    return START("--nnodes", "1:2", "--rdzv-endpoint", endpoint, "--rdzv-conf",
                 "last_call_timeout=0.2,keep_alive_interval=0.2,keep_alive_max_attempt=600",
                 SCRIPT("touch $TMPDIR/$TORCHELASTIC_RESTART_COUNT.$RANK.$WORLD_SIZE; "
                        "[ $RANK = 0 ] && exec sleep 1000; sleep 1000 & wait"));
}

/* Waits until so many nodes wait for room. */
static void await_queue(int length)
{
    Store store;
    assert_true(store_connect(&store, "127.0.0.1", atoi(port), 100));
    for (int i = 0, found = -1; found != length; i++) {
        assert_true(i < 10000);
        usleep(10000);
        StoreRequest request = store_request_begin(&store, STORE_QUEUE_LEN, "ddprun/waiting");
        found = (int)store_reply_i64(&request);
    }
    store_free(&store);
}

/* A second node comes; another replaces it when it is lost; a third hears of the end. */
static void test_nodes_that_come_and_go(void **state)
{
    (void)state;
    if (!has_extras)
        skip(); // a store without extras tells no queue's length
    Running host = start_elastic();
    await_file("0.0.1");
    Running lost = start_elastic();
    await_file("1.0.2");
    await_file("1.1.2");
    Running spare = start_elastic();
    await_queue(1);
    Running last = start_elastic();
    await_queue(2);
    kill(lost.pid, SIGKILL);
    await_file("2.0.2");
    await_file("2.1.2");
    kill(host.pid, SIGTERM);
    const char *text = end_with(&host, 128 + SIGTERM);
    assert_has(text, "attempt 0: nodes have come; restarting the group\n");
    assert_has(text, "attempt 1: node 1 has not been heard of since it hung up; restarting");
    assert_has(text, "ended by SIGTERM\n");
    assert_has(end_with(&spare, 128 + SIGTERM), "ended by SIGTERM\n");
    assert_has(end_with(&last, 128 + SIGTERM), " has ended with status 143\n");
    end_with(&lost, 128 + SIGKILL);
    clear_folder(NULL);
}

/* Passes on what comes to a port of its own, one connection at a time; the second one ends the
 * first. Returns the port. */
static int start_relay(pid_t *relay)
{
    int own = 0;
    const int listener = net_listen("127.0.0.1", &own), target = atoi(port);
    *relay = fork();
    if (*relay != 0) {
        close(listener);
        return own;
    }
    alarm(600);
    struct pollfd ends[3] = { { listener, POLLIN, 0 }, { -1, POLLIN, 0 }, { -1, POLLIN, 0 } };
    for (char data[4096]; poll(ends, 3, -1) > 0;) {
        for (int i = 1; i < 3; i++) {
            const ssize_t bytes = ends[i].revents != 0 ? read(ends[i].fd, data, sizeof data) : 0;
            if (bytes > 0)
                write_all(ends[3 - i].fd, data, (size_t)bytes);
        }
        if (ends[0].revents == 0)
            continue;
        close(ends[1].fd);
        close(ends[2].fd);
        ends[1].fd = net_accept(listener, seconds_now() + 100);
        ends[2].fd = net_connect("127.0.0.1", target, seconds_now() + 100);
    }
    _exit(0);
}

/* A node that waits for room loses its connection, and waits again in the queue of the same job. */
static void test_a_node_that_connects_again(void **state)
{
    (void)state;
    if (!has_extras)
        skip(); // a store without extras tells no queue's length
    choose_port();
    Running host = start_elastic();
    await_file("0.0.1");
    Running other = start_elastic();
    await_file("1.1.2");
    pid_t relay;
    char through[32];
    const int relay_port = start_relay(&relay);
    snprintf(through, sizeof through, "127.0.0.1:%d", relay_port);
    Running waiting = START("--nnodes", "1:2", "--rdzv-endpoint", through, "--rdzv-conf",
                            "is_host=0,keep_alive_interval=0.2,keep_alive_max_attempt=600", "true");
    await_queue(1);
    close(net_connect("127.0.0.1", relay_port, seconds_now() + 100)); // ends the node's connection
    await_queue(2);
    kill(host.pid, SIGTERM);
    end_with(&host, 128 + SIGTERM);
    end_with(&other, 128 + SIGTERM);
    assert_has(end_with(&waiting, 128 + SIGTERM), " has ended with status 143\n");
    kill(relay, SIGKILL);
    child_wait(relay);
    clear_folder(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_programs_of_python),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_who_failed),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_two_nodes),
        cmocka_unit_test(test_nodes_apart),
        cmocka_unit_test(test_nodes_that_do_not_come),
        cmocka_unit_test(test_nodes_that_come_and_go),
        cmocka_unit_test(test_a_last_call_longer_than_the_wait_for_nodes),
        cmocka_unit_test(test_a_node_that_connects_again),
    };
    return cmocka_run_group_tests(tests, make_temporary_folder, remove_empty_folder);
}
