/* Stands in for extras/watch, which watches a group. */
#include "common/comm/backend.h"

const GroupHooks group_hooks = { NULL, NULL, NULL };
