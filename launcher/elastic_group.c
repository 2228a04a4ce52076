/* Node 0's agent decides: it takes waiting nodes from a queue and gives each its assignment. So
 * there is nothing to agree on. A node that does not take its assignment, because it died or was
 * stopped, has no heartbeat, and the group is formed again without it.
 *
 * If an agent's connection to the rendezvous fails, it connects again: perhaps only the network
 * failed.
 *
 * No rank runs during this, and signals have their default effect: they end this process, and the
 * others see its connection close. */
#include "launcher/elastic_group.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "launcher/node_assignment.h"
#include "launcher/store_queue.h"
#include "launcher/torchrun_rendezvous.h"

#define KEY_JOB "ddprun/job"
#define KEY_IDENTITY "ddprun/identity" // the job's identity, which differs from that of any other
#define KEY_NUM_AGENTS "ddprun/num_agents"
#define KEY_AGENT_ALL "ddprun/agent/"
#define KEY_AGENT KEY_AGENT_ALL "%d"
#define KEY_AGENT_GONE KEY_AGENT STORE_GONE
#define KEY_WAITING "ddprun/waiting"
#define KEY_ASSIGNMENT "ddprun/assignment/%d"
#define KEY_ATTEMPT "ddprun/attempt/%d" // in the attempt's own store, to identify it

#define TORCHRUN_SECONDS 1.0 // for a ddprun that serves the endpoint to identify itself
#define QUIET_SECONDS 10.0 // seconds until we log what we wait for
#define REJOIN_SECONDS 30.0 // for fixed nodes to meet again, after their workers have ended
#define RECONNECT_SECONDS 0.2 // to find out that no process serves the rendezvous any more
#define ASSIGNMENT_SECONDS 5.0 // to connect to a store that existed before the assignment was given
#define POLL_MS 50 // between polls for new nodes
#define LEAVE_SECONDS 2.0 // for waiting nodes to read that the job is over

static noreturn void end_without_host(const Group *group)
{
    die("the rendezvous host %s:%d is gone; the job ends, with the status of node 0", group->host,
        group->port);
}

/* Serves the endpoint, if this is the first agent on its host; others find the port in use. */
static void serve_endpoint(Group *group)
{
    const Flags *flags = group->flags;
    if (group->server != NULL || flags->is_host == 0 ||
        (flags->is_host < 0 && !address_is_here(group->host)))
        return;
    group->server = store_server_start(group->host, &group->port, "/" KEY_AGENT_ALL);
    char reason[NET_REASON_BYTES];
    CHECK(group->server != NULL || errno == EADDRINUSE, "cannot serve %s:%d: %s", group->host,
          group->port, net_listen_reason(errno, group->port, reason));
}

static void connect_endpoint(Group *group)
{
    const Flags *flags = group->flags;
    const char *host = group->host;
    const double deadline = seconds_awake() + flags->join_timeout;
    bool connected = false;
    for (bool logged = false;; logged = true) {
        serve_endpoint(group); // the process that had the port may have ended
        const double left = fmax(0, deadline - seconds_awake());
        connected = store_connect(&group->store, host, group->port, fmin(QUIET_SECONDS, left));
        if (connected || errno == EPROTO || errno == ENOMSG || left <= QUIET_SECONDS)
            break;
        if (!logged)
            log_info("waits for the rendezvous at %s:%d", host, group->port);
    }
    const int error = errno;
    char reason[NET_REASON_BYTES];
    CHECK(connected || (error != EPROTO && error != ENOMSG),
          "no rendezvous at %s:%d (%s): %s: choose another port in --rdzv-endpoint", host,
          group->port, store_connect_reason(error),
          address_is_here(host) ? net_listen_reason(EADDRINUSE, group->port, reason)
                                : "another program has it");
    CHECK(connected,
          "no rendezvous at %s:%d within %g s (%s): is ddprun started on that host, with the same "
          "--rdzv-endpoint?",
          host, group->port, flags->join_timeout, store_connect_reason(error));
    group->store.timeout = job_store_timeout(flags);
}

/* Publishes the job, or dies if the endpoint has another one, whose agents would wait for ours. */
static void check_job(Group *group)
{
    const Flags *flags = group->flags;
    char ours[256], theirs[256] = "";
    snprintf(ours, sizeof ours, "--nnodes %d:%d --rdzv-id %s --max-restarts %d", flags->min_nodes,
             flags->max_nodes, flags->run_id, flags->max_restarts);
    if (group->server != NULL) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(group->identity, sizeof group->identity, "%d %lld.%09ld", (int)getpid(),
                 (long long)now.tv_sec, now.tv_nsec);
        if (!group->store.has_secret)
            secret_report_none(group->host, group->port);
        store_set(&group->store, KEY_IDENTITY, group->identity, strlen(group->identity));
        store_set(&group->store, KEY_JOB, ours, strlen(ours));
        torchrun_refuse(&group->store, flags->run_id);
        return;
    }
    const bool is_here = store_try_wait(&group->store, KEY_JOB, TORCHRUN_SECONDS);
    if (!is_here)
        store_check_secret(&group->store);
    CHECK(is_here || !torchrun_is_here(&group->store, flags->run_id) ||
              store_check(&group->store, KEY_JOB), // our host sets it first
          "the rendezvous at %s:%d is torchrun's: start ddprun or torchrun on all nodes",
          group->host, group->port);
    CHECK(is_here || store_try_wait(&group->store, KEY_JOB, QUIET_SECONDS),
          "the store at %s:%d is not a ddprun's with nodes that come and go: name another "
          "--rdzv-endpoint",
          group->host, group->port);
    store_get(&group->store, KEY_JOB, theirs, sizeof theirs - 1);
    CHECK(strcmp(ours, theirs) == 0, "this node has %s, but the job at %s:%d %s: give all the same",
          ours, group->host, group->port, theirs);
    store_get(&group->store, KEY_IDENTITY, group->identity, sizeof group->identity - 1);
}

static void register_agent(Group *group)
{
    group->number = (int)store_add(&group->store, KEY_NUM_AGENTS, 1);
    store_set(&group->store, node_key(KEY_AGENT, group->number).text, "", 0);
}

void group_open(Group *group, Flags *flags, const TorchrunFlags *torchrun)
{
    *group = (Group){ .flags = flags,
                      .torchrun = torchrun,
                      .min_nodes = flags->min_nodes,
                      .max_nodes = flags->max_nodes,
                      .port = flags->master_port };
    job_secret_init(flags);
    if (!flags->elastic)
        return;
    strcpy(group->host, flags->master_addr);
    connect_endpoint(group);
    check_job(group);
    if (group->server != NULL) {
        group->waiting = mem_calloc(FLAGS_MAX_NODES, sizeof *group->waiting);
        return;
    }
    register_agent(group);
    group->store.may_fail = true;
}

/* Updates the list of waiting nodes, on node 0. */
static void update_waiting(Group *group)
{
    char text[1024];
    StoreValue value = { text, sizeof text };
    while (store_queue_pop(&group->store, KEY_WAITING, false, &value)) {
        Node node;
        if (group->num_waiting < FLAGS_MAX_NODES && value.bytes <= sizeof text &&
            node_decode(&node, text, value.bytes))
            group->waiting[group->num_waiting++] = node;
        value.bytes = sizeof text;
    }
    int num_left = 0;
    for (int i = 0; i < group->num_waiting; i++)
        if (!store_check(&group->store, node_key(KEY_AGENT_GONE, group->waiting[i].number).text))
            group->waiting[num_left++] = group->waiting[i];
    group->num_waiting = num_left;
}

bool group_may_grow(Group *group)
{
    if (group->server == NULL || group->flags->max_nodes == group->max_nodes)
        return false;
    update_waiting(group);
    return group->num_waiting > 0;
}

void group_change(Agents *agents)
{
    char end[1];
    if (agents->store.failed && agents->verdict == VERDICT_NONE)
        agents->verdict = VERDICT_CHANGED;
    else if (!store_check(&agents->store, KEY_NUM_MEMBERS)) // else some nodes are done already
        store_compare_set(&agents->store, KEY_END, "", END_CHANGED, end, sizeof end);
}

static void assign(Group *group, const Node *node, const Assignment *assignment)
{
    char *text = assignment_encode(assignment);
    store_set(&group->store, node_key(KEY_ASSIGNMENT, node->number).text, text, strlen(text));
    free(text);
}

/* Notifies all waiting nodes, on node 0, that the job has ended, and waits until they have left. */
static void announce_end(Group *group, int status, const char *reason)
{
    Assignment end = { .is_over = true, .status = status };
    snprintf(end.reason, sizeof end.reason, "%s", reason);
    update_waiting(group);
    for (int i = 0; i < group->num_waiting; i++)
        assign(group, &group->waiting[i], &end);
    const double deadline = seconds_awake() + LEAVE_SECONDS;
    while (group->num_waiting > 0 && seconds_awake() < deadline) {
        poll(NULL, 0, POLL_MS);
        update_waiting(group);
    }
}

static noreturn void give_up(Group *group)
{
    char reason[512];
    snprintf(reason, sizeof reason,
             "only %d of at least %d nodes came to %s:%d within %g s: is ddprun started on every "
             "node, with the same --rdzv-endpoint and --nnodes?",
             1 + group->num_waiting, group->min_nodes, group->host, group->port,
             group->flags->join_timeout);
    announce_end(group, EXIT_FAILURE, reason);
    die("%s", reason);
}

/* Waits, on node 0, until there are enough nodes. Returns how many the group has. */
static int wait_for_nodes(Group *group)
{
    const Flags *flags = group->flags;
    const double begun = seconds_awake();
    double last_call = INFINITY;
    for (bool logged = false;; poll(NULL, 0, POLL_MS)) {
        update_waiting(group);
        const double now = seconds_awake();
        const int num_nodes = 1 + group->num_waiting;
        if (num_nodes >= group->max_nodes)
            return group->max_nodes;
        if (num_nodes < group->min_nodes)
            last_call = INFINITY;
        else
            last_call = fmin(last_call, now + flags->last_call_timeout);
        if (now >= last_call)
            return num_nodes;
        if (num_nodes < group->min_nodes && now > begun + flags->join_timeout)
            give_up(group);
        if (!logged && now > begun + QUIET_SECONDS)
            log_info("%d of %d to %d nodes are at %s:%d; waits for more", num_nodes,
                     group->min_nodes, group->max_nodes, group->host, group->port);
        logged |= now > begun + QUIET_SECONDS;
    }
}

/* Opens the attempt's store, on node 0, and gives the first nodes their assignments. */
static void form(Group *group, Agents *agents)
{
    Flags *flags = group->flags;
    flags->node_rank = 0;
    flags->max_nodes = wait_for_nodes(group);
    flags->master_port = 0;
    if (flags->local_addr != NULL)
        flags_set_address(flags, "--local-addr", flags->local_addr);
    agents_open(agents, flags);
    flags->master_port = agents->master_port;
    if (flags->max_nodes == 1)
        return;

    const int num_others = flags->max_nodes - 1;
    Node *nodes = mem_calloc((size_t)flags->max_nodes, sizeof *nodes);
    nodes[0].num_ranks = flags->nproc_per_node;
    snprintf(nodes[0].role, sizeof nodes[0].role, "%s", flags->role);
    memcpy(nodes + 1, group->waiting, (size_t)num_others * sizeof *nodes);
    group->num_waiting -= num_others;
    memmove(group->waiting, group->waiting + num_others,
            (size_t)group->num_waiting * sizeof *nodes);

    CHECK(job_store_connect(&agents->store, flags, job_store_timeout(flags)),
          "no store at %s:%d: %s", flags->master_addr, flags->master_port,
          store_connect_reason(errno));
    store_set(&agents->store, node_key(KEY_ATTEMPT, group->restart_count).text, "", 0);
    for (int i = 0; i < flags->max_nodes; i++)
        store_set(&agents->store, node_key(KEY_HEARTBEAT, i).text, "0", 1); // its owner counts up
    store_ping(&agents->store); // so that the keys are set
    for (int i = 1; i < flags->max_nodes; i++) {
        Assignment assignment = { .node_rank = i,
                                  .num_nodes = flags->max_nodes,
                                  .master_port = flags->master_port,
                                  .ranks = nodes_share_ranks(nodes, flags->max_nodes, i),
                                  .restart_count = group->restart_count,
                                  .num_failures = group->num_failures };
        strcpy(assignment.master_addr, flags->master_addr);
        assign(group, &nodes[i], &assignment);
    }
    agents->ranks = nodes_share_ranks(nodes, flags->max_nodes, 0);
    free(nodes);
    agents_begin(agents);
}

/* Returns whether the store at the endpoint is still this job's. */
static bool is_same_job(Group *group)
{
    char identity[sizeof group->identity] = "";
    if (store_check(&group->store, KEY_IDENTITY))
        store_get(&group->store, KEY_IDENTITY, identity, sizeof identity - 1);
    return strcmp(identity, group->identity) == 0;
}

/* Waits in the queue for an assignment, for QUIET_SECONDS seconds at most. Returns its length, or 0
 * if there is none yet or the connection has failed. */
static size_t request_assignment(Group *group, char *text, size_t bytes)
{
    Store *store = &group->store;
    if (group->number == 0 && !is_same_job(group) && !store->failed)
        end_without_host(group);
    if (group->number == 0)
        register_agent(group);
    if (!group->is_queued) {
        char *node = node_encode(group->flags, group->number);
        store_queue_push(store, KEY_WAITING, node, strlen(node));
        free(node);
        group->is_queued = true;
    }
    const Key key = node_key(KEY_ASSIGNMENT, group->number);
    for (const double begun = seconds_awake(); !store_check(store, key.text);) {
        // The store sends nothing unasked: if there is something to read, it has closed.
        store->failed |=
            poll(&(struct pollfd){ .fd = store->fd, .events = POLLIN }, 1, POLL_MS) > 0;
        if (store->failed || seconds_awake() > begun + QUIET_SECONDS)
            return 0;
    }
    const size_t length = store_get(store, key.text, text, bytes);
    store_delete(store, key.text);
    return store->failed ? 0 : length;
}

/* Connects to the rendezvous again after a failed connection; perhaps only the network failed. */
static void reconnect(Group *group, double deadline)
{
    const char *host = group->host;
    bool connected = false;
    store_free(&group->store);
    for (bool logged = false; !connected; logged = true) {
        const double left = deadline - seconds_awake();
        const double seconds = fmin(logged ? QUIET_SECONDS : RECONNECT_SECONDS, left);
        connected = left > 0 && store_connect(&group->store, host, group->port, seconds);
        if (!connected && (left <= QUIET_SECONDS || errno == ECONNREFUSED || errno == EPROTO))
            end_without_host(group);
        if (!connected && !logged)
            log_info("waits at %s:%d to be let in again: no answer from there", host, group->port);
    }
    group->store.timeout = job_store_timeout(group->flags);
    group->store.may_fail = true;
    group->number = 0; // node 0 knows agents by their connections
    group->is_queued = false;
}

/* Waits, on the other nodes, for an assignment while node 0 is there. */
static Assignment wait_for_assignment(Group *group)
{
    char text[1024];
    size_t length = 0;
    double last_answer = seconds_awake(); // when node 0 last answered
    group->is_queued = false;
    for (bool logged = false; length == 0;) {
        length = request_assignment(group, text, sizeof text);
        if (group->store.failed) {
            reconnect(group, last_answer + group->flags->join_timeout);
            continue;
        }
        last_answer = seconds_awake();
        if (length == 0 && !logged)
            log_info("waits at %s:%d to be let in", group->host, group->port);
        logged = true;
    }
    Assignment assignment;
    CHECK(length <= sizeof text && assignment_decode(&assignment, text, length),
          "node 0 gives nonsense for an assignment: %.*s", (int)fmin((double)length, 200), text);
    return assignment;
}

/* Returns false if the attempt is over: this agent may have been stopped for a while. */
static bool accept_assignment(Group *group, Agents *agents, const Assignment *assignment)
{
    Flags *flags = group->flags;
    Store store;
    flags->node_rank = assignment->node_rank;
    flags->max_nodes = assignment->num_nodes;
    snprintf(flags->master_addr, sizeof flags->master_addr, "%s", assignment->master_addr);
    flags->master_port = assignment->master_port;
    group->restart_count = assignment->restart_count;
    group->num_failures = assignment->num_failures;
    if (!job_store_connect(&store, flags, ASSIGNMENT_SECONDS))
        return false;
    store.timeout = job_store_timeout(flags);
    if (!store_check(&store, node_key(KEY_ATTEMPT, assignment->restart_count).text)) {
        store_free(&store); // the store of another attempt, at the same port
        return false;
    }
    char *node = node_encode(flags, assignment->node_rank);
    store_set(&store, node_key(KEY_ROLE_INFO, assignment->node_rank).text, node, strlen(node));
    free(node);
    agents_open(agents, flags);
    agents->store = store;
    agents->ranks = assignment->ranks;
    agents_begin(agents);
    return true;
}

/* Lets fixed nodes meet again after an attempt: node 0 marks its store with the number of the next
 * one, and the others wait for it. Without the mark, a node that lost contact with node 0 might
 * find the store of the previous attempt, or none yet. */
static void rejoin(Group *group)
{
    Flags *flags = group->flags;
    const Key key = node_key(KEY_ATTEMPT, group->restart_count);
    flags->join_timeout = fmin(flags->join_timeout, REJOIN_SECONDS + flags->shutdown_timeout);
    const double deadline = seconds_awake() + flags->join_timeout;
    bool met = false;
    while (!met && seconds_awake() < deadline) {
        Store store;
        if (job_store_connect(&store, flags, QUIET_SECONDS)) {
            store.may_fail = true;
            if (flags->node_rank == 0)
                store_set(&store, key.text, "", 0);
            met = store_check(&store, key.text);
            store_free(&store);
        }
        if (!met)
            poll(NULL, 0, POLL_MS);
    }
    CHECK(met, "node %d did not meet node 0 again at %s:%d within %g s", flags->node_rank,
          flags->master_addr, flags->master_port, flags->join_timeout);
}

bool group_join(Group *group, Agents *agents)
{
    Flags *flags = group->flags;
    if (!flags->elastic) {
        agents_open(agents, flags);
        if (group->restart_count > 0 && flags->max_nodes > 1)
            rejoin(group);
        agents_begin(agents);
        return true;
    }
    if (group->server != NULL) {
        form(group, agents);
        return true;
    }
    Assignment assignment;
    do {
        assignment = wait_for_assignment(group);
        if (assignment.is_over) {
            log_info("%s", assignment.reason);
            group->status = assignment.status;
            if (group->status != EXIT_SUCCESS)
                history_print(&group->history);
            store_free(&group->store);
            return false;
        }
    } while (!accept_assignment(group, agents, &assignment));
    return true;
}

bool agents_left_out(const Agents *agents)
{
    return agents->flags->max_nodes > 1 && agents->store.failed;
}

void group_close(Group *group, int status)
{
    if (!group->flags->elastic)
        return;
    if (group->server != NULL) {
        char reason[512];
        snprintf(reason, sizeof reason, "the job at %s:%d has ended with status %d", group->host,
                 group->port, status);
        announce_end(group, status, reason);
        store_server_stop(group->server);
    }
    store_free(&group->store);
    free(group->waiting);
}

void group_free(Group *group)
{
    history_free(&group->history);
}
