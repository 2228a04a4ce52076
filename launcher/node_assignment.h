/* node_assignment.h - node 0's message to a waiting agent: its assignment in the next group, or the
 * end of the job. */
#ifndef LAUNCHER_NODE_ASSIGNMENT_H
#define LAUNCHER_NODE_ASSIGNMENT_H

#include "launcher/launch.h"

typedef struct {
    int node_rank, num_nodes;
    char master_addr[256]; // of the attempt's store
    int master_port;
    Ranks ranks;
    int restart_count, num_failures; // see elastic_group.h

    bool is_over; // the job is over, and only these are set:
    int status; // of the job, as in a shell
    char reason[512];
} Assignment;

/* As a line of JSON; free it with free(). */
char *assignment_encode(const Assignment *assignment);
/* False: invalid. */
bool assignment_decode(Assignment *assignment, const char *text, size_t bytes);

#endif
