/* Stands in for --redirects, --tee and the report of extras/watch in builds without extras. */
#include "launcher/launch.h"

const RankOutput rank_output = { 0 };
