/* hierarchy.h - which ranks share a node, and an all-reduce that sends less between nodes. */
#ifndef EXTRAS_HIERARCHICAL_HIERARCHY_H
#define EXTRAS_HIERARCHICAL_HIERARCHY_H

#include "common/comm/backend.h"

/* All-reduces of one way, and the bytes of payload that this rank has sent in them. */
typedef struct {
    uint64_t num_calls, between_nodes, inside_nodes;
} Traffic;

/* Made by process_group_set_nodes. The subgroups exist only with a comm_hook. */
typedef struct {
    Nodes nodes; // what common/ knows of it: ProcessGroup.nodes points here
    bool equal; // the same number of ranks on every node?
    ProcessGroup node; // the ranks of this node
    ProcessGroup across; // one rank of each node, of equal local rank; see `equal`
    Traffic flat, stages; // all_reduce, and hierarchical_all_reduce
    uint64_t last_op_id; // of flat
} Hierarchy;

Hierarchy *hierarchy_of(const ProcessGroup *pg); // NULL: all ranks share a node, or it is unknown

/* Averages `numel` > 0 gradients over the ranks of all nodes, in three stages. */
Work hierarchical_all_reduce(Hierarchy *hierarchy, float *grads, size_t numel);

#endif
