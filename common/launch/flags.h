/*
 * flags.h - the launcher's command line: torchrun's flags, with torchrun's names and meanings.
 *
 * Values come from, in rising order: the defaults, the variables PET_<FLAG> (PET_NPROC_PER_NODE=2),
 * the command line. The first word that is no flag is the program; all behind it is the program's.
 */
#ifndef COMMON_LAUNCH_FLAGS_H
#define COMMON_LAUNCH_FLAGS_H

#include <stdbool.h>

#include "common/base/args.h"

#define FLAGS_MAX_WORKERS 1024 // on one node
#define FLAGS_MAX_NODES 4096

/* What of a worker's output goes where: torchrun's numbers. */
enum { STREAM_STDOUT = 1, STREAM_STDERR = 2 };

typedef struct {
    int nproc_per_node;
    int min_nodes, max_nodes; // the same number, unless nodes may come and go
    bool elastic; // the nodes number themselves, and may come and go: see group.h
    int node_rank;
    char master_addr[256]; // where node 0 serves the store
    int master_port; // 0: any free one (one node only)
    char run_id[65]; // it goes into keys and file names
    const char *role;
    int max_restarts;
    double monitor_interval; // seconds between two looks at what sends no signal
    double shutdown_timeout; // seconds from SIGTERM to SIGKILL
    double join_timeout; // seconds the nodes wait for each other
    double last_call_timeout; // elastic: seconds for more to come, when there are enough
    int is_host; // elastic: 1: this node serves where they meet, 0: it does not, -1: find out
    double pulse_interval; // seconds between two signs of life of a node
    int pulse_limit; // so many missing ones: the node is lost

    const char *log_dir; // or NULL: a temporary folder
    char redirects[FLAGS_MAX_WORKERS]; // by local rank, sums of STREAM_*: to a file
    char tee[FLAGS_MAX_WORKERS]; // to a file and the console
    bool shown[FLAGS_MAX_WORKERS]; // on the console
    const char *log_line_prefix_template;

    const char *program; // as it was typed, for messages
    char **command; // what a worker runs, NULL at its end
    char local_rank_argument[32]; // an element of command, if asked for: to be filled in
} Flags;

/* Fills flags; ends the process with status 2 and one line on anything it does not understand or
 * that a later step teaches, with status 0 after --help. */
void flags_parse(Flags *flags, Step step, int argc, char **argv);
void flags_free(Flags *flags);

#endif
