/* Stands in for --redirects, --tee and the report of extras/watch in builds without extras. */
#include "common/launch/launch.h"

const RankOutput rank_output = { 0 };
