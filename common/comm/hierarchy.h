/* hierarchy.h - which ranks share a node, and an all-reduce that sends less between nodes. */
#ifndef COMMON_COMM_HIERARCHY_H
#define COMMON_COMM_HIERARCHY_H

#include "common/comm/backend.h"

/* All-reduces of one way, and the bytes of payload that this rank has sent in them (tcp only). */
typedef struct {
    uint64_t num_calls, between_nodes, inside_nodes;
} Traffic;

/* Set by process_group_set_nodes in the group of all ranks and in the two subgroups here. */
typedef struct Nodes {
    int *node_of; // by global rank, counted from 0 in the order of their first ranks
    int num_nodes;
    bool equal; // the same number of ranks on every node?
    CommHook comm_hook; // for Reducers; its state is this struct; NULL: all_reduce is flat
    ProcessGroup node; // the ranks of this node; this and `across` exist only with a hook
    ProcessGroup across; // one rank of each node, of equal local rank; see `equal`
    Traffic flat, stages; // all_reduce, and hierarchical_all_reduce
    void (*leave)(ProcessGroup *pg); // called at the end, while all ranks are still connected
} Nodes;

/* Averages `numel` > 0 gradients over the ranks of all nodes, in three stages. */
Work hierarchical_all_reduce(Nodes *nodes, float *grads, size_t numel);

#endif
