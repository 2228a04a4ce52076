/*
 * The rendezvous, and how it ends. All that may take long is asked with a deadline of its own, and
 * once the workers run only the pulse (pulse.h) waits for the other nodes.
 */
#include "common/launch/agents.h"

#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define KEY_ROLE_INFO "torchelastic/role_info/%d"
#define KEY_ASSIGNED_RANKS "torchelastic/assigned_ranks/%d"
#define KEY_NUM_MEMBERS "torchelastic/agent/terminal_state/num_members"
#define KEY_NUM_STOPPED "ddprun/num_stopped" // of these

#define PATIENCE 10.0 // seconds until we say whom we wait for
#define TIMEOUT 30.0 // seconds, of calls once all have met
#define STRANGERS_TIMEOUT 300.0 // seconds, as torchrun's
#define SETTLE_SECONDS 0.3 // in which all nodes have told of their failures
#define LEAVE_SECONDS 10.0 // to end, for the others, when their workers have ended
#define LOOK_SECONDS 0.02 // between two looks at whether they have
#define MAX_FAILURE (64 << 10) // bytes of JSON

typedef struct {
    char role[256];
    int num_ranks;
} Node;

static void pause_for(double seconds)
{
    poll(NULL, 0, (int)ceil(1e3 * seconds));
}

static const char *node_key(char key[64], const char *format, int node)
{
    snprintf(key, 64, format, node);
    return key;
}

static void say_waiting(const Flags *flags, const char *whom)
{
    log_info("ddprun: node %d of %d waits at %s:%d for %s", flags->node_rank, flags->max_nodes,
             flags->master_addr, flags->master_port, whom);
}

static noreturn void give_up(const Flags *flags, const char *whom)
{
    die("%s did not come to %s:%d within %g s: is ddprun started on every node, with the same "
        "--master-addr, --master-port and --nnodes?",
        whom, flags->master_addr, flags->master_port, flags->join_timeout);
}

static void connect_store(Agents *agents, double deadline)
{
    const Flags *flags = agents->flags;
    if (pulse_connect(&agents->store, flags, fmin(PATIENCE, flags->join_timeout)))
        return;
    say_waiting(flags, "node 0");
    if (!pulse_connect(&agents->store, flags, fmax(deadline - seconds_now(), 0)))
        give_up(flags, "node 0");
}

static void wait_for(Agents *agents, const char *key, const char *whom, double deadline)
{
    const double left = fmax(deadline - seconds_now(), 0);
    if (store_try_wait(&agents->store, key, fmin(left, PATIENCE)))
        return;
    say_waiting(agents->flags, whom);
    if (!store_try_wait(&agents->store, key, fmax(left - PATIENCE, 0)))
        give_up(agents->flags, whom);
}

/* Node 0: reads what the nodes bring. */
static void read_nodes(Agents *agents, Node *nodes, double deadline)
{
    for (int i = 0; i < agents->flags->max_nodes; i++) {
        char key[64], text[1024], whom[32];
        snprintf(whom, sizeof whom, "node %d", i);
        wait_for(agents, node_key(key, KEY_ROLE_INFO, i), whom, deadline);
        const size_t length = store_get(&agents->store, key, text, sizeof text);
        json_t *info = length <= sizeof text ? json_loadb(text, length, 0, NULL) : NULL;
        const char *role = "";
        const bool valid = json_unpack(info, "{ss si}", "role", &role, "local_world_size",
                                       &nodes[i].num_ranks) == 0 &&
                           strlen(role) < sizeof nodes[i].role && nodes[i].num_ranks > 0 &&
                           nodes[i].num_ranks <= FLAGS_MAX_WORKERS;
        CHECK(valid, "node %d says nonsense of itself: %.*s", i, (int)fmin((double)length, 200),
              text);
        strcpy(nodes[i].role, role);
        json_decref(info);
    }
}

/* Node 0: ranks are counted through by node, and among the nodes of each role once more. */
static void assign_ranks(Agents *agents, const Node *nodes)
{
    const int num_nodes = agents->flags->max_nodes;
    for (int i = 0; i < num_nodes; i++) {
        int first_rank = 0, world_size = 0, first_role_rank = 0, role_world_size = 0;
        for (int j = 0; j < num_nodes; j++) {
            const int role_ranks =
                strcmp(nodes[i].role, nodes[j].role) == 0 ? nodes[j].num_ranks : 0;
            world_size += nodes[j].num_ranks;
            role_world_size += role_ranks;
            first_rank += j < i ? nodes[j].num_ranks : 0;
            first_role_rank += j < i ? role_ranks : 0;
        }
        char key[64], text[64];
        const int length = snprintf(text, sizeof text, "[%d, %d, %d, %d]", first_rank, world_size,
                                    first_role_rank, role_world_size);
        store_set(&agents->store, node_key(key, KEY_ASSIGNED_RANKS, i), text, (size_t)length);
    }
}

static void share_out_ranks(Agents *agents, double deadline)
{
    const Flags *flags = agents->flags;
    char key[64], text[64];
    json_t *info = json_pack("{ss si si}", "role", flags->role, "rank", flags->node_rank,
                             "local_world_size", flags->nproc_per_node);
    CHECK(info != NULL, "--role must be UTF-8");
    char *info_text = json_dumps(info, 0);
    store_set(&agents->store, node_key(key, KEY_ROLE_INFO, flags->node_rank), info_text,
              strlen(info_text));
    free(info_text);
    json_decref(info);

    if (flags->node_rank == 0) {
        Node *nodes = mem_calloc((size_t)flags->max_nodes, sizeof *nodes);
        read_nodes(agents, nodes, deadline);
        assign_ranks(agents, nodes);
        free(nodes);
    }
    wait_for(agents, node_key(key, KEY_ASSIGNED_RANKS, flags->node_rank), "all nodes", deadline);
    const size_t length = store_get(&agents->store, key, text, sizeof text - 1);
    text[length < sizeof text ? length : 0] = '\0';
    CHECK(sscanf(text, "[%d, %d, %d, %d]", &agents->first_rank, &agents->world_size,
                 &agents->first_role_rank, &agents->role_world_size) == 4,
          "node 0 gives no ranks: %s", text);
}

void agents_join(Agents *agents, const Flags *flags)
{
    *agents = (Agents){ .flags = flags,
                        .master_port = flags->master_port,
                        .world_size = flags->nproc_per_node,
                        .role_world_size = flags->nproc_per_node,
                        .has_others = flags->max_nodes > 1 };
    if (flags->node_rank == 0) {
        agents->server = store_server_start(flags->master_addr, &agents->master_port);
        CHECK(agents->server != NULL, "cannot serve the store at %s:%d: %s; try --master-port",
              flags->master_addr, agents->master_port, strerror(errno));
    }
    if (!agents->has_others)
        return;

    const double deadline = seconds_now() + flags->join_timeout;
    connect_store(agents, deadline);
    store_count_worker(&agents->store, 1);
    char key[64];
    CHECK(store_add(&agents->store, node_key(key, KEY_PULSE, flags->node_rank), 1) == 1,
          "node %d is there already: each node needs its own --node-rank", flags->node_rank);
    pulse_start(&agents->pulse, flags);
    share_out_ranks(agents, deadline);
    for (int i = 0; i < flags->max_nodes; i++)
        agents->has_strangers |= !store_check(&agents->store, node_key(key, KEY_PULSE, i));
    agents->store.timeout = TIMEOUT;
}

/* The server speaks only when asked: what comes unasked is the end of the connection. */
static bool is_reachable(const Agents *agents)
{
    return poll(&(struct pollfd){ .fd = agents->store.fd, .events = POLLIN }, 1, 0) == 0;
}

void agents_done(Agents *agents, bool stopped)
{
    if (agents->done_since > 0)
        return;
    agents->done_since = seconds_now();
    if (!agents->has_others) {
        agents->verdict = stopped ? VERDICT_STOPPED : VERDICT_DONE;
    } else if (is_reachable(agents)) {
        const bool any_stopped = store_add(&agents->store, KEY_NUM_STOPPED, stopped) > 0;
        const char *end = any_stopped ? END_STOPPED : END_DONE;
        if (store_add(&agents->store, KEY_NUM_MEMBERS, 1) == agents->flags->max_nodes)
            store_set(&agents->store, KEY_END, end, strlen(end));
    }
}

void agents_fail(Agents *agents, const Failure *failure)
{
    agents->verdict = VERDICT_FAILED;
    agents->failure = *failure;
    if (agents->has_others && is_reachable(agents))
        pulse_publish_failure(&agents->store, failure);
}

Verdict agents_verdict(Agents *agents)
{
    if (agents->verdict != VERDICT_NONE || !agents->has_others)
        return agents->verdict;
    const Flags *flags = agents->flags;
    const double waited = agents->done_since > 0 ? seconds_now() - agents->done_since : 0;
    char end[32];
    const PulseNews news = pulse_news(&agents->pulse, end, sizeof end);
    if (news == PULSE_END) {
        agents->verdict = strcmp(end, END_FAILED) == 0    ? VERDICT_FAILED
                          : strcmp(end, END_STOPPED) == 0 ? VERDICT_STOPPED
                                                          : VERDICT_DONE;
    } else if (news == PULSE_LOST || (agents->has_strangers && waited > STRANGERS_TIMEOUT)) {
        Failure failure;
        if (news == PULSE_LOST)
            failure_of_launcher(&failure, 0, EXIT_FAILURE, "node 0 is out of reach");
        else
            failure_of_launcher(&failure, flags->node_rank, EXIT_FAILURE,
                                "other nodes have not ended %g s after this one", waited);
        agents_fail(agents, &failure);
    }
    return agents->verdict;
}

const Failure *agents_root_cause(Agents *agents)
{
    if (!agents->has_others || !is_reachable(agents))
        return &agents->failure;
    pause_for(SETTLE_SECONDS);
    char *text = mem_calloc(MAX_FAILURE, 1);
    for (int i = 0; i < agents->flags->max_nodes; i++) {
        char key[64];
        Failure failure;
        if (!store_check(&agents->store, node_key(key, KEY_FAILURE, i)))
            continue;
        const size_t length = store_get(&agents->store, key, text, MAX_FAILURE);
        if (length <= MAX_FAILURE && failure_decode(&failure, text, length) &&
            failure_is_earlier(&failure, &agents->failure))
            agents->failure = failure;
    }
    free(text);
    return &agents->failure;
}

void agents_leave(Agents *agents)
{
    const Flags *flags = agents->flags;
    if (agents->has_others) {
        const double deadline = seconds_now() + flags->shutdown_timeout + LEAVE_SECONDS;
        char key[64];
        pulse_stop(&agents->pulse);
        if (is_reachable(agents))
            store_delete(&agents->store, node_key(key, KEY_PULSE, flags->node_rank));
        for (int i = 1; flags->node_rank == 0 && i < flags->max_nodes; i++) {
            while (store_check(&agents->store, node_key(key, KEY_PULSE, i)) &&
                   seconds_now() < deadline)
                pause_for(LOOK_SECONDS);
        }
        store_free(&agents->store);
    }
    if (agents->server != NULL)
        store_server_stop(agents->server);
}
