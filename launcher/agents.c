/* While the workers run, a launcher must survive the loss of the store, to end them and report why.
 * So its calls to the store may fail (store.h); after a failure node 0 counts as out of reach.
 *
 * The heartbeat is a thread with a connection of its own, on which it waits for the job's end.
 * Every interval it increments its node's key; node 0's also checks that the others still increase.
 * A stopped launcher (SIGSTOP) has no heartbeat, since it would not react to anything. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/store/net.h"
#include "launcher/launch.h"

#define TORCHRUN_TIMEOUT 300.0 // seconds, as torchrun's
#define SETTLE_MS 300 // time for the other nodes to finish
#define LEAVE_SECONDS 10.0 // for the other launchers to end after their workers
#define POLL_MS 20 // between polls for that
#define GATHER_SECONDS 60.0 // to ask for the failures of all nodes
#define MAX_FAILURE (64 << 10) // bytes of JSON
#define LOST_HUNG_UP "has not been heard of since it hung up"

typedef struct {
    int64_t count;
    int missed; // checks since the count last rose
} PeerCount;

/* Publishes to all nodes that the job has failed, and why. */
static void publish_failure(Store *store, const Failure *failure)
{
    char end[1];
    char *text = failure_encode(failure);
    store_set(store, node_key(KEY_FAILURE, failure->node).text, text, strlen(text));
    store_compare_set(store, KEY_END, "", END_FAILED, end, sizeof end);
    free(text);
}

/* Returns false if the node has no heartbeat: it has left, is not here yet, or is a torchrun. */
static bool read_heartbeat(Store *store, int node, int64_t *count)
{
    char text[64] = "";
    store_compare_set(store, node_key(KEY_HEARTBEAT, node).text, "absent", "absent", text,
                      sizeof text - 1); // only reads
    *count = strtoll(text, NULL, 10);
    return !store->failed && strcmp(text, "absent") != 0;
}

/* Checks the other nodes, on node 0. Removes the key of a dead one, so that no node waits for it. A
 * torchrun has no such key and does not report its failure, but without a failure it stays until
 * the job is over. */
static void check_peers(Store *store, const Flags *flags, PeerCount *counts)
{
    for (int node = 1; node < flags->max_nodes; node++) {
        PeerCount *peer = &counts[node];
        int64_t count = 0;
        const bool beats = read_heartbeat(store, node, &count);
        const bool hung_up = store_check(store, node_key(KEY_GONE, node).text);
        peer->missed = beats && count == peer->count ? peer->missed + 1 : 0;
        peer->count = count;
        if (!hung_up && peer->missed < flags->heartbeat_limit)
            continue;

        Failure failure;
        char silence[64];
        snprintf(silence, sizeof silence, "has not been heard of for %g s",
                 flags->heartbeat_limit * flags->heartbeat_interval);
        failure_of_launcher(&failure, node, EXIT_FAILURE, "node %d %s", node,
                            !beats    ? "has hung up before the job was over"
                            : hung_up ? LOST_HUNG_UP
                                      : silence);
        store_delete(store, node_key(KEY_HEARTBEAT, node).text);
        publish_failure(store, &failure);
    }
}

static void *heartbeat_loop(void *argument)
{
    Agents *agents = argument;
    Store *store = &agents->heartbeat_store;
    const Flags *flags = agents->flags;
    PeerCount *counts = mem_calloc((size_t)flags->max_nodes, sizeof *counts);
    const Key key = node_key(KEY_HEARTBEAT, flags->node_rank);
    do {
        store_add(store, key.text, 1);
        if (flags->node_rank == 0)
            check_peers(store, flags, counts);
    } while (!store_try_wait(store, KEY_END, flags->heartbeat_interval) && !store->failed);
    free(counts);
    agents->heartbeat_over = true;
    kill(getpid(), SIGCHLD); // makes workers_wait return, as if a worker had ended
    return NULL;
}

void agents_open(Agents *agents, const Flags *flags)
{
    *agents = (Agents){ .flags = flags,
                        .master_port = flags->master_port,
                        .ranks = { .world_size = flags->nproc_per_node,
                                   .role_world_size = flags->nproc_per_node },
                        .store = { .fd = -1, .may_fail = true, .failed = true },
                        .heartbeat_store = { .fd = -1 } };
    const int num_ranks = flags->nproc_per_node * flags->max_nodes;
    // Clients of the store, which keeps the last eighth of all descriptors from newcomers.
    const int served = flags->node_rank == 0 ? num_ranks + num_ranks / 2 : 0;
    net_reserve_descriptors(2 * NET_SPARE_DESCRIPTORS + 2 * flags->nproc_per_node + served,
                            num_ranks); // each worker has two pipes
    if (flags->max_nodes == 1 && !address_is_here(flags->master_addr))
        log_warning("--master-addr %s is no address of this machine, which is the only node: "
                    "is --nnodes missing?",
                    flags->master_addr);
    if (flags->node_rank != 0)
        return;
    snprintf(agents->watched, sizeof agents->watched, "/%s/" KEY_ROLE_INFO_ALL, flags->run_id);
    agents->server = store_server_start(flags->master_addr, &agents->master_port, agents->watched);
    char reason[NET_REASON_BYTES];
    CHECK(agents->server != NULL, "cannot serve the store at %s:%d: %s; try --master-port",
          flags->master_addr, agents->master_port,
          net_listen_reason(errno, agents->master_port, reason));
}

void agents_begin(Agents *agents)
{
    Store *store = &agents->heartbeat_store;
    if (agents->flags->max_nodes == 1)
        return;
    if (agents->store.fd < 0)
        agents->ranks = rendezvous(&agents->store, agents->flags);
    agents->store.timeout = job_store_timeout(agents->flags);
    if (job_store_connect(store, agents->flags, agents->store.timeout)) {
        store->may_fail = true;
        const int error = thread_start(&agents->heartbeat_thread, heartbeat_loop, agents);
        CHECK(error == 0, "cannot start a thread that talks to node 0: %s", strerror(error));
    } else {
        store->failed = true;
        agents->heartbeat_over = true;
    }
    for (int i = 0; i < agents->flags->max_nodes; i++) {
        const bool is_torchrun = !store_check(&agents->store, node_key(KEY_HEARTBEAT, i).text);
        agents->has_torchrun_nodes |= is_torchrun;
        agents->host_is_torchrun |= is_torchrun && i == 0;
    }
    agents->store.may_fail = true;
}

void agents_join(Agents *agents, const Flags *flags)
{
    job_secret_init(flags);
    agents_open(agents, flags);
    agents_begin(agents);
}

void agents_done(Agents *agents, bool stopped)
{
    if (agents->done_since > 0)
        return;
    agents->done_since = seconds_awake();
    if (agents->flags->max_nodes == 1)
        agents->verdict = stopped ? VERDICT_STOPPED : VERDICT_DONE;
    const bool any_stopped = store_add(&agents->store, KEY_NUM_STOPPED, stopped) > 0;
    const char *end = any_stopped ? END_STOPPED : END_DONE;
    if (store_add(&agents->store, KEY_NUM_MEMBERS, 1) == agents->flags->max_nodes)
        store_set(&agents->store, KEY_END, end, strlen(end));
}

/* Returns how the job ended. A torchrun on node 0 may have closed its store before it could be
 * asked; but before this node's workers are done only a failure can have ended the job, and so it
 * is with a launcher there, which waits for the others: if it is gone, nobody knows of a result. */
static Verdict read_verdict(Agents *agents)
{
    char end[32] = "";
    store_get(&agents->store, KEY_END, end, sizeof end - 1);
    if (strcmp(end, END_CHANGED) == 0)
        return VERDICT_CHANGED;
    if (strcmp(end, END_FAILED) == 0 || agents->done_since == 0 ||
        (agents->store.failed && !agents->host_is_torchrun))
        return VERDICT_FAILED;
    return strcmp(end, END_STOPPED) == 0 ? VERDICT_STOPPED : VERDICT_DONE;
}

void agents_fail(Agents *agents, const Failure *failure)
{
    agents->failure = *failure;
    publish_failure(&agents->store, failure);
    const bool changed = read_verdict(agents) == VERDICT_CHANGED; // so all other nodes take it
    agents->verdict = changed ? VERDICT_CHANGED : VERDICT_FAILED;
}

Verdict agents_verdict(Agents *agents)
{
    if (agents->verdict != VERDICT_NONE || agents->flags->max_nodes == 1)
        return agents->verdict;
    const double waited = agents->done_since > 0 ? seconds_awake() - agents->done_since : 0;
    agents->store.failed |= agents->heartbeat_over && agents->heartbeat_store.failed;
    Failure failure;
    if (agents->store.failed) {
        failure_of_launcher(&failure, 0, EXIT_FAILURE, "node 0 is out of reach");
        agents_fail(agents, &failure);
    } else if (agents->heartbeat_over) {
        agents->verdict = read_verdict(agents);
    } else if (agents->has_torchrun_nodes && waited > TORCHRUN_TIMEOUT) {
        failure_of_launcher(&failure, agents->flags->node_rank, EXIT_FAILURE,
                            "the other nodes have not ended %.0f s after this one", waited);
        agents_fail(agents, &failure);
    }
    return agents->verdict;
}

/* Returns whether a launcher has disconnected without agents_leave. */
static bool is_lost(Store *store, int node)
{
    return store_check(store, node_key(KEY_GONE, node).text) &&
           store_check(store, node_key(KEY_HEARTBEAT, node).text);
}

/* Returns false if there is no such key, or it holds no failure. */
static bool read_failure(Store *store, const char *key, Failure *failure)
{
    char text[MAX_FAILURE];
    const size_t length = store_check(store, key) ? store_get(store, key, text, sizeof text) : 0;
    return length <= sizeof text && failure_decode(failure, text, length);
}

/* Takes the first of all nodes' failures, or the root cause already chosen. */
static void gather_failures(Store *store, int num_nodes, Failure *root)
{
    const double end = seconds_awake() + GATHER_SECONDS;
    Failure failure;
    for (int i = 0; i < num_nodes && seconds_awake() < end; i++)
        if (read_failure(store, node_key(KEY_FAILURE, i).text, &failure) &&
            failure_is_earlier(&failure, root))
            *root = failure;
    for (int i = 1; i < num_nodes && seconds_awake() < end; i++)
        if (is_lost(store, i))
            failure_of_launcher(root, i, EXIT_FAILURE, "node %d " LOST_HUNG_UP, i);
    if (root->status == 0)
        return;
    char *ours = failure_encode(root), chosen[1];
    store_compare_set(store, KEY_ROOT, "", ours, chosen, sizeof chosen);
    free(ours);
    if (read_failure(store, KEY_ROOT, &failure))
        *root = failure;
}

const Failure *agents_root_cause(Agents *agents)
{
    if (!agents->store.failed) {
        poll(NULL, 0, SETTLE_MS);
        gather_failures(&agents->store, agents->flags->max_nodes, &agents->failure);
    }
    if (agents->failure.status == 0)
        failure_of_launcher(&agents->failure, 0, EXIT_FAILURE, "%s",
                            agents->flags->elastic ? "the others have ended without this node"
                                                   : "a node failed, and node 0 is gone");
    return &agents->failure;
}

/* Keeps node 0 serving until the others have left. A node that has not even come has count 0. */
static void wait_for_peers_to_leave(Agents *agents, double seconds)
{
    const double begun = seconds_awake();
    int64_t count = 0;
    if (agents->has_torchrun_nodes) // they leave without notice
        poll(NULL, 0, SETTLE_MS);
    for (int i = 1; i < agents->flags->max_nodes; i++)
        while (read_heartbeat(&agents->store, i, &count) && !is_lost(&agents->store, i) &&
               seconds_awake() < begun + (count == 0 ? agents->store.timeout : seconds))
            poll(NULL, 0, POLL_MS);
}

void agents_leave(Agents *agents)
{
    const Flags *flags = agents->flags;
    const double seconds = flags->shutdown_timeout + LEAVE_SECONDS;
    if (agents->heartbeat_store.fd >= 0) { // first, or it would recreate the key deleted here
        shutdown(agents->heartbeat_store.fd, SHUT_RDWR); // ends the call that the thread waits in
        pthread_join(agents->heartbeat_thread, NULL);
        store_free(&agents->heartbeat_store);
    }
    if (flags->node_rank == 0) { // its key stays, or a late node would take it for a torchrun
        wait_for_peers_to_leave(agents, seconds);
    } else {
        store_delete(&agents->store, node_key(KEY_HEARTBEAT, flags->node_rank).text);
        // Waits until node 0 disconnects, because the next job must not find this one's store. Only
        // a torchrun there does not know of the failure, and may wait for minutes.
        if (!agents->store.failed &&
            !(agents->host_is_torchrun && agents->verdict == VERDICT_FAILED))
            poll_awake(&(struct pollfd){ .fd = agents->store.fd, .events = POLLIN }, 1, seconds);
    }

    store_free(&agents->store);
    if (agents->server != NULL)
        store_server_stop(agents->server);
}
