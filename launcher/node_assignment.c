/* An assignment is an array of numbers and an address; the end of the job is an object with the
 * reason. Both come from the network, so impossible assignments are refused. */
#include "launcher/node_assignment.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"

char *assignment_encode(const Assignment *assignment)
{
    const Ranks *ranks = &assignment->ranks;
    json_t *root =
        assignment->is_over
            ? json_pack("{si so}", "status", assignment->status, "reason",
                        json_text(assignment->reason))
            : json_pack("[iiiiiiiiio]", assignment->node_rank, assignment->num_nodes,
                        assignment->master_port, ranks->first_rank, ranks->world_size,
                        ranks->first_role_rank, ranks->role_world_size, assignment->restart_count,
                        assignment->num_failures, json_text(assignment->master_addr));
    char *text = json_dumps(root, 0);
    CHECK(text != NULL, "out of memory");
    json_decref(root);
    return text;
}

static bool is_possible(const Assignment *assignment)
{
    const Ranks *ranks = &assignment->ranks;
    return assignment->node_rank > 0 && assignment->node_rank < assignment->num_nodes &&
           assignment->num_nodes <= FLAGS_MAX_NODES && assignment->master_port > 0 &&
           assignment->master_port <= UINT16_MAX && ranks->first_rank >= 0 &&
           ranks->first_rank < ranks->world_size && ranks->first_role_rank >= 0 &&
           ranks->first_role_rank < ranks->role_world_size && assignment->restart_count >= 0 &&
           assignment->num_failures >= 0;
}

bool assignment_decode(Assignment *assignment, const char *text, size_t bytes)
{
    *assignment = (Assignment){ 0 };
    json_t *root = json_loadb(text, bytes, 0, NULL);
    const char *reason = "", *host = "";
    assignment->is_over = json_is_object(root);
    bool valid;
    if (assignment->is_over)
        valid =
            json_unpack(root, "{si ss}", "status", &assignment->status, "reason", &reason) == 0 &&
            assignment->status >= 0 && assignment->status <= 255;
    else
        valid = json_unpack(root, "[iiiiiiiiis]", &assignment->node_rank, &assignment->num_nodes,
                            &assignment->master_port, &assignment->ranks.first_rank,
                            &assignment->ranks.world_size, &assignment->ranks.first_role_rank,
                            &assignment->ranks.role_world_size, &assignment->restart_count,
                            &assignment->num_failures, &host) == 0 &&
                host[0] != '\0' && strlen(host) < sizeof assignment->master_addr &&
                is_possible(assignment);
    if (valid)
        strcpy(assignment->master_addr, host);
    snprintf(assignment->reason, sizeof assignment->reason, "%s", reason);
    json_decref(root);
    return valid;
}
