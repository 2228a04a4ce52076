/* Stands in for extras/watch and extras/simulated_network, which act when a group is formed. */
#include "common/comm/backend.h"

const GroupHooks group_hooks = { NULL, NULL, NULL }, network_hooks = { NULL, NULL, NULL };
