/*
 * Subgroups, and an all-reduce for several nodes built from them, in three stages. It is a
 * communication hook of the Reducer, so only buckets of gradients use it.
 *
 *     node 0: rank 0  rank 1     1. reduce-scatter inside each node: each of its L ranks has the
 *               |       |           node's sum of one share of the numbers
 *     node 1: rank 2  rank 3     2. all-reduce across the m nodes, between ranks of the same share
 *                                3. all-gather inside each node: all shares for all ranks
 *
 * The idea is that of NVIDIA's NCCL and of Horovod's hierarchical all-reduce (Sergeev and Del
 * Balso, 2018): the network between nodes is slower than links inside them, so each byte should
 * cross it as rarely as possible.
 *
 * For n bytes each rank sends 2 (m - 1) / m * n / L to other nodes, and a node L times that. In the
 * flat ring of N ranks, those whose next neighbour is on another node send 2 (N - 1) / N * n each
 * to it: at best one rank of each node, at worst all.
 *
 * A remainder modulo L, or all data if the nodes differ in size, is reduced to the node's first
 * rank, all-reduced between the first ranks, and broadcast inside the node. Each element is summed
 * in one place and copied from there, so all ranks get the same bits.
 */
#include "common/comm/hierarchy.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define SHORT_BYTES ((size_t)32 * 1024) // up to here flat is faster: bench/RESULTS.md
#define MB 1e6
#define LINE_BYTES 256

/* ---- subgroups: every rank tells its color, from which each computes the members ---- */

/* Sets size and members of the subgroup of this color, and this rank's number in it. */
static void find_members(ProcessGroup *sub, ProcessGroup *pg, int32_t color)
{
    int32_t *colors = mem_calloc((size_t)pg->world_size, sizeof *colors);
    all_gather(pg, &color, colors, 1, INT32);
    sub->members = mem_calloc((size_t)pg->world_size, sizeof *sub->members);
    for (int rank = 0; rank < pg->world_size; rank++) {
        if (colors[rank] != color || color < 0)
            continue;
        if (rank == pg->rank)
            sub->rank = sub->world_size;
        sub->members[sub->world_size++] = process_group_global_rank(pg, rank);
    }
    free(colors);
}

void process_group_split(ProcessGroup *sub, ProcessGroup *pg, int color)
{
    *sub = (ProcessGroup){ .store = pg->store,
                           .number = pg->number,
                           .place = pg->place,
                           .timeout = pg->timeout,
                           .check_collectives = pg->check_collectives,
                           .backend = pg->backend,
                           .parent = pg };
    pg->num_splits++;
    const int length = snprintf(sub->name, sizeof sub->name, "%s%ssplit %d color %d", pg->name,
                                pg->name[0] != '\0' ? "/" : "", pg->num_splits, color);
    CHECK(length < GROUP_NAME_BYTES, "groups within groups go no deeper than \"%s\"", pg->name);

    find_members(sub, pg, color);
    const Backend *backend = pg->backend;
    sub->state = backend->split != NULL ? backend->split(pg->state, sub, color) : pg->state;
    sub->mean_ranks = sub->world_size;
    pg->num_subgroups += sub->world_size > 0;
}

/* ---- the stages ---- */

Work hierarchical_all_reduce(Nodes *nodes, float *grads, size_t numel)
{
    ProcessGroup *node = &nodes->node, *across = &nodes->across;
    const size_t share = nodes->equal ? numel / (size_t)node->world_size : 0;
    const size_t rest = numel - share * (size_t)node->world_size; // before the shares
    float *shares = grads + rest;
    float *own = shares + (size_t)node->rank * share;

    // The calls are only queued: each begins when the previous one is done.
    nodes->stages.num_calls++;
    if (rest > 0)
        reduce_async(node, grads, rest, FLOAT32, REDUCE_SUM, 0);
    if (share > 0)
        reduce_scatter_async(node, shares, own, share, FLOAT32, REDUCE_SUM);

    if (node->rank == 0) // REDUCE_MEAN divides by the number of all ranks here
        all_reduce_async(across, grads, rest + share, FLOAT32, REDUCE_MEAN);
    else if (share > 0)
        all_reduce_async(across, own, share, FLOAT32, REDUCE_MEAN);

    Work work = { 0 };
    if (rest > 0)
        work = broadcast_async(node, grads, rest, FLOAT32, 0);
    if (share > 0)
        work = all_gather_async(node, own, shares, share, FLOAT32);
    return work;
}

/* The CommHook. Short buckets are averaged as without it. */
static Work average_bucket(void *state, float *grads, size_t numel)
{
    Nodes *nodes = state;
    if (numel * sizeof *grads <= SHORT_BYTES)
        return all_reduce_async(nodes->node.parent, grads, numel, FLOAT32, REDUCE_MEAN);
    return hierarchical_all_reduce(nodes, grads, numel);
}

/* ---- what was sent ---- */

/* Logs what all ranks have sent, as "all_reduce flat: 57.6 MB between nodes, 115.2 MB inside, in
 * 230 calls". */
static void report(ProcessGroup *pg, const Nodes *nodes)
{
    Traffic sent[] = { nodes->flat, nodes->stages };
    reduce(pg, sent, 2 * 3, INT64, REDUCE_SUM, 0); // two structs of three numbers
    char line[LINE_BYTES] = "";
    for (int i = 0; i < 2; i++) {
        const size_t length = strlen(line);
        const int num_calls = (int)(sent[i].num_calls / (uint64_t)pg->world_size); // of each rank
        if (num_calls > 0)
            snprintf(line + length, LINE_BYTES - length,
                     "%s%s: %.1f MB between nodes, %.1f MB inside, in %d call%s",
                     length > 0 ? "; " : "all_reduce ", i == 0 ? "flat" : "hierarchical",
                     (double)sent[i].between_nodes / MB, (double)sent[i].inside_nodes / MB,
                     num_calls, num_calls == 1 ? "" : "s");
    }
    if (pg->rank == 0 && line[0] != '\0')
        log_info("%s", line);
}

static void nodes_leave(ProcessGroup *pg)
{
    Nodes *nodes = pg->nodes;
    if (nodes->num_nodes > 1 && pg->backend == &backend_tcp)
        report(pg, nodes);
    if (nodes->comm_hook != NULL) {
        process_group_destroy(&nodes->across);
        process_group_destroy(&nodes->node);
    }
    pg->nodes = NULL;
    free(nodes->node_of);
    free(nodes);
}

/* ---- which ranks share a node ---- */

/* Numbers the nodes by the value each rank gave for its own, and sets `equal`. */
static void number_nodes(Nodes *nodes, const int *node_numbers, int world_size)
{
    int *num_ranks = mem_calloc((size_t)world_size, sizeof *num_ranks);
    nodes->node_of = mem_calloc((size_t)world_size, sizeof *nodes->node_of);
    for (int rank = 0; rank < world_size; rank++) {
        int first = 0;
        while (node_numbers[first] != node_numbers[rank])
            first++;
        nodes->node_of[rank] = first == rank ? nodes->num_nodes++ : nodes->node_of[first];
        num_ranks[nodes->node_of[rank]]++;
    }
    nodes->equal = true;
    for (int i = 1; i < nodes->num_nodes; i++)
        nodes->equal &= num_ranks[i] == num_ranks[0];
    free(num_ranks);
}

/* Forms the stages' subgroups. They are not the caller's to destroy. */
static void form_stages(Nodes *nodes, ProcessGroup *pg)
{
    process_group_split(&nodes->node, pg, nodes->node_of[pg->rank]);
    const int local_rank = nodes->node.rank;
    process_group_split(&nodes->across, pg, nodes->equal || local_rank == 0 ? local_rank : -1);
    snprintf(nodes->node.name, GROUP_NAME_BYTES, "node %d", nodes->node_of[pg->rank]);
    snprintf(nodes->across.name, GROUP_NAME_BYTES, "across nodes %d", local_rank);
    nodes->across.mean_ranks = pg->world_size; // it averages sums of whole nodes
    pg->num_subgroups -= 1 + (nodes->across.world_size > 0);
    nodes->node.nodes = nodes->across.nodes = nodes;
    nodes->comm_hook = average_bucket;
}

void process_group_set_nodes(ProcessGroup *pg, const Args *args, int node)
{
    CHECK(pg->nodes == NULL && pg->parent == NULL,
          "process_group_set_nodes is to be called once, on the group of all ranks");
    const bool hierarchical = strcmp(args->all_reduce, "hierarchical") == 0;

    int *node_numbers = mem_calloc((size_t)pg->world_size, sizeof *node_numbers);
    all_gather(pg, &node, node_numbers, 1, INT32);
    Nodes *nodes = mem_calloc(1, sizeof *nodes);
    number_nodes(nodes, node_numbers, pg->world_size);
    free(node_numbers);

    nodes->leave = nodes_leave;
    if (hierarchical && nodes->num_nodes > 1 && nodes->num_nodes < pg->world_size)
        form_stages(nodes, pg);
    else if (hierarchical && pg->rank == 0)
        log_info("--all-reduce hierarchical: %s, so it is flat",
                 nodes->num_nodes == 1 ? "all ranks share one node" : "each rank has its own node");
    pg->nodes = nodes;
}
