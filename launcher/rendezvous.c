/* torchrun's static rendezvous, key by key. Every node publishes its role and number of ranks; node
 * 0 reads them all and answers each with its ranks. So one node decides the job's size. */
#include "launcher/launch.h"

#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/comm/store/handshake.h"

#define QUIET_SECONDS 10.0 // seconds until we log what we wait for
#define LINGER_MS 1000 // time for the others to read why there will be no job
#define MIN_TIMEOUT 5.0 // seconds, because a busy machine may answer late

Key node_key(const char *format, int node)
{
    Key key;
    snprintf(key.text, sizeof key.text, format, node);
    return key;
}

bool address_is_here(const char *host)
{
    struct addrinfo *addresses = NULL;
    if (getaddrinfo(host, NULL, NULL, &addresses) != 0)
        return false;
    bool is_here = false;
    for (const struct addrinfo *at = addresses; at != NULL && !is_here; at = at->ai_next) {
        const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        is_here = bind(fd, at->ai_addr, at->ai_addrlen) == 0; // a local address
        close(fd);
    }
    freeaddrinfo(addresses);
    return is_here;
}

void job_secret_init(const Flags *flags)
{
    char path[PATH_MAX];
    const char *file = flags->secret_file;
    SYS_CHECK(setenv("TORCHELASTIC_RUN_ID", flags->run_id, 1)); // part of each handshake
    if (file != NULL)
        SYS_CHECK(setenv(SECRET_VARIABLE, realpath(file, path) != NULL ? path : file, 1));
    else if (flags->max_nodes == 1)
        secret_make();
    if (secret_find(HANDSHAKE_STORE) == NULL && flags->max_nodes > 1)
        SYS_CHECK(setenv(SECRET_VARIABLE, "", 1));
}

bool job_store_connect(Store *store, const Flags *flags, double seconds)
{
    if (!store_connect(store, flags->master_addr, flags->master_port, seconds))
        return false;
    snprintf(store->prefix, sizeof store->prefix, "%s/", flags->run_id);
    return true;
}

double job_store_timeout(const Flags *flags)
{
    return fmax(MIN_TIMEOUT, flags->heartbeat_limit * flags->heartbeat_interval);
}

char *node_encode(const Flags *flags, int number)
{
    json_t *info = json_pack("{ss si si}", "role", flags->role, "rank", number, "local_world_size",
                             flags->nproc_per_node);
    CHECK(info != NULL, "--role must be UTF-8");
    char *text = json_dumps(info, 0);
    CHECK(text != NULL, "out of memory");
    json_decref(info);
    return text;
}

bool node_decode(Node *node, const char *text, size_t bytes)
{
    *node = (Node){ 0 };
    json_t *info = json_loadb(text, bytes, 0, NULL);
    const char *role = "";
    const bool valid = json_unpack(info, "{ss si s?i}", "role", &role, "local_world_size",
                                   &node->num_ranks, "rank", &node->number) == 0 &&
                       strlen(role) < sizeof node->role && node->num_ranks > 0 &&
                       node->num_ranks <= FLAGS_MAX_WORKERS;
    if (valid)
        strcpy(node->role, role);
    json_decref(info);
    return valid;
}

Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node)
{
    Ranks ranks = { 0 };
    for (int i = 0; i < num_nodes; i++) {
        const int role_ranks =
            strcmp(nodes[node].role, nodes[i].role) == 0 ? nodes[i].num_ranks : 0;
        ranks.world_size += nodes[i].num_ranks;
        ranks.role_world_size += role_ranks;
        ranks.first_rank += i < node ? nodes[i].num_ranks : 0;
        ranks.first_role_rank += i < node ? role_ranks : 0;
    }
    return ranks;
}

/* Waits until the store has this key (NULL: until node 0 serves it). Dies after the deadline. */
static void wait_for(Store *store, const Flags *flags, const char *key, const char *awaited,
                     double deadline)
{
    const char *host = flags->master_addr;
    const int port = flags->master_port;
    const double left = fmax(deadline - seconds_awake(), 0);
    if (key != NULL ? store_try_wait(store, key, fmin(left, QUIET_SECONDS))
                    : job_store_connect(store, flags, fmin(left, QUIET_SECONDS)))
        return;
    if (key != NULL)
        store_check_secret(store);
    if (key != NULL || errno != EPROTO) {
        log_info("node %d of %d waits at %s:%d for %s", flags->node_rank, flags->max_nodes, host,
                 port, awaited);
        const double more = fmax(deadline - seconds_awake(), 0);
        if (key != NULL ? store_try_wait(store, key, more) : job_store_connect(store, flags, more))
            return;
    }
    CHECK(key != NULL || errno == ECONNREFUSED || errno == ETIMEDOUT,
          "no store of node 0 at %s:%d (%s): are --master-addr and --master-port right?", host,
          port, store_connect_reason(errno));
    die("%s did not come to %s:%d within %g s: is ddprun started on every node, with the same "
        "--master-addr, --master-port and --nnodes?",
        awaited, host, port, flags->join_timeout);
}

/* Dies, after putting the reason, a text, where the other nodes expect their numbers. */
static noreturn void refuse(Store *store, const Flags *flags, int num_nodes, const char *reason)
{
    json_t *string = json_text(reason);
    char *text = json_dumps(string, JSON_ENCODE_ANY);
    CHECK(text != NULL, "%s", reason);
    if (flags->node_rank > 0)
        store_set(store, node_key(KEY_ROLE_INFO, flags->node_rank).text, text, strlen(text));
    for (int i = 1; flags->node_rank == 0 && i < num_nodes; i++)
        store_set(store, node_key(KEY_ASSIGNED_RANKS, i).text, text, strlen(text));
    store_ping(store); // so that the keys are set
    if (flags->node_rank == 0)
        poll(NULL, 0, LINGER_MS);
    die("%s", reason);
}

/* Refuses a different --nnodes, since nodes would run, and then wait for ends that never come. */
static void agree_on_num_nodes(Store *store, const Flags *flags)
{
    char ours[64], theirs[64] = "", reason[256];
    int length = snprintf(ours, sizeof ours, "%d", flags->max_nodes);
    if (flags->max_restarts > 0)
        snprintf(ours + length, sizeof ours - (size_t)length, " --max-restarts %d",
                 flags->max_restarts);
    store_compare_set(store, KEY_NUM_NODES, "", ours, theirs, sizeof theirs - 1);
    if (strcmp(ours, theirs) == 0)
        return;
    snprintf(reason, sizeof reason,
             "node %d has --nnodes %s, but another one --nnodes %s: give all nodes the same",
             flags->node_rank, ours, theirs);
    const int most = (int)fmin(FLAGS_MAX_NODES, fmax(atoi(theirs), flags->max_nodes));
    refuse(store, flags, most, reason);
}

/* Reads the offers of all nodes, on node 0, and answers each: [first rank, ranks of the job, and
 * both among the ranks of the node's role]. */
static void assign_ranks(Store *store, const Flags *flags, double deadline)
{
    Node *nodes = mem_calloc((size_t)flags->max_nodes, sizeof *nodes);
    char text[1024];
    for (int i = 0; i < flags->max_nodes; i++) {
        char awaited[32];
        snprintf(awaited, sizeof awaited, "node %d", i);
        const Key key = node_key(KEY_ROLE_INFO, i);
        wait_for(store, flags, key.text, awaited, deadline);
        const size_t length = store_get(store, key.text, text, sizeof text);
        json_t *info =
            length <= sizeof text ? json_loadb(text, length, JSON_DECODE_ANY, NULL) : NULL;
        if (json_is_string(info))
            refuse(store, flags, flags->max_nodes, json_string_value(info));
        CHECK(length <= sizeof text && node_decode(&nodes[i], text, length),
              "node %d describes itself by nonsense: %.*s", i, (int)fmin((double)length, 200),
              text);
        json_decref(info);
    }
    for (int i = 0; i < flags->max_nodes; i++) {
        const Ranks ranks = nodes_share_ranks(nodes, flags->max_nodes, i);
        const int length = snprintf(text, sizeof text, "[%d, %d, %d, %d]", ranks.first_rank,
                                    ranks.world_size, ranks.first_role_rank, ranks.role_world_size);
        store_set(store, node_key(KEY_ASSIGNED_RANKS, i).text, text, (size_t)length);
    }
    free(nodes);
}

static Ranks read_ranks(Store *store, const Flags *flags)
{
    char text[256];
    const size_t length =
        store_get(store, node_key(KEY_ASSIGNED_RANKS, flags->node_rank).text, text, sizeof text);
    json_t *array = length <= sizeof text ? json_loadb(text, length, JSON_DECODE_ANY, NULL) : NULL;
    CHECK(!json_is_string(array), "%s", json_string_value(array));
    Ranks ranks = { 0 };
    CHECK(json_unpack(array, "[iiii]", &ranks.first_rank, &ranks.world_size, &ranks.first_role_rank,
                      &ranks.role_world_size) == 0 &&
              ranks.first_rank >= 0 && ranks.first_rank < ranks.world_size,
          "node 0 gives nonsense for ranks: %.*s", (int)fmin((double)length, sizeof text), text);
    json_decref(array);
    return ranks;
}

Ranks rendezvous(Store *store, const Flags *flags)
{
    const double deadline = seconds_awake() + flags->join_timeout;
    wait_for(store, flags, NULL, "node 0", deadline);
    if (flags->node_rank == 0 && flags->max_nodes > 1 && !store->has_secret)
        secret_report_none(flags->master_addr, flags->master_port);
    CHECK(!store_check(store, KEY_END), "the previous job has not quite ended at %s:%d",
          flags->master_addr, flags->master_port);
    store_count_worker(store, 1); // a torchrun on node 0 waits for this
    agree_on_num_nodes(store, flags);
    CHECK(store_add(store, node_key(KEY_HEARTBEAT, flags->node_rank).text, 1) == 1,
          "node %d is there already: each node needs its own --node-rank", flags->node_rank);

    char *info = node_encode(flags, flags->node_rank);
    store_set(store, node_key(KEY_ROLE_INFO, flags->node_rank).text, info, strlen(info));
    free(info);
    if (flags->node_rank == 0)
        assign_ranks(store, flags, deadline);
    wait_for(store, flags, node_key(KEY_ASSIGNED_RANKS, flags->node_rank).text, "all nodes",
             deadline);
    return read_ranks(store, flags);
}
