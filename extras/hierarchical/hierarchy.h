/* hierarchy.h - which ranks share a node, and an all-reduce that sends less between nodes. */
#ifndef EXTRAS_HIERARCHICAL_HIERARCHY_H
#define EXTRAS_HIERARCHICAL_HIERARCHY_H

#include "common/comm/backend.h"

/* The all-reduces of one kind, and the payload bytes that this rank has sent in them. */
typedef struct {
    uint64_t num_calls, between_nodes, inside_nodes;
} Traffic;

/* Made by process_group_set_nodes. The subgroups exist only with a comm_hook. */
typedef struct {
    Nodes nodes; // the part that common/ knows: ProcessGroup.nodes points here
    bool equal; // whether all nodes have the same number of ranks
    ProcessGroup node; // the ranks of this node
    ProcessGroup across; // one rank of each node, of equal local rank; see `equal`
    Traffic flat, stages; // all_reduce, and hierarchical_all_reduce
    uint64_t last_op_id; // the last op_id counted in `flat`
} Hierarchy;

Hierarchy *hierarchy_of(const ProcessGroup *pg); // NULL if all ranks share a node, or it is unknown

/* Averages `numel` > 0 gradients over the ranks of all nodes, in three stages. */
Work hierarchical_all_reduce(Hierarchy *hierarchy, float *grads, size_t numel);

#endif
