/*
 * hierarchy.h - which ranks share a node, and an all-reduce that sends less between nodes.
 *
 * The idea is that of NVIDIA's NCCL and of Horovod's hierarchical all-reduce (Sergeev and Del
 * Balso, 2018): the network between nodes is slower than links inside them, so each byte should
 * cross it as rarely as possible.
 */
#ifndef COMMON_COMM_HIERARCHY_H
#define COMMON_COMM_HIERARCHY_H

#include "common/comm/backend.h"

typedef struct {
    Backend front; // the first field: the group's `front` points to it, and so to all of this
    const Backend *inner; // what it stands in front of
    int *node_of; // by rank, counted from 0 in the order of their first ranks
    int num_nodes;
    bool equal; // the same number of ranks on every node?
    bool hierarchical; // whether long all-reduces are hierarchical
    ProcessGroup node; // the ranks of this node; these two if hierarchical
    ProcessGroup across; // one rank of each node, of equal local rank; see `equal`
    Traffic flat, stages; // of all_reduce
} Nodes;

/* Those of a group that process_group_set_nodes was called for. Local. */
Nodes *process_group_nodes(const ProcessGroup *pg);

/* all_reduce on the group of these nodes, in three stages; count > 0. */
Work hierarchical_all_reduce(Nodes *nodes, void *data, size_t count, DType type, ReduceOp op);

#endif
