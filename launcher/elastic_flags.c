/* The help text of the launcher's flags where nodes may come and go, and of those in
 * torchrun_flags.h. */
#include "launcher/elastic_group.h"

static const Option help[] = {
    { .name = "nnodes",
      .value = "N|MIN:MAX",
      .help = "nodes of the job; MIN:MAX: the number may change" },
    { .name = "rdzv-backend", .value = "NAME", .help = "static, or c10d: nodes number themselves" },
    { .name = "rdzv-endpoint",
      .value = "HOST:PORT",
      .help = "where they meet; HOST is one of them (port 29400)" },
    { .name = "max-restarts",
      .value = "N",
      .help = "restart all ranks up to N times when one fails" },
    { .name = "monitor-interval",
      .value = "S",
      .help = "seconds between checks of deadlines and new nodes" },
    { .name = "local-addr",
      .value = "HOST",
      .help = "node 0, unless node 0 is named or a port is" },
    { .name = "run-path", .value = "", .help = "the program is for Python, by runpy.run_path" },
    { .name = "virtual-local-rank",
      .value = "",
      .help = "LOCAL_RANK 0 for all: each sees one GPU, its own" },
    { .name = "signals-to-handle",
      .value = "SIG,...",
      .help = "end on these alone; pass them on as they are" },
    { 0 },
};

const MoreFlags more_flags = {
    .help = help,
    .text =
        "After a failure all ranks are restarted, up to --max-restarts times, as a new group\n"
        "with an empty store; not after status 2 (a wrong option) or 75 from all (stopped on\n"
        "request). With MIN:MAX nodes, or --rdzv-backend c10d, the nodes number themselves.\n"
        "Lost nodes are left out and new ones admitted: WORLD_SIZE changes with them, and\n"
        "TORCHELASTIC_RESTART_COUNT counts the attempts. A node that was cut off from the others\n"
        "is taken back within join_timeout; fixed nodes try for 30 s and --shutdown-timeout,\n"
        "which uses up a restart.\n"
        "\n"
        "    ddprun --nnodes 1:4 --rdzv-endpoint alpha:29400 --max-restarts 3 ./train 10\n"
        "\n",
    .settings =
        "  last_call_timeout                seconds to wait for more nodes than the minimum (30)\n"
        "  is_host                          does this node host the rendezvous? (found out) 0, 1\n",
};
