/* Stands in for extras/watch, which watches a group. */
#include "common/comm/observer.h"

const GroupHooks group_hooks = { NULL, NULL, NULL };
