/* seat.h - what node 0 tells a waiting agent: its assignment in the next group, or that the job is
 * over. */
#ifndef COMMON_LAUNCH_SEAT_H
#define COMMON_LAUNCH_SEAT_H

#include "common/launch/nodes.h"

typedef struct {
    int node_rank, num_nodes;
    int master_port; // of the attempt's store
    Ranks ranks;
    int restart_count, num_failures; // see group.h

    bool is_over; // the job is over, and only these are set:
    int status; // of the job, as in a shell
    char reason[512];
} Seat;

/* As a line of JSON; free it with free(). */
char *seat_encode(const Seat *seat);
/* False: invalid. */
bool seat_decode(Seat *seat, const char *text, size_t bytes);

#endif
