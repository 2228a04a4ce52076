/* What the launcher's --help adds where nodes may come and go. */
#include "05_fault_tolerance/elastic_group.h"

const MoreFlags more_flags = {
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
