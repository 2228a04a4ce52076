/* nodes.h - what the nodes of a job bring, and which ranks they get for it. */
#ifndef COMMON_LAUNCH_NODES_H
#define COMMON_LAUNCH_NODES_H

#include <stddef.h>

#include "common/launch/flags.h"

typedef struct {
    char role[256];
    int num_ranks;
    int number; // by which it calls itself; 0 if it does not
} Node;

typedef struct {
    int first_rank, world_size; // of this node's ranks; of the job
    int first_role_rank, role_world_size; // the same among the ranks of this node's role
} Ranks;

/* This node, as a line of JSON that torchrun's agents understand; free it with free(). Dies where
 * the role is no text. */
char *node_encode(const Flags *flags, int number);
/* False: text is none, or promises what cannot be. */
bool node_decode(Node *node, const char *text, size_t bytes);

/* Ranks are counted through by node, and among the nodes of each role once more. */
Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node);

#endif
