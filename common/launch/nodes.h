/* nodes.h - what a job's nodes offer, and the ranks they get. */
#ifndef COMMON_LAUNCH_NODES_H
#define COMMON_LAUNCH_NODES_H

#include <stddef.h>

#include "common/launch/flags.h"

typedef struct {
    char role[256];
    int num_ranks;
    int number; // its own number; 0: none
} Node;

typedef struct {
    int first_rank, world_size; // of this node's ranks; of the job
    int first_role_rank, role_world_size; // the same among the ranks of this node's role
} Ranks;

/* This node, as a line of JSON that torchrun's agents understand; free it with free(). Dies where
 * the role is no text. */
char *node_encode(const Flags *flags, int number);
/* False: invalid, or impossible numbers. */
bool node_decode(Node *node, const char *text, size_t bytes);

/* Ranks are numbered node by node, and again among the nodes of each role. */
Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node);

#endif
