/* node_assignment.h - node 0's message to a waiting agent: its assignment in the next group, or the
 * end of the job. */
#ifndef LAUNCHER_NODE_ASSIGNMENT_H
#define LAUNCHER_NODE_ASSIGNMENT_H

#include "launcher/launch.h"

typedef struct {
    int node_rank, num_nodes;
    char master_addr[256]; // where the attempt's store is
    int master_port;
    Ranks ranks;
    int restart_count, num_failures; // see elastic_group.h

    bool is_over; // the job is over, and only this and the fields below are set
    int status; // the job's status, as in a shell
    char reason[512];
} Assignment;

/* Returns the assignment as a line of JSON; free it with free(). */
char *assignment_encode(const Assignment *assignment);
/* Returns false if the text is invalid. */
bool assignment_decode(Assignment *assignment, const char *text, size_t bytes);

#endif
