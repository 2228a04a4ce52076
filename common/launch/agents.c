/*
 * A request to a store that is gone ends the process. The launcher must survive that, to end its
 * workers and say why: once they run, it leaves all requests to child processes, which put the
 * answers into shared memory.
 *
 * One of them is the heartbeat. It waits in the store for the job's end, and its exit status tells
 * the launcher. Every interval it counts its node's key up; node 0's also checks that the others'
 * still rise. If the store is gone the process dies: then node 0 is lost. A stopped launcher
 * (SIGSTOP) has no heartbeat: it would not react to anything.
 */
#include "common/launch/agents.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"

#define KEY_NUM_STOPPED "ddprun/num_stopped" // of those that are done
#define KEY_ROOT "ddprun/root" // the failure that all nodes report

#define TORCHRUN_TIMEOUT 300.0 // seconds, as torchrun's
#define SETTLE_SECONDS 0.3 // for the other nodes to finish
#define LEAVE_SECONDS 10.0 // for the other launchers to end after their workers
#define POLL_SECONDS 0.02 // between polls for that
#define REQUESTS_SECONDS 60 // for the requests of one child, besides waiting for the store
#define MAX_FAILURE (64 << 10) // bytes of JSON
#define LOST_HUNG_UP "has not been heard of since it hung up"

typedef struct {
    int64_t count;
    int missed; // checks since it last rose
} PeerCount;

/* Tells all nodes that the job has failed, and why. */
static void publish_failure(Store *store, const Failure *failure)
{
    char end[1];
    char *text = failure_encode(failure);
    store_set(store, node_key(KEY_FAILURE, failure->node).text, text, strlen(text));
    store_compare_set(store, KEY_END, "", END_FAILED, end, sizeof end);
    free(text);
}

/* False: this node has no heartbeat. It has left or is not here yet, or it is a torchrun. */
static bool read_heartbeat(Store *store, int node, int64_t *count)
{
    char text[64] = "";
    store_compare_set(store, node_key(KEY_HEARTBEAT, node).text, "absent", "absent", text,
                      sizeof text - 1); // only reads
    *count = strtoll(text, NULL, 10);
    return strcmp(text, "absent") != 0;
}

static void publish_loss(Store *store, int node, const char *how)
{
    Failure failure;
    failure_of_launcher(&failure, node, EXIT_FAILURE, "node %d %s", node, how);
    publish_failure(store, &failure);
}

/* Node 0 checks the other nodes. It removes the key of a dead one, so that nobody waits for it. A
 * torchrun has no such key and does not report its failure, but without one it stays until the job
 * is over. */
static void check_peers(Store *store, const Flags *flags, PeerCount *counts)
{
    for (int node = 1; node < flags->max_nodes; node++) {
        int64_t count = 0;
        const bool beats = read_heartbeat(store, node, &count);
        const bool hung_up = store_check(store, node_key(KEY_GONE, node).text);
        if (!beats && hung_up)
            publish_loss(store, node, "has hung up before the job was over");
        if (!beats)
            continue;
        counts[node].missed = count == counts[node].count ? counts[node].missed + 1 : 0;
        counts[node].count = count;
        if (!hung_up && counts[node].missed < flags->heartbeat_limit)
            continue;

        char silence[64];
        snprintf(silence, sizeof silence, "has not been heard of for %g s",
                 flags->heartbeat_limit * flags->heartbeat_interval);
        store_delete(store, node_key(KEY_HEARTBEAT, node).text);
        publish_loss(store, node, hung_up ? LOST_HUNG_UP : silence);
    }
}

static bool is_stopped(pid_t pid)
{
    char path[32], line[128], state = '?';
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid); // "State:\tS (sleeping)", see proc(5)
    FILE *file = fopen(path, "re");
    while (file != NULL && state == '?' && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "State: %c", &state);
    if (file != NULL)
        fclose(file);
    return state == 'T';
}

static noreturn void heartbeat_loop(const Flags *flags, pid_t launcher)
{
    Store store;
    CHECK(job_store_connect(&store, flags, job_store_patience(flags)),
          "the store at %s:%d is out of reach: %s", flags->master_addr, flags->master_port,
          store_connect_reason(errno));
    PeerCount *counts = mem_calloc((size_t)flags->max_nodes, sizeof *counts);
    const Key key = node_key(KEY_HEARTBEAT, flags->node_rank);
    do {
        if (!is_stopped(launcher))
            store_add(&store, key.text, 1);
        if (flags->node_rank == 0)
            check_peers(&store, flags, counts);
    } while (!store_try_wait(&store, KEY_END, flags->heartbeat_interval));
    _exit(EXIT_SUCCESS);
}

/* For a child process: when its request fails it says "fatal:" and ends, but the launcher goes on,
 * and reports what matters. */
static void hide_messages(void)
{
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

static pid_t heartbeat_start(const Flags *flags)
{
    const pid_t launcher = getpid();
    const pid_t heartbeat = fork();
    SYS_CHECK(heartbeat);
    if (heartbeat == 0) {
        setsid(); // Ctrl-C is for the launcher only
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        hide_messages();
        if (getppid() == launcher)
            heartbeat_loop(flags, launcher);
        _exit(EXIT_FAILURE);
    }
    return heartbeat;
}

/* Its exit status: 0 if the job has ended, and the store has the reason; else node 0 is out of
 * reach. -1: it lives. If it was stopped (SIGSTOP), it goes on: without it the launcher would not
 * see the end of the job. */
static int heartbeat_status(pid_t heartbeat)
{
    siginfo_t end = { 0 }; // WNOWAIT: heartbeat_stop reaps it
    waitid(P_PID, (id_t)heartbeat, &end, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
    const bool was_stopped = end.si_code == CLD_STOPPED;
    if (was_stopped)
        kill(heartbeat, SIGCONT);
    if (end.si_pid == 0 || was_stopped)
        return -1;
    return end.si_code == CLD_EXITED ? end.si_status : EXIT_FAILURE;
}

static void heartbeat_stop(pid_t heartbeat)
{
    kill(heartbeat, SIGKILL);
    waitpid(heartbeat, NULL, 0);
}

static void pause_for(double seconds)
{
    poll(NULL, 0, (int)ceil(1e3 * seconds));
}

void agents_open(Agents *agents, const Flags *flags)
{
    *agents = (Agents){ .flags = flags, .master_port = flags->master_port };
    agents->found = mmap(NULL, sizeof *agents->found, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(agents->found != MAP_FAILED, "out of memory");
    const int num_ranks = flags->nproc_per_node * flags->max_nodes;
    const int served = flags->node_rank == 0 ? num_ranks : 0; // clients of the store
    net_reserve_descriptors(2 * NET_SPARE_DESCRIPTORS + 2 * flags->nproc_per_node + served,
                            num_ranks); // each worker has two pipes
    if (flags->max_nodes == 1 && !address_is_here(flags->master_addr))
        log_warning("--master-addr %s is no address of this machine, which is the only node: "
                    "is --nnodes missing?",
                    flags->master_addr);
    if (flags->node_rank == 0) {
        snprintf(agents->watched, sizeof agents->watched, "/%s/" KEY_ROLE_INFO_ALL, flags->run_id);
        agents->server =
            store_server_start(flags->master_addr, &agents->master_port, agents->watched);
        char reason[NET_REASON_BYTES];
        CHECK(agents->server != NULL, "cannot serve the store at %s:%d: %s; try --master-port",
              flags->master_addr, agents->master_port,
              net_listen_reason(errno, agents->master_port, reason));
    }
    agents->connected_to_peers = flags->max_nodes > 1;
    agents->ranks =
        (Ranks){ .world_size = flags->nproc_per_node, .role_world_size = flags->nproc_per_node };
}

void agents_begin(Agents *agents)
{
    agents->store.timeout = job_store_patience(agents->flags);
    agents->heartbeat = heartbeat_start(agents->flags);
    for (int i = 0; i < agents->flags->max_nodes; i++) {
        const bool is_torchrun = !store_check(&agents->store, node_key(KEY_HEARTBEAT, i).text);
        agents->has_torchrun_nodes |= is_torchrun;
        agents->host_is_torchrun |= is_torchrun && i == 0;
    }
}

void agents_meet(Agents *agents)
{
    if (!agents->connected_to_peers)
        return;
    agents->ranks = rendezvous(&agents->store, agents->flags);
    agents_begin(agents);
}

void agents_join(Agents *agents, const Flags *flags)
{
    agents_open(agents, flags);
    agents_meet(agents);
}

bool in_child(double seconds, int *status)
{
    const pid_t launcher = getpid(), child = fork();
    if (child == 0) {
        hide_messages();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != launcher)
            _exit(EXIT_FAILURE);
        sigset_t alarm_signal;
        sigemptyset(&alarm_signal);
        sigaddset(&alarm_signal, SIGALRM);
        signal(SIGALRM, SIG_DFL); // the launcher blocks it, or was told to ignore it
        sigprocmask(SIG_UNBLOCK, &alarm_signal, NULL);
        alarm((unsigned)ceil(seconds)); // a lock held at fork stays locked
        return true;
    }
    *status = EXIT_FAILURE;
    if (child < 0)
        log_warning("cannot start a process that talks to node 0: %s", strerror(errno));
    while (child > 0 && waitpid(child, status, WUNTRACED) == child && WIFSTOPPED(*status))
        kill(child, SIGCONT);
    return false;
}

void agents_run_in_child(Agents *agents, void (*requests)(Agents *agents))
{
    int status = 0;
    if (!agents->connected_to_peers)
        return;
    if (in_child(REQUESTS_SECONDS + agents->store.timeout, &status)) {
        requests(agents);
        _exit(EXIT_SUCCESS);
    }
    agents->connected_to_peers = status == 0;
    agents->left_out |= status != 0;
}

static void publish_done(Agents *agents)
{
    const bool any_stopped = store_add(&agents->store, KEY_NUM_STOPPED, agents->stopped) > 0;
    const char *end = any_stopped ? END_STOPPED : END_DONE;
    if (store_add(&agents->store, KEY_NUM_MEMBERS, 1) == agents->flags->max_nodes)
        store_set(&agents->store, KEY_END, end, strlen(end));
}

void agents_done(Agents *agents, bool stopped)
{
    if (agents->done_since > 0)
        return;
    agents->done_since = seconds_now();
    agents->stopped = stopped;
    if (!agents->connected_to_peers)
        agents->verdict = stopped ? VERDICT_STOPPED : VERDICT_DONE;
    agents_run_in_child(agents, publish_done);
}

static void read_end(Agents *agents)
{
    store_get(&agents->store, KEY_END, agents->found->end, sizeof agents->found->end - 1);
}

static void publish_own_failure(Agents *agents)
{
    publish_failure(&agents->store, &agents->found->failure);
    read_end(agents);
}

void agents_fail(Agents *agents, const Failure *failure)
{
    agents->verdict = VERDICT_FAILED;
    agents->found->failure = *failure;
    agents_run_in_child(agents, publish_own_failure);
    if (strcmp(agents->found->end, END_CHANGED) == 0) // so all other nodes take it
        agents->verdict = VERDICT_CHANGED;
}

/* The job is over. A torchrun on node 0 may have taken its store along before it could be asked
 * why; but before this node's workers are done only a failure can have ended the job. */
static Verdict read_verdict(Agents *agents)
{
    agents_run_in_child(agents, read_end);
    const char *end = agents->found->end;
    agents->left_out |= end[0] == '\0';
    if (strcmp(end, END_CHANGED) == 0)
        return VERDICT_CHANGED;
    if (strcmp(end, END_FAILED) == 0 || agents->done_since == 0)
        return VERDICT_FAILED;
    return strcmp(end, END_STOPPED) == 0 ? VERDICT_STOPPED : VERDICT_DONE;
}

Verdict agents_verdict(Agents *agents)
{
    if (agents->verdict != VERDICT_NONE || !(agents->connected_to_peers || agents->left_out))
        return agents->verdict;
    const double waited = agents->done_since > 0 ? seconds_now() - agents->done_since : 0;
    const int status = agents->left_out ? EXIT_FAILURE : heartbeat_status(agents->heartbeat);
    Failure failure;
    if (status == EXIT_SUCCESS) {
        agents->verdict = read_verdict(agents);
    } else if (status > 0) {
        agents->connected_to_peers = false;
        agents->left_out = true;
        failure_of_launcher(&failure, 0, EXIT_FAILURE, "node 0 is out of reach");
        agents_fail(agents, &failure);
    } else if (agents->has_torchrun_nodes && waited > TORCHRUN_TIMEOUT) {
        failure_of_launcher(&failure, agents->flags->node_rank, EXIT_FAILURE,
                            "the other nodes have not ended %.0f s after this one", waited);
        agents_fail(agents, &failure);
    }
    return agents->verdict;
}

/* Has a launcher disconnected without a goodbye? */
static bool is_lost(Agents *agents, int node)
{
    return store_check(&agents->store, node_key(KEY_GONE, node).text) &&
           store_check(&agents->store, node_key(KEY_HEARTBEAT, node).text);
}

/* Takes the first of all nodes' failures, or the root cause already chosen. */
static void gather_failures(Agents *agents)
{
    char *text = mem_calloc(MAX_FAILURE, 1);
    Failure *root = &agents->found->failure, failure;
    for (int i = 0; i < agents->flags->max_nodes; i++) {
        const Key key = node_key(KEY_FAILURE, i);
        if (!store_check(&agents->store, key.text))
            continue;
        const size_t length = store_get(&agents->store, key.text, text, MAX_FAILURE);
        if (length <= MAX_FAILURE && failure_decode(&failure, text, length) &&
            failure_is_earlier(&failure, root))
            *root = failure;
    }
    for (int i = 1; i < agents->flags->max_nodes; i++)
        if (is_lost(agents, i))
            failure_of_launcher(root, i, EXIT_FAILURE, "node %d " LOST_HUNG_UP, i);
    if (root->status == 0)
        return;
    char *ours = failure_encode(root);
    const size_t length = store_compare_set(&agents->store, KEY_ROOT, "", ours, text, MAX_FAILURE);
    if (length <= MAX_FAILURE && failure_decode(&failure, text, length))
        *root = failure;
}

const Failure *agents_root_cause(Agents *agents)
{
    pause_for(agents->connected_to_peers ? SETTLE_SECONDS : 0);
    agents_run_in_child(agents, gather_failures);
    if (agents->found->failure.status == 0)
        failure_of_launcher(&agents->found->failure, 0, EXIT_FAILURE, "%s",
                            agents->flags->elastic ? "the others have ended without this node"
                                                   : "a node failed, and node 0 is gone");
    return &agents->found->failure;
}

static void remove_heartbeat(Agents *agents)
{
    store_delete(&agents->store, node_key(KEY_HEARTBEAT, agents->flags->node_rank).text);
}

/* Has it yet to leave? Its count is 0 if it has not even come yet. */
static bool is_awaited(Agents *agents, int node, double begun, double seconds)
{
    int64_t count = 0;
    if (!read_heartbeat(&agents->store, node, &count) || is_lost(agents, node))
        return false;
    return seconds_now() < begun + (count == 0 ? agents->store.timeout : seconds);
}

/* Node 0 keeps serving until the others have left. */
static void wait_for_peers_to_leave(Agents *agents, double seconds)
{
    const double begun = seconds_now();
    if (agents->has_torchrun_nodes) // they leave without notice
        pause_for(SETTLE_SECONDS);
    for (int i = 1; i < agents->flags->max_nodes; i++)
        while (is_awaited(agents, i, begun, seconds))
            pause_for(POLL_SECONDS);
}

void agents_leave(Agents *agents)
{
    const Flags *flags = agents->flags;
    const double seconds = flags->shutdown_timeout + LEAVE_SECONDS;
    if (flags->max_nodes > 1)
        heartbeat_stop(agents->heartbeat); // or it would recreate the key deleted below
    agents_run_in_child(agents, remove_heartbeat);
    if (agents->connected_to_peers && flags->node_rank == 0)
        wait_for_peers_to_leave(agents, seconds);
    else if (agents->connected_to_peers &&
             !(agents->host_is_torchrun && agents->verdict == VERDICT_FAILED))
        // Until node 0 disconnects: the next job must not find this one's store. Only a torchrun
        // there does not know of the failure, and may wait for minutes.
        poll(&(struct pollfd){ .fd = agents->store.fd, .events = POLLIN }, 1, (int)(1e3 * seconds));

    if (flags->max_nodes > 1)
        store_free(&agents->store);
    if (agents->server != NULL)
        store_server_stop(agents->server);
    munmap(agents->found, sizeof *agents->found);
}
