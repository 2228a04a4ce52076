/* seat.h - what node 0 tells an agent that waits: its seat in the next group, or that there is none
 * to come. */
#ifndef COMMON_LAUNCH_SEAT_H
#define COMMON_LAUNCH_SEAT_H

#include "common/launch/nodes.h"

typedef struct {
    int node_rank, num_nodes;
    int master_port; // of the attempt's store
    Ranks ranks;
    int restart_count, num_failures; // see group.h

    bool is_over; // the job is, and only these count:
    int status; // of the job, as a shell has it
    char reason[512];
} Seat;

/* As one line of JSON; free it with free(). */
char *seat_encode(const Seat *seat);
/* False: text is none, or no seat there can be. */
bool seat_decode(Seat *seat, const char *text, size_t bytes);

#endif
