/*
 * An all-reduce for several nodes, in three stages. It is a communication hook of the Reducer, so
 * only buckets of gradients use it.
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
#include "extras/hierarchical/hierarchy.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/group/group_extras.h"
#include "extras/hierarchical/split.h"

#define SHORT_BYTES ((size_t)32 * 1024) // up to this size flat is faster: bench/RESULTS.md
#define MB 1e6
#define LINE_BYTES 256

Hierarchy *hierarchy_of(const ProcessGroup *pg)
{
    return (Hierarchy *)pg->nodes; // its first field
}

/* ---- the stages ---- */

Work hierarchical_all_reduce(Hierarchy *hierarchy, float *grads, size_t numel)
{
    ProcessGroup *node = &hierarchy->node, *across = &hierarchy->across;
    const size_t share = hierarchy->equal ? numel / (size_t)node->world_size : 0;
    const size_t rest = numel - share * (size_t)node->world_size; // the remainder, before `shares`
    float *shares = grads + rest;
    float *own = shares + (size_t)node->rank * share;

    // The calls are only queued: each begins when the previous one is done.
    hierarchy->stages.num_calls++;
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

/* The CommHook. Averages short buckets as if there were no hook. */
static Work average_bucket(void *state, float *grads, size_t numel)
{
    Hierarchy *hierarchy = state;
    if (numel * sizeof *grads <= SHORT_BYTES)
        return all_reduce_async(hierarchy->node.parent, grads, numel, FLOAT32, REDUCE_MEAN);
    return hierarchical_all_reduce(hierarchy, grads, numel);
}

/* ---- counting traffic ---- */

/* Counts a message of an all_reduce, or of a stage. A rank sends at least one in each. */
static void count_sent(Nodes *nodes, const Collective *collective, int to, size_t bytes)
{
    Hierarchy *hierarchy = (Hierarchy *)nodes;
    const bool flat = collective->pg->parent == NULL;
    if (flat && collective->kind != ALL_REDUCE)
        return;
    if (flat && collective->op_id != hierarchy->last_op_id)
        hierarchy->flat.num_calls++;
    if (flat)
        hierarchy->last_op_id = collective->op_id;
    Traffic *traffic = flat ? &hierarchy->flat : &hierarchy->stages;
    const int own = process_group_root(collective->pg)->rank;
    const bool same_node = nodes->node_of[to] == nodes->node_of[own];
    *(same_node ? &traffic->inside_nodes : &traffic->between_nodes) += bytes;
}

/* Logs what all ranks have sent, as "all_reduce flat: 57.6 MB between nodes, 115.2 MB inside, in
 * 230 calls". */
static void report(ProcessGroup *pg, const Hierarchy *hierarchy)
{
    Traffic sent[] = { hierarchy->flat, hierarchy->stages };
    reduce(pg, sent, 2 * 3, INT64, REDUCE_SUM, 0); // two structs of three numbers
    char line[LINE_BYTES] = "";
    for (int i = 0; i < 2; i++) {
        const size_t length = strlen(line);
        const int num_calls = (int)(sent[i].num_calls / (uint64_t)pg->world_size); // per rank
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

static void hierarchy_free(Hierarchy *hierarchy)
{
    subgroup_free(&hierarchy->across);
    subgroup_free(&hierarchy->node);
    free(hierarchy->nodes.node_of);
    free(hierarchy);
}

/* The calls that count_sent counts are done when report's call is. */
void hierarchy_leaving(ProcessGroup *pg)
{
    Hierarchy *hierarchy = hierarchy_of(pg);
    if (hierarchy == NULL)
        return;
    if (pg->backend == &backend_tcp)
        report(pg, hierarchy);
    pg->nodes = NULL;
    hierarchy_free(hierarchy);
}

/* ---- which ranks share a node ---- */

/* Numbers the nodes by the value each rank gave for its own, and sets `equal`. */
static void number_nodes(Hierarchy *hierarchy, const int *node_numbers, int world_size)
{
    Nodes *nodes = &hierarchy->nodes;
    int *num_ranks = mem_calloc((size_t)world_size, sizeof *num_ranks);
    nodes->node_of = mem_calloc((size_t)world_size, sizeof *nodes->node_of);
    for (int rank = 0; rank < world_size; rank++) {
        int first = 0;
        while (node_numbers[first] != node_numbers[rank])
            first++;
        nodes->node_of[rank] = first == rank ? nodes->num_nodes++ : nodes->node_of[first];
        num_ranks[nodes->node_of[rank]]++;
    }
    hierarchy->equal = true;
    for (int i = 1; i < nodes->num_nodes; i++)
        hierarchy->equal &= num_ranks[i] == num_ranks[0];
    free(num_ranks);
}

/* Forms the subgroups of the stages. */
static void form_stages(Hierarchy *hierarchy, ProcessGroup *pg)
{
    ProcessGroup *node = &hierarchy->node, *across = &hierarchy->across;
    const int number = hierarchy->nodes.node_of[pg->rank];
    process_group_split(node, pg, number);
    process_group_split(across, pg, hierarchy->equal || node->rank == 0 ? node->rank : -1);
    snprintf(node->name, GROUP_NAME_BYTES, "node %d", number);
    snprintf(across->name, GROUP_NAME_BYTES, "across nodes %d", node->rank);
    across->mean_ranks = pg->world_size; // it averages sums of whole nodes
    hierarchy->nodes.comm_hook = average_bucket;
}

static bool is_enabled(const Args *args)
{
    return args->all_reduce == ALL_REDUCE_HIERARCHICAL;
}

void process_group_set_nodes(ProcessGroup *pg, const Args *args, int node)
{
    CHECK(pg->nodes == NULL, "process_group_set_nodes is to be called once");

    int *node_numbers = mem_calloc((size_t)pg->world_size, sizeof *node_numbers);
    all_gather(pg, &node, node_numbers, 1, INT32);
    Hierarchy *hierarchy = mem_calloc(1, sizeof *hierarchy);
    Nodes *nodes = &hierarchy->nodes;
    number_nodes(hierarchy, node_numbers, pg->world_size);
    free(node_numbers);

    if (is_enabled(args) && (nodes->num_nodes == 1 || nodes->num_nodes == pg->world_size)) {
        if (pg->rank == 0)
            log_info("--all-reduce hierarchical: %s, so it is flat",
                     nodes->num_nodes == 1 ? "all ranks share one node"
                                           : "each rank has its own node");
    } else if (is_enabled(args)) {
        form_stages(hierarchy, pg);
    }
    if (nodes->num_nodes == 1) {
        hierarchy_free(hierarchy);
        return;
    }
    nodes->count_sent = count_sent;
    hierarchy->last_op_id = UINT64_MAX;
    pg->nodes = nodes;
}

void hierarchy_check(const ProcessGroup *pg, const Args *args)
{
    if (is_enabled(args) && pg->backend != &backend_tcp)
        usage_error("--all-reduce hierarchical is for --backend tcp: %s finds its own way between "
                    "nodes, so leave the option out",
                    pg->backend->name);
}
