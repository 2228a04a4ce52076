/*
 * A node's offer is one line of JSON, in the form of torchrun's agents, so that both can be mixed.
 * Ranks are numbered node by node, and within each role once more, as torchrun numbers them.
 */
#include "common/launch/nodes.h"

#include <jansson.h>
#include <string.h>

#include "common/base/log.h"

char *node_encode(const Flags *flags, int number)
{
    json_t *info = json_pack("{ss si si}", "role", flags->role, "rank", number, "local_world_size",
                             flags->nproc_per_node);
    CHECK(info != NULL, "--role must be UTF-8");
    char *text = json_dumps(info, 0);
    CHECK(text != NULL, "out of memory");
    json_decref(info);
    return text;
}

bool node_decode(Node *node, const char *text, size_t bytes)
{
    *node = (Node){ 0 };
    json_t *info = json_loadb(text, bytes, 0, NULL);
    const char *role = "";
    const bool valid = json_unpack(info, "{ss si s?i}", "role", &role, "local_world_size",
                                   &node->num_ranks, "rank", &node->number) == 0 &&
                       strlen(role) < sizeof node->role && node->num_ranks > 0 &&
                       node->num_ranks <= FLAGS_MAX_WORKERS;
    if (valid)
        strcpy(node->role, role);
    json_decref(info);
    return valid;
}

Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node)
{
    Ranks ranks = { 0 };
    for (int i = 0; i < num_nodes; i++) {
        const int role_ranks =
            strcmp(nodes[node].role, nodes[i].role) == 0 ? nodes[i].num_ranks : 0;
        ranks.world_size += nodes[i].num_ranks;
        ranks.role_world_size += role_ranks;
        ranks.first_rank += i < node ? nodes[i].num_ranks : 0;
        ranks.first_role_rank += i < node ? role_ranks : 0;
    }
    return ranks;
}
