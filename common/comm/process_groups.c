/* Forming and destroying groups.
 *
 * Every rank publishes a line about itself in the store and compares it. So missing ranks, and
 * ranks started with other options, are found before a backend tries to connect them and hangs.
 * With mpi, MPI connects the ranks, and the same lines are compared without a store. */
#include "common/comm/process_group.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/store/net.h"

// How long rank 0 waits for the last rank to leave, and the others for its store to close.
#define LEAVE_SECONDS 5.0

// What rank 0 publishes in place of its options.
#define TOO_FEW_DESCRIPTORS "rank 0 gives up: it may open too few files and connections (ulimit -n)"

static const Backend *const backends[] = {
    [BACKEND_NCCL] = &backend_nccl, [BACKEND_MPI] = &backend_mpi, [BACKEND_TCP] = &backend_tcp
};

/* Returns the backend of this kind. Usage error, the same on all ranks, if it cannot be used. */
static const Backend *backend_choose(BackendKind kind, bool on_gpu, int rank, int world_size)
{
    if (kind == BACKEND_AUTO)
        kind = on_gpu && backend_nccl.remedy == NULL ? BACKEND_NCCL : BACKEND_TCP;

    if (kind == BACKEND_GLOO)
        usage_error("--backend gloo is for beyond/gloo/train_gloo: here take tcp");
    const Backend *backend = backends[kind];
    if (backend->remedy != NULL)
        usage_error("this program was built without %s: %s, or use --backend tcp", backend->name,
                    backend->remedy);
    if (kind == BACKEND_NCCL && !on_gpu)
        usage_error("--backend nccl needs --device cuda; on CPUs use --backend tcp");
    if (on_gpu && !backend->reads_gpu && !has_staging)
        usage_error("--backend %s does not reach GPU memory without extras/staging: use "
                    "--device cpu",
                    backend->name);
    if (backend->check != NULL)
        backend->check(rank, world_size);
    return backend;
}

char *process_group_key(const ProcessGroup *pg, const char *what, int rank,
                        char key[STORE_KEY_BYTES])
{
    snprintf(key, STORE_KEY_BYTES, "group %lld/%s %d", (long long)pg->number, what, rank);
    return key;
}

void process_group_leave(const ProcessGroup *pg, Store *store, int present)
{
    char key[STORE_KEY_BYTES];
    const bool serves = pg->store->server != NULL;
    store->may_fail = true; // this rank knows why it exits, with or without the store
    const bool last = store_add(store, process_group_key(pg, "leaving", 0, key), 1) == present;
    process_group_key(pg, "all left", 0, key);
    if (last)
        store_set(store, key, "1", 1);
    else if (serves)
        store_try_wait(store, key, LEAVE_SECONDS);
}

/* Writes pg->options. Usage error if some do not suit. */
static void describe_options(ProcessGroup *pg, const Args *args)
{
    char value[ARGS_VALUE_BYTES];
    int length =
        snprintf(pg->options, OPTIONS_BYTES, "rank %d has --backend %s, --device %s, %d ranks",
                 pg->rank, pg->backend->name, pg->place.on_gpu ? "cuda" : "cpu", pg->world_size);
    for (const Option *option = args_options; option->name != NULL; option++)
        if (option->scope != OF_RANK && option->kind != OPTION_ACTION && length < OPTIONS_BYTES)
            length += snprintf(pg->options + length, OPTIONS_BYTES - (size_t)length, ", --%s %s",
                               option->name, args_value(args, option, value));
    group_extras_check(pg, args);
}

/* Lists the ranks that have not come. Returns their number. */
static int list_missing(const ProcessGroup *pg, char list[RANK_LIST_BYTES])
{
    char key[STORE_KEY_BYTES];
    bool *missing = mem_calloc((size_t)pg->world_size, sizeof *missing);
    for (int rank = 0; rank < pg->world_size; rank++)
        missing[rank] = !store_check(pg->store, process_group_key(pg, "line of rank", rank, key));
    const int count = rank_count(missing, pg->world_size);
    rank_list(missing, pg->world_size, list);
    free(missing);
    return count;
}

/* Waits until the other ranks have set the key. Rank 0, or 1 if it is missing, logs them. The first
 * rank to wait in vain sets the key to "3 LINE", so that the 3 ranks that came exit together. */
static void await_others(const ProcessGroup *pg, const char *key)
{
    char list[RANK_LIST_BYTES], line_0[STORE_KEY_BYTES], line[OPTIONS_BYTES];
    const double deadline = seconds_awake() + pg->timeout;
    if (store_try_wait(pg->store, key, fmin(STORE_QUIET_SECONDS, pg->timeout)))
        return;
    store_check_secret(pg->store);
    process_group_key(pg, "line of rank", 0, line_0);
    if (pg->timeout > STORE_QUIET_SECONDS && pg->rank == !store_check(pg->store, line_0) &&
        list_missing(pg, list) > 0)
        log_info("waits for %s of %d, %g s at most (--timeout)", list, pg->world_size, pg->timeout);
    if (store_try_wait(pg->store, key, fmax(0, deadline - seconds_awake())))
        return;
    const int present = pg->world_size - list_missing(pg, list);
    snprintf(line, sizeof line, "%d %s of %d did not come within %g s", present, list,
             pg->world_size, pg->timeout);
    store_set(pg->store, key, line, strlen(line)); // COMPARE_SET wakes none on PyTorch's old store
}

/* Returns what follows "rank 3 has ". */
static const char *options_of(const char *line)
{
    const char *options = strstr(line, " has ");
    return options != NULL ? options + strlen(" has ") : line;
}

bool options_agree(const ProcessGroup *pg, const char *line)
{
    return strcmp(options_of(pg->options), options_of(line)) == 0;
}

noreturn void ranks_disagree(const ProcessGroup *pg, const char *line)
{
    const bool is_first = strcmp(pg->options, line) < 0; // the same order on both ranks
    const char *one = is_first ? pg->options : line, *other = is_first ? line : pg->options;
    const char *a = options_of(one), *b = options_of(other), *begin_a = a, *begin_b = b;
    for (; *a == *b && *a != '\0'; a++, b++)
        if (strncmp(a, ", ", 2) == 0)
            begin_a = a + 2, begin_b = b + 2;
    die("the ranks disagree: %.*s%.*s, %.*s%.*s", (int)(options_of(one) - one), one,
        (int)strcspn(begin_a, ","), begin_a, (int)(options_of(other) - other), other,
        (int)strcspn(begin_b, ","), begin_b);
}

/* Dies unless all ranks come with the same options as this one, and rank 0 has room for all. Each
 * compares its line with that of the first rank to come. The last one to do so sets the agreement,
 * as does each rank with another line: a rank makes as many requests in a large group as in a small
 * one. */
static void agree(const ProcessGroup *pg)
{
    // All others connect to rank 0: to its store, and in mesh_init.
    const bool is_hub = pg->rank == 0 && pg->owns_store;
    const long needed = is_hub ? 2 * NET_SPARE_DESCRIPTORS + 4L * pg->world_size : 0;
    const bool fits = needed <= net_raise_descriptors();
    const char *line = fits ? pg->options : TOO_FEW_DESCRIPTORS;
    char key[STORE_KEY_BYTES], theirs[OPTIONS_BYTES] = "", *reason;
    store_set(pg->store, process_group_key(pg, "line of rank", pg->rank, key), line, strlen(line));
    process_group_key(pg, "first line", 0, key);
    store_compare_set(pg->store, key, "", line, theirs, sizeof theirs - 1);
    const bool agrees = fits && options_agree(pg, theirs);
    process_group_key(pg, "agreeing", 0, key);
    const bool is_last = agrees && store_add(pg->store, key, 1) == pg->world_size;
    process_group_key(pg, "agreement", 0, key);
    if (!agrees || is_last)
        store_set(pg->store, key, is_last ? "" : line, is_last ? 0 : strlen(line));
    if (agrees) {
        await_others(pg, key);
        memset(theirs, 0, sizeof theirs);
        if (store_get(pg->store, key, theirs, sizeof theirs - 1) == 0)
            return;
    }
    const long present = strtol(theirs, &reason, 10);
    process_group_leave(pg, pg->store, present > 0 ? (int)present : pg->world_size);
    net_reserve_descriptors(needed, pg->world_size); // dies if rank 0 has too few
    CHECK(strstr(reason, " has ") != NULL, "%s", reason + (present > 0));
    ranks_disagree(pg, theirs);
}

/* Dies if another process has this rank already, because then some rank does not exist, and both
 * would wait for it. */
static void claim_rank(const ProcessGroup *pg)
{
    char key[STORE_KEY_BYTES], host[64] = "", ours[96], theirs[96] = "";
    gethostname(host, sizeof host - 1);
    snprintf(ours, sizeof ours, "process %d on %s", (int)getpid(), host);
    process_group_key(pg, "process of rank", pg->rank, key);
    store_compare_set(pg->store, key, "", ours, theirs, sizeof theirs - 1);
    CHECK(strcmp(ours, theirs) == 0,
          "%s is rank %d already: every rank needs a number of its own (RANK)", theirs, pg->rank);
}

/* Sets everything that does not depend on the other ranks. Dies if that is impossible. */
static void group_set(ProcessGroup *pg, const Args *args, int rank, int world_size,
                      MemoryLocation place)
{
    CHECK(rank >= 0 && rank < world_size, "rank %d in a group of %d: ranks are counted from 0",
          rank, world_size);
    *pg =
        (ProcessGroup){ .rank = rank,
                        .world_size = world_size,
                        .place = place,
                        .timeout = args->timeout,
                        .mean_ranks = world_size,
                        .missing = -1,
                        .calls.error_suffix = "",
                        .backend = backend_choose(args->backend, place.on_gpu, rank, world_size) };
    if (args_shards(args) > 0 && pg->backend != &backend_tcp)
        usage_error("--reduce-order fixed is for --backend tcp: %s adds up in an order of its own",
                    pg->backend->name);
    describe_options(pg, args); // before any wait, so that options that do not suit end every rank
}

void process_group_connect(ProcessGroup *pg, const Args *args)
{
    const double begun = seconds_now();
    pg->state = pg->backend->init(pg);
    if (pg->backend->compare != NULL)
        pg->backend->compare(pg);
    pg->check_collectives = args->check_collectives;
    if (pg->place.on_gpu && !pg->backend->reads_gpu)
        pg->staging = staging_init(pg);
    group_extras_formed(pg, args);
    log_detail(LOG_DISTRIBUTED, "connected by %s after %.3f s", pg->backend->name,
               seconds_now() - begun);
}

/* Waits for all ranks, and connects them if they come with the same options. */
static void form(ProcessGroup *pg, const Args *args)
{
    const double begun = seconds_now();
    char key[STORE_KEY_BYTES];
    if (pg->store != NULL) {
        claim_rank(pg);
        // All ranks form the same groups in the same order, so each may count its own.
        pg->number = store_add(pg->store, process_group_key(pg, "rank", pg->rank, key), 1);
        agree(pg);
        log_detail(LOG_DISTRIBUTED, "all %d ranks are there after %.3f s", pg->world_size,
                   seconds_now() - begun);
        if (pg->backend->adapt != NULL)
            pg->backend = pg->backend->adapt(pg, args);
    }
    process_group_connect(pg, args);
}

void process_group_init_store(ProcessGroup *pg, const Args *args, Store *store, int rank,
                              int world_size, MemoryLocation place)
{
    group_set(pg, args, rank, world_size, place);
    pg->store = store;
    form(pg, args);
}

void process_group_open(ProcessGroup *pg, const Args *args, const char *master_addr,
                        int master_port, int rank, int world_size, MemoryLocation place)
{
    group_set(pg, args, rank, world_size, place);
    if (pg->backend->compare == NULL) {
        CHECK(master_addr != NULL,
              "MASTER_ADDR is not set: on several nodes every rank must be told where "
              "rank 0 is; export it as 04_slurm_multinode/train.slurm does");
        CHECK(master_port > 0 && master_port < 65536,
              "the master's port is %d: it must be one from 1 to 65535, the same on all ranks",
              master_port);
        pg->store = mem_calloc(1, sizeof *pg->store);
        pg->owns_store = true;
        store_init(pg->store, master_addr, master_port, rank == 0, args->timeout);
    }
}

void process_group_init(ProcessGroup *pg, const Args *args, const char *master_addr,
                        int master_port, int rank, int world_size, MemoryLocation place)
{
    process_group_open(pg, args, master_addr, master_port, rank, world_size, place);
    form(pg, args);
}

/* ---- the end ---- */

void process_group_destroy(ProcessGroup *pg)
{
    group_extras_leaving(pg);
    barrier(pg);
    if (pg->staging != NULL)
        staging_free(pg->staging);
    pg->backend->destroy(pg->state, pg);
    if (!pg->owns_store)
        return;
    // The others wait until rank 0 closes the store, because a group formed next at the same
    // address must not find this one's. The store only replies, so what poll sees is its end.
    if (pg->rank > 0 && !pg->store->is_agents)
        poll_awake(&(struct pollfd){ .fd = pg->store->fd, .events = POLLIN }, 1, LEAVE_SECONDS);
    store_free(pg->store);
    free(pg->store);
}

void all_check_divergence(ProcessGroup *pg, const Args *args, Divergence mine)
{
    if (mine.weights == 0)
        return;
    const double step = mine.loss > 0 ? (double)mine.loss : INFINITY;
    const double first = all_reduce_scalar(pg, step, REDUCE_MIN);
    bool *is_first = mem_alloc(pg->world_size, sizeof *is_first);
    const bool am_first = step == first;
    all_gather(pg, &am_first, is_first, sizeof am_first, UINT8);
    char ranks[RANK_LIST_BYTES], where[RANK_LIST_BYTES + 8];
    snprintf(where, sizeof where, " on %s", rank_list(is_first, pg->world_size, ranks));
    free(is_first);
    if (pg->revoked)
        return;
    mine.loss = isfinite(first) ? (uint32_t)first : 0;
    if (!divergence_report(args, mine, where, pg->rank == 0))
        return;
    process_group_destroy(pg); // so that no rank mistakes another's exit for a failure
    _exit(EXIT_FAILURE);
}
