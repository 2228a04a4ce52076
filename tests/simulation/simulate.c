/* Usage: simulate SCENARIO COUNT [FIRST]      Runs COUNT seeds, beginning with FIRST (1).
 *        simulate SCENARIO replay SEED        Repeats a run, printing every call.
 * SIM_TRACES=1 prints the hash of each seed's calls, which an optimized simulator must not change.
 * SCENARIO is store, rendezvous, elastic, reconfigure or network. A seed that fails is reported
 * in one line, and the status is then 1. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/comm/store/store.h"
#include "launcher/elastic_group.h"
#include "launcher/launch.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulator.h"

#define PORT 29500
#define CLIENTS 3
#define OPERATIONS 5 // operations of a client
#define KEYS 2
#define BATCH 500 // runs per process, because killed tasks leave memory behind
#define ABSENT INT64_MIN
#define JOIN_SECONDS 30.0
#define MARGIN 60.0 // seconds for the last answers and for pauses

typedef enum { SET, GET, ADD, COMPARE_SET, CHECK_KEY, WAIT_KEY, NUM_KINDS } Kind;

typedef struct {
    Kind kind;
    int key;
    int64_t argument, expected, result;
    double begun, ended, deadline; // ended: INFINITY if it may or may not have happened
} Operation;

static Operation history[CLIENTS * OPERATIONS];
static int num_operations;
bool has_faults;
static char wrong[256];

void complain(const char *what, int64_t value)
{
    if (wrong[0] == '\0')
        snprintf(wrong, sizeof wrong, "%s (%lld)", what, (long long)value);
}

/* ---- linearizability: do the results fit a sequential order of operations on one table? ---- */

/* Returns false if the operation cannot come next. */
static bool apply(const Operation *op, int64_t *value)
{
    const bool is_known = op->ended < INFINITY;
    switch (op->kind) {
    case SET:
        *value = op->argument;
        return true;
    case ADD:
        *value = (*value == ABSENT ? 0 : *value) + op->argument;
        return !is_known || op->result == *value;
    case COMPARE_SET: {
        const int64_t before = *value;
        if (before == op->expected)
            *value = op->argument;
        return !is_known || op->result == (*value == ABSENT ? op->expected : *value);
    }
    case GET:
        return *value == op->result;
    default:
        return (*value != ABSENT) == op->result;
    }
}

static bool explain(Operation *const *ops, int count, unsigned done, int64_t value)
{
    double first_end = INFINITY;
    bool all = true;
    for (int i = 0; i < count; i++)
        if (!(done >> i & 1)) {
            first_end = fmin(first_end, ops[i]->ended);
            all &= ops[i]->ended == INFINITY;
        }
    if (all)
        return true;
    for (int i = 0; i < count; i++) {
        int64_t next = value;
        if (!(done >> i & 1) && ops[i]->begun <= first_end && apply(ops[i], &next) &&
            explain(ops, count, done | 1u << i, next))
            return true;
    }
    return false;
}

static void check_history(void)
{
    for (int key = 0; key < KEYS; key++) {
        Operation *ops[CLIENTS * OPERATIONS];
        int count = 0;
        for (int i = 0; i < num_operations; i++)
            if (history[i].key == key)
                ops[count++] = &history[i];
        if (!explain(ops, count, 0, ABSENT))
            complain("no order of operations explains the results for key", key);
        for (int i = 0; i < count && !has_faults; i++)
            for (int j = 0; j < count; j++) // a wait that should have ended
                if (ops[i]->kind == WAIT_KEY && !ops[i]->result && ops[i]->ended < INFINITY &&
                    (ops[j]->kind == SET || ops[j]->kind == ADD) &&
                    ops[j]->ended < ops[i]->deadline - 2)
                    complain("a wake-up is lost: a wait ends in vain though the key was set", key);
    }
}

/* ---- the store, and clients that use it ---- */

static void *serve(void *unused)
{
    (void)unused;
    int port = PORT;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    for (int i = 1; i <= CLIENTS; i++)
        while (!sim_has_ended(i))
            sim_sleep(0.5);
    store_server_stop(server);
    return NULL;
}

static int64_t number_of(const char *text)
{
    return text[0] == '\0' ? ABSENT : strtoll(text, NULL, 10);
}

static void operate(Store *store, Operation *op)
{
    char key[8], text[32] = "", expected[32] = "", result[32] = "";
    snprintf(key, sizeof key, "key%d", op->key);
    snprintf(text, sizeof text, "%lld", (long long)op->argument);
    if (op->expected != ABSENT)
        snprintf(expected, sizeof expected, "%lld", (long long)op->expected);
    const double timeout = 1 + (double)sim_random(10);
    op->deadline = sim_now() + timeout;
    switch (op->kind) {
    case SET:
        store_set(store, key, text, strlen(text));
        return;
    case GET:
        store_get(store, key, result, sizeof result - 1);
        op->result = number_of(result);
        return;
    case ADD:
        op->result = store_add(store, key, op->argument);
        return;
    case COMPARE_SET:
        store_compare_set(store, key, expected, text, result, sizeof result - 1);
        op->result = number_of(result);
        return;
    case CHECK_KEY:
        op->result = store_check(store, key);
        return;
    default:
        op->result = store_try_wait(store, key, timeout);
    }
}

static void *use_store(void *unused)
{
    (void)unused;
    Store store;
    sim_sleep((double)sim_random(1000) / 1e3);
    if (!store_connect(&store, "127.0.0.1", PORT, 20))
        return NULL;
    store.may_fail = true;
    Operation *unknown[OPERATIONS]; // not acknowledged yet
    int num_unknown = 0;
    for (int i = 0; i < OPERATIONS && !store.failed; i++) {
        Operation *op = &history[num_operations++];
        *op = (Operation){ .kind = (Kind)sim_random(NUM_KINDS),
                           .key = (int)sim_random(KEYS),
                           .argument = 1 + (int64_t)sim_random(3),
                           .expected = sim_chance(0.4) ? ABSENT : 1 + (int64_t)sim_random(3),
                           .begun = sim_now(),
                           .ended = INFINITY };
        unknown[num_unknown++] = op;
        operate(&store, op);
        while (op->kind != SET && !store.failed && num_unknown > 0)
            unknown[--num_unknown]->ended = sim_now();
    }
    store_free(&store);
    return NULL;
}

static const char *run_store(void)
{
    num_operations = 0;
    sim_start(0, serve, NULL);
    for (int i = 1; i <= CLIENTS; i++)
        sim_start(i, use_store, NULL);
    if (has_faults && sim_chance(0.5))
        sim_kill_at(1000 + (double)sim_random(3000) / 1e3, 1 + (int)sim_random(CLIENTS));
    const char *stuck = sim_run(2000);
    check_history();
    return stuck;
}

/* ---- rendezvous of launchers ---- */

static Flags flags[FLAGS_MAX_NODES > 8 ? 8 : 1];
static Ranks ranks[8];
static bool has_met[8];
static double has_begun[8], has_ended[8];
static int num_nodes, num_launchers;

static void *launch(void *argument)
{
    Flags *own = argument;
    const int i = (int)(own - flags);
    StoreServer *server = NULL;
    sim_sleep((double)sim_random(5000) / 1e3);
    has_begun[i] = sim_now();
    int port = PORT;
    if (i == 0 && (server = store_server_start("127.0.0.1", &port, NULL)) == NULL)
        return NULL;
    Store store;
    ranks[i] = rendezvous(&store, own);
    has_met[i] = true;
    has_ended[i] = sim_now();
    for (int other = 1; i == 0 && other < num_launchers; other++)
        for (const double end = sim_now() + JOIN_SECONDS; !sim_has_ended(other) && sim_now() < end;)
            sim_sleep(0.5);
    store_free(&store);
    if (server != NULL)
        store_server_stop(server);
    return NULL;
}

static const char *run_rendezvous(void)
{
    num_nodes = 2 + (int)sim_random(3);
    const bool is_twice = sim_chance(0.3); // two nodes have the same number
    num_launchers = num_nodes + is_twice;
    memset(has_met, 0, sizeof has_met);
    for (int i = 0; i < num_launchers; i++) {
        flags[i] = (Flags){ .nproc_per_node = 1 + (int)sim_random(3),
                            .max_nodes = num_nodes,
                            .min_nodes = num_nodes,
                            .node_rank = i < num_nodes ? i : 1,
                            .master_addr = "127.0.0.1",
                            .master_port = PORT,
                            .run_id = "job",
                            .role = "default",
                            .join_timeout = JOIN_SECONDS,
                            .heartbeat_interval = 5,
                            .heartbeat_limit = 3 };
        sim_start(i, launch, &flags[i]);
    }
    if (has_faults && sim_chance(0.5))
        sim_kill_at(1000 + (double)sim_random(7000) / 1e3,
                    (int)sim_random((uint64_t)num_launchers));
    const char *stuck = sim_run(JOIN_SECONDS * 4 + MARGIN);
    bool taken[64] = { false };
    int world_size = 0;
    for (int i = 0; i < num_launchers; i++) {
        if (!has_met[i] && !has_faults && !is_twice)
            complain("nothing went wrong, but there are no ranks for node", i);
        if (!has_met[i])
            continue;
        if (world_size != 0 && ranks[i].world_size != world_size)
            complain("another world size on node", i);
        world_size = ranks[i].world_size;
        for (int r = ranks[i].first_rank; r < ranks[i].first_rank + flags[i].nproc_per_node; r++) {
            if (r >= world_size || taken[r])
                complain("two holders, or none, of rank", r);
            taken[r] = true;
        }
    }
    return stuck;
}

/* ---- nodes that join and leave, whose group is formed repeatedly ---- */

static Group groups[3];
static Agents agents[3];
static bool is_done[3];

/* Counts each rank in the attempt's store, where no other node may have it. */
static void take_ranks(const Flags *own, Agents *taker)
{
    for (int r = 0; r < own->nproc_per_node && own->max_nodes > 1; r++) {
        char key[32];
        snprintf(key, sizeof key, "holders of rank %d", taker->ranks.first_rank + r);
        if (store_add(&taker->store, key, 1) > 1)
            complain("two holders of rank", taker->ranks.first_rank + r);
    }
    if (taker->ranks.first_rank + own->nproc_per_node > taker->ranks.world_size)
        complain("no such rank", taker->ranks.first_rank);
}

/* Sleeps in place of working ranks. Returns true if there is another attempt (ddprun.c). */
static bool work(Group *group, Agents *own)
{
    const double end = sim_now() + (double)sim_random(30000) / 1e3;
    Verdict verdict = VERDICT_NONE;
    while (verdict == VERDICT_NONE) {
        sim_sleep(0.1);
        if (sim_now() >= end)
            agents_done(own, false);
        else if (group_may_grow(group))
            group_change(own);
        verdict = agents_verdict(own);
    }
    const Failure *root = verdict == VERDICT_FAILED ? agents_root_cause(own) : NULL;
    is_done[group - groups] = verdict == VERDICT_DONE;
    return verdict == VERDICT_CHANGED ||
           (root != NULL && (agents_left_out(own) || (root->rank < 0 && root->node != 0)));
}

static void *come_and_go(void *argument)
{
    Flags *own = argument;
    Group *group = &groups[own - flags];
    Agents *ours = &agents[own - flags];
    sim_sleep((double)sim_random(9000) / 1e3);
    group_open(group, own, NULL);
    for (bool again = true; again && group_join(group, ours); group->restart_count++) {
        take_ranks(own, ours);
        again = work(group, ours);
        if (!again)
            group_close(group, !is_done[own - flags]);
        agents_leave(ours);
    }
    return NULL;
}

static const char *run_elastic(void)
{
    num_nodes = 2 + (int)sim_random(2);
    sim_limit_ports(2);
    memset(is_done, 0, sizeof is_done);
    const int least = 1 + (int)sim_random((uint64_t)num_nodes);
    for (int i = 0; i < num_nodes; i++) {
        flags[i] = (Flags){ .nproc_per_node = 1 + (int)sim_random(2),
                            .max_nodes = num_nodes,
                            .min_nodes = least,
                            .elastic = true,
                            .is_host = i == 0,
                            .master_addr = "127.0.0.1",
                            .master_port = PORT,
                            .run_id = "job",
                            .role = "default",
                            .join_timeout = JOIN_SECONDS,
                            .last_call_timeout = 1,
                            .heartbeat_interval = 2,
                            .heartbeat_limit = 3,
                            .shutdown_timeout = 5 };
        sim_start(i, come_and_go, &flags[i]);
    }
    if (has_faults && sim_chance(0.5))
        sim_kill_at(1000 + (double)sim_random(30000) / 1e3, (int)sim_random((uint64_t)num_nodes));
    const char *stuck = sim_run(1000);
    if (!has_faults && !is_done[0])
        complain("nothing went wrong, but the job has not ended well", num_nodes);
    return stuck;
}

/* ---- seeds ---- */

static const struct {
    const char *name;
    const char *(*run)(void);
} scenarios[] = { { "store", run_store },
                  { "rendezvous", run_rendezvous },
                  { "elastic", run_elastic },
                  { "reconfigure", run_reconfigure },
                  { "network", run_network } };

static uint64_t run_seed(const char *(*run)(void), uint64_t seed)
{
    wrong[0] = '\0';
    has_faults = seed % 2 == 1;
    sim_begin(seed, has_faults ? (SimFaults){ 0.002, 0.002, 0.002 } : (SimFaults){ 0, 0, 0 });
    const char *stuck = run();
    if (stuck != NULL && wrong[0] == '\0')
        snprintf(wrong, sizeof wrong, "%s", stuck);
    sim_end();
    return sim_hash();
}

/* Runs seeds in a child process. Returns the number of failures. */
static int run_batch(const char *(*run)(void), uint64_t first, uint64_t count)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        int failures = 0;
        for (uint64_t seed = first; seed < first + count; seed++) {
            const uint64_t hash = run_seed(run, seed);
            if (getenv("SIM_TRACES") != NULL)
                printf("seed %llu: trace %016llx\n", (unsigned long long)seed,
                       (unsigned long long)hash);
            if (wrong[0] != '\0')
                printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
            failures += wrong[0] != '\0' && failures < 100;
        }
        fflush(stdout);
        exit(failures);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status))
        printf("seeds %llu to %llu: the program crashed\n", (unsigned long long)first,
               (unsigned long long)(first + count - 1));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    const char *(*run)(void) = NULL;
    for (size_t i = 0; argc >= 3 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(argv[1], scenarios[i].name) == 0)
            run = scenarios[i].run;
    if (run == NULL) {
        fprintf(stderr, "usage: simulate store|rendezvous|elastic|reconfigure|network "
                        "COUNT [FIRST], or replay SEED\n");
        return 2;
    }
    unsetenv(SECRET_VARIABLE);
    mallopt(M_MMAP_THRESHOLD,
            128 << 10); // fixed, so that unused memory has no pages
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (getenv("SIM_STDERR") == NULL && freopen("/dev/null", "w", stderr) == NULL)
        return 2;
    if (strcmp(argv[2], "replay") == 0 && argc == 4) {
        sim_prints = true;
        const uint64_t hash = run_seed(run, strtoull(argv[3], NULL, 10));
        printf("seed %s: %s, trace %016llx\n", argv[3], wrong[0] == '\0' ? "no error" : wrong,
               (unsigned long long)hash);
        return wrong[0] != '\0';
    }
    const uint64_t count = strtoull(argv[2], NULL, 10),
                   first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    int failures = 0;
    for (uint64_t done = 0; done < count && failures < 20; done += BATCH)
        failures += run_batch(run, first + done, count - done < BATCH ? count - done : BATCH);
    printf("%s: %llu seeds, %d failures\n", argv[1], (unsigned long long)count, failures);
    return failures > 0;
}
