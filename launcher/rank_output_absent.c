/* Stands in for --redirects, --tee and the report of extras/output in builds without extras. */
#include "launcher/launch.h"

const RankOutput rank_output = { 0 };
