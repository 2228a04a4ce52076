/*
 * flags.h - the launcher's command line: torchrun's flags, with torchrun's names and meanings.
 *
 * Values come from, in increasing order of precedence: the defaults, the variables PET_<FLAG>
 * (PET_NPROC_PER_NODE=2), the command line. The first word that is not a flag is the program; the
 * rest are its arguments.
 */
#ifndef COMMON_LAUNCH_FLAGS_H
#define COMMON_LAUNCH_FLAGS_H

#include <stdbool.h>

#define FLAGS_MAX_WORKERS 1024 // on one node
#define FLAGS_MAX_NODES 4096

typedef enum {
    NPROC_PER_NODE,
    NNODES,
    NODE_RANK,
    MASTER_ADDR,
    MASTER_PORT,
    STANDALONE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
    RDZV_ID,
    RDZV_CONF,
    SECRET_FILE,
    MAX_RESTARTS,
    SHUTDOWN_TIMEOUT,
    MONITOR_INTERVAL,
    ROLE,
    LOG_DIR,
    REDIRECTS,
    TEE,
    LOCAL_RANKS_FILTER,
    LOG_LINE_PREFIX_TEMPLATE,
    MODULE,
    NO_PYTHON,
    PASS_LOCAL_RANK,
    START_METHOD,
    EVENT_LOG_HANDLER,
    FIRST_OF_STEP_05, // 05_fault_tolerance/torchrun_flags.h has these
    LOCAL_ADDR = FIRST_OF_STEP_05,
    RUN_PATH,
    VIRTUAL_LOCAL_RANK,
    SIGNALS_TO_HANDLE,
    LOGS_SPECS,
    NUM_FLAGS
} Flag;

const char *flag_name(Flag flag); // without the dashes

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

    const char *log_dir; // or NULL: a temporary folder

    const char *program; // as typed, for messages
    char **command; // what a worker runs, NULL at its end
    char local_rank_argument[32]; // an element of command, if requested: filled in per worker
    const char *texts[NUM_FLAGS]; // of the flags, see flag_texts_find
} Flags;

/* What --help says in step 05, whose ddprun restarts the ranks, lets nodes come and go, and has
 * more flags. */
typedef struct {
    const char *text; // a paragraph
    const char *settings; // more of --rdzv-conf
    struct {
        const char *argument, *help; // NULL: as in step 03
    } flag[NUM_FLAGS];
} MoreFlags;

/* Fills flags; ends the process with status 2 and one line on an invalid flag or one that a later
 * step teaches (more == NULL: step 05 does), with status 0 after --help. */
void flags_parse(Flags *flags, const MoreFlags *more, int argc, char **argv);
void flags_free(Flags *flags);

/* ---- the text of each flag (flag_texts.c) ---- */

/* Finds every flag's text: from the command line, else from its PET_ variable, else the default; a
 * switch has "1" where it is on. NULL: none. Returns the index in argv of the first word that is
 * not a flag. Ends the process like flags_parse. */
int flag_texts_find(const char *texts[NUM_FLAGS], const MoreFlags *more, int argc, char **argv);

/* ---- for the flags of step 05 (flags.c) ---- */

/* Has Python run the program: puts "python3 -u" in front of it, and these words if not NULL. */
void flags_use_python(Flags *flags, char *option, char *code);

/* Sets master_addr: a name or an address. */
void flags_read_address(Flags *flags, Flag flag);

#endif
