/*
 * An assignment is an array of numbers, the end of the job an object with the reason. Both come from
 * the network: what is not a possible assignment is refused.
 */
#include "common/launch/seat.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/log.h"

char *seat_encode(const Seat *seat)
{
    const Ranks *ranks = &seat->ranks;
    json_t *root =
        seat->is_over
            ? json_pack("{si ss}", "status", seat->status, "reason", seat->reason)
            : json_pack("[iiiiiiiii]", seat->node_rank, seat->num_nodes, seat->master_port,
                        ranks->first_rank, ranks->world_size, ranks->first_role_rank,
                        ranks->role_world_size, seat->restart_count, seat->num_failures);
    char *text = json_dumps(root, 0);
    CHECK(text != NULL, "out of memory");
    json_decref(root);
    return text;
}

static bool is_possible(const Seat *seat)
{
    const Ranks *ranks = &seat->ranks;
    return seat->node_rank > 0 && seat->node_rank < seat->num_nodes &&
           seat->num_nodes <= FLAGS_MAX_NODES && seat->master_port > 0 &&
           seat->master_port <= UINT16_MAX && ranks->first_rank >= 0 &&
           ranks->first_rank < ranks->world_size && ranks->first_role_rank >= 0 &&
           ranks->first_role_rank < ranks->role_world_size && seat->restart_count >= 0 &&
           seat->num_failures >= 0;
}

bool seat_decode(Seat *seat, const char *text, size_t bytes)
{
    *seat = (Seat){ 0 };
    json_t *root = json_loadb(text, bytes, 0, NULL);
    const char *reason = "";
    seat->is_over = json_is_object(root);
    bool valid;
    if (seat->is_over)
        valid = json_unpack(root, "{si ss}", "status", &seat->status, "reason", &reason) == 0 &&
                seat->status >= 0 && seat->status <= 255;
    else
        valid = json_unpack(root, "[iiiiiiiii]", &seat->node_rank, &seat->num_nodes,
                            &seat->master_port, &seat->ranks.first_rank, &seat->ranks.world_size,
                            &seat->ranks.first_role_rank, &seat->ranks.role_world_size,
                            &seat->restart_count, &seat->num_failures) == 0 &&
                is_possible(seat);
    snprintf(seat->reason, sizeof seat->reason, "%s", reason);
    json_decref(root);
    return valid;
}
