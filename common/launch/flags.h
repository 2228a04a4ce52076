/*
 * flags.h - the launcher's command line: torchrun's flags, with torchrun's names and meanings.
 *
 * Values come from, in increasing order of precedence: the defaults, the variables PET_<FLAG>
 * (PET_NPROC_PER_NODE=2), the command line. The first word that is not a flag is the program; the
 * rest are its arguments.
 */
#ifndef COMMON_LAUNCH_FLAGS_H
#define COMMON_LAUNCH_FLAGS_H

#include "common/base/options.h"

#define FLAGS_MAX_WORKERS 1024 // on one node
#define FLAGS_MAX_NODES 4096

typedef struct {
    int nproc_per_node;
    int min_nodes, max_nodes; // the same number, unless nodes may come and go
    bool elastic; // nodes get their ranks at the rendezvous and may come and go: step 05
    int node_rank;
    char master_addr[256]; // where node 0 serves the store
    int master_port; // 0: any free one (one node only)
    char run_id[65]; // part of keys and file names
    const char *role;
    int max_restarts;
    double monitor_interval; // seconds between polls of what sends no signal
    double shutdown_timeout; // seconds from SIGTERM to SIGKILL
    double join_timeout; // seconds the nodes wait for each other
    double last_call_timeout; // elastic: seconds to wait for more nodes once there are enough
    int is_host; // elastic: does this node host the rendezvous? -1: find out
    double heartbeat_interval; // seconds between a node's heartbeats
    int heartbeat_limit; // missed heartbeats after which a node is lost

    const char *program; // as typed, for messages
    char **command; // what a worker runs, NULL at its end
    char local_rank_argument[32]; // an element of command, if requested: filled in per worker

    // As typed. NULL: not given.
    const char *nproc, *nnodes, *master_name, *rdzv_backend, *rdzv_endpoint, *rdzv_id, *rdzv_conf;
    const char *secret_file, *log_dir;
    const char *redirects, *tee, *local_ranks_filter, *line_prefix; // for extras/watch
    const char *local_addr, *signals_to_handle, *logs_specs; // for step 05
    int typed_port; // -1: not given
    bool standalone, module, no_python, pass_local_rank, run_path, virtual_local_rank;
} Flags;

/* All flags, those of step 05 too: it has 05_fault_tolerance/torchrun_flags.h. */
extern const Option flag_options[];

/* What --help adds in step 05, whose ddprun restarts the ranks and lets nodes come and go. */
typedef struct {
    const char *text; // a paragraph
    const char *settings; // more of --rdzv-conf
    const Option *help; // value and help of flags that are new, or mean more
} MoreFlags;

/* Fills flags; ends the process with status 2 and one line on an invalid flag or one that a later
 * step teaches (more == NULL: step 05 does), with status 0 after --help. */
void flags_parse(Flags *flags, const MoreFlags *more, int argc, char **argv);
void flags_free(Flags *flags);

/* ---- for the flags of step 05 ---- */

/* Has Python run the program: puts "python3 -u" in front of it, and these words if not NULL. */
void flags_use_python(Flags *flags, char *option, char *code);

/* Sets master_addr to the text of this flag ("--local-addr"): a name or an address. */
void flags_set_address(Flags *flags, const char *flag, const char *text);

#endif
