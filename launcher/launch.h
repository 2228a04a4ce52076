/* launch.h - a launcher: reads its command line, starts the ranks of its node, watches them, and
 * meets and ends with the launchers of the job's other nodes. */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "common/base/log.h"
#include "common/base/options.h"
#include "common/comm/store/store.h"

/* ---- the command line: torchrun's flags, with their names and meanings (flags.c) ---- */

#define FLAGS_MAX_WORKERS 1024 // on one node
#define FLAGS_MAX_NODES 4096

typedef struct {
    int nproc_per_node;
    int min_nodes, max_nodes; // equal, unless nodes may come and go
    bool elastic; // nodes get their ranks at the rendezvous and may come and go: step 05
    int node_rank;
    char master_addr[256]; // where node 0 serves the store
    int master_port; // 0 for any free one (one node only)
    char run_id[65]; // the job's name, part of keys and file names
    const char *role;
    int max_restarts;
    double monitor_interval; // seconds between polls of what sends no signal
    double shutdown_timeout; // seconds from SIGTERM to SIGKILL
    double join_timeout; // seconds the nodes wait for each other
    double last_call_timeout; // elastic: seconds to wait for more nodes once there are enough
    int is_host; // elastic: whether this node hosts the rendezvous (-1 to find out)
    double heartbeat_interval; // seconds between a node's heartbeats
    int heartbeat_limit; // missed heartbeats after which a node is lost

    const char *program; // as typed, for messages
    char **command; // what a worker runs, NULL at its end
    char local_rank_argument[32]; // an element of command, if requested: filled in per worker

    // As typed; NULL if not given.
    const char *nproc, *nnodes, *master_name, *rdzv_backend, *rdzv_endpoint, *rdzv_id, *rdzv_conf;
    const char *secret_file, *log_dir, *completion;
    const char *redirects, *tee, *local_ranks_filter, *line_prefix; // for extras/output
    const char *stdout_filters, *stderr_filters, *numa_binding; // for extras/output
    const char *local_addr, *signals_to_handle, *logs_specs; // for step 05
    int typed_port; // -1 if not given
    bool standalone, module, no_python, pass_local_rank, run_path, virtual_local_rank, only_print;
} Flags;

/* All flags, also those of launcher/torchrun_flags.h. */
extern const Option flag_options[];

/* What --help adds in step 05, whose ddprun restarts the ranks and lets nodes come and go. */
typedef struct {
    const char *text; // a paragraph
    const char *settings; // more settings of --rdzv-conf
    const Option *help; // value and help of flags that are new, or mean more
} MoreFlags;

/* Fills flags from, in increasing order of precedence, the defaults, the variables PET_<FLAG>
 * (PET_NPROC_PER_NODE=2), the command line. Ends the process with status 2 and one line on an
 * invalid flag, or one of step 05 if more is NULL, with status 0 after --help. */
void flags_parse(Flags *flags, const MoreFlags *more, int argc, char **argv);
void flags_free(Flags *flags);

/* Puts "python3 -u" in front of the program, and these words if not NULL. For step 05. */
void flags_use_python(Flags *flags, char *option, char *code);

/* Sets master_addr to the text of this flag, "--local-addr". For step 05. */
void flags_set_address(Flags *flags, const char *flag, const char *text);

/* ---- where a worker leaves its error, and its output if that goes to files (workers.c) ----
 *
 *   <log dir>/<run id>_<random>/attempt_<restarts>/<local rank>/error.json stdout.log stderr.log */
typedef struct {
    const Flags *flags;
    char folder[PATH_MAX - 64]; // the run's; empty if none yet, or if removed because it was empty
    char attempt[PATH_MAX - 32]; // the attempt's folder in it
    int (*output)[2]; // stdout and stderr of each local rank, until it is started (-1: as ours)
    struct Tee *tee; // state of extras/output
} Logs;

/* Allocates Logs in memory shared with the watcher. logs_free prints where the logs are if the user
 * did not choose the folder. */
Logs *logs_init(const Flags *flags);
void logs_free(Logs *logs);

void logs_open(Logs *logs, int first_rank, int restart_count); // creates the folders of an attempt
void logs_close(Logs *logs); // removes empty folders, when the workers have ended

/* Writes the path of a worker's file ("error.json") to path. */
void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX]);

/* ---- the workers: processes, started, watched, ended (workers.c) ---- */

/* A worker leads a session, and so a process group, of its own: a signal to it also reaches what it
 * started, and Ctrl-C on the terminal reaches only the launcher, which passes it on. When the
 * launcher dies, even by SIGKILL, the kernel kills the workers, and a child of the launcher, the
 * watcher, kills what is left of their groups and removes their empty folders. */
typedef struct {
    pid_t pid; // 0 if it could not be started
    int error; // errno, if it could not be started
    bool running;
    bool has_group; // it, or something it started, still runs
    bool was_signalled; // we sent it a signal before it ended
    int status; // as in a shell: exit status, or 128 + signal
    int signal; // signal that killed it, or 0
    double ended; // when it ended, by seconds_awake()
} Worker;

typedef struct {
    Worker *worker; // [num_workers], by local rank; memory shared with the watcher
    Logs *logs; // also shared with the watcher
    int num_workers;
    int num_running;
    int request; // the last signal that asked us to end, or 0
    pid_t watcher; // process that waits for the launcher's end
    sigset_t signals; // signals that wake us: SIGCHLD, and requests to end
    bool adopts; // whether processes that a worker leaves behind become our children
    bool passes_all_on; // whether each signal is passed on as it is, not as SIGTERM
    sigset_t old_mask; // restored in workers, and at the end
} Workers;

/* Directs requests to end to workers_wait alone, unless they are ignored: the signals `chosen`, or
 * if it is NULL SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, and SIGUSR1 and SIGUSR2, by
 * which Slurm announces the time limit. workers_free undoes this, except that the last request,
 * unless it was SIGINT, stays ignored until the process ends. */
void workers_init(Workers *workers, Logs *logs, const sigset_t *chosen);
void workers_free(Workers *workers);

/* Starts command with the current environment; its output goes where the logs have it. Only local
 * rank 0 gets our stdin. Returns false if the program cannot be started, which counts as a worker
 * that ended with status 127 (not found) or 126 (else), as in a shell. */
bool workers_start(Workers *workers, int local_rank, char **command);

/* Sleeps until a worker ends, a request to end arrives, or `seconds` are over. Returns the
 * request's signal, or 0. */
int workers_wait(Workers *workers, double seconds);

/* Returns the first worker to fail, or NULL. EXIT_STOPPED is a failure only if another worker ended
 * otherwise, or still runs `timeout` seconds later. */
const Worker *workers_failed(const Workers *workers, double timeout);

bool workers_all_ended_with(const Workers *workers, int status);

/* Sends the signal (SIGTERM for SIGUSR2, SIGALRM and SIGXCPU, unless they were chosen) to all
 * workers left, stopped ones too, and SIGKILL `seconds` later, or at once on Ctrl-C. Returns when
 * all their processes have ended. */
void workers_end(Workers *workers, int signal, double seconds);

/* ---- what ended a job, a worker or a launcher on any node (failure.c) ---- */

typedef struct {
    int status; // the job's status from now on, as in a shell; 0 if no failure
    int signal; // signal that killed the worker, or 0
    bool is_unread; // the signal is SIGPIPE, since the reader of the output is gone
    bool is_final; // the rank reports that it would fail again (log_last_error)
    double time; // seconds since 1970, by its node's clock
    int node;
    int rank, local_rank; // -1 for the launcher itself
    int pid; // 0 if never started
    char host[HOST_NAME_MAX + 1];
    char message[1024]; // its last message, or empty
    char log[PATH_MAX]; // path of its log on its node, or empty
} Failure;

/* Records a worker's failure, with the message in its TORCHELASTIC_ERROR_FILE, if it wrote one. */
void failure_of_worker(Failure *failure, const Worker *worker, int rank, int local_rank,
                       const Logs *logs);

struct json_t *failure_load_file(const char *path); // loads such a file; NULL if none, or invalid

void failure_of_launcher(Failure *failure, int node, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool failure_is_earlier(const Failure *a, const Failure *b); // whether a may have caused b

/* Convert a failure to JSON for other nodes (free it with free()), and back; false if invalid. */
char *failure_encode(const Failure *failure);
bool failure_decode(Failure *failure, const char *text, size_t bytes);

/* Writes "exit status 3" or "killed by SIGTERM" to text, and returns text. */
#define END_BYTES 64
const char *end_text(int status, int signal, char text[END_BYTES]);

/* Prints to standard error the failure that ended the job: a line, or with extras/output, if the
 * workers are to blame, also how this node's other ranks ended. */
void report_print(const Failure *root, const Workers *workers, int first_rank);

/* What extras/output adds: --redirects, --tee, --numa-binding, and a report of several lines. In a
 * build without it (launcher_no_extras.c) the workers have the launcher's output. */
void rank_output_check(const Flags *flags); // usage error if its flags are wrong
void rank_output_open(Logs *logs, int first_rank); // sets logs->output, and begins to copy
void rank_output_close(Logs *logs); // copies what is left, and frees logs->output
bool numa_bind(int local_rank); // in the worker, chooses its cores; false and errno if it cannot
void rank_report(const Failure *root, const Workers *workers, int first_rank);
/* Prints, on a terminal, why all ranks start again; else prints nothing and returns false. */
bool fault_block_print(const Failure *root, const Workers *workers, int first_rank, int attempt);

/* ---- the launchers of a job's nodes ----
 *
 * - agents_join waits for the other nodes: one ddprun per node, of which node 0's serves the store.
 *   Then start `ranks`.
 * - agents_done or agents_fail publishes how this node ended. agents_verdict, called every now and
 *   then, returns whether the job has ended, agents_root_cause why (after VERDICT_FAILED).
 * - agents_leave, at the end: all leave together.
 * - Until agents_join returns, a store that fails ends the process. After that it does not: node 0
 *   counts as out of reach. No call waits longer than job_store_timeout for an answer.
 *
 * They use the store as torchrun's static agents do, so both can be mixed in one job. But ddprun
 * goes further: all nodes learn of a failure at once, none waits for a dead node, and no failure is
 * mistaken for success. Keys are under "<run id>/"; %d is a node. */
#define KEY_ROLE_INFO_ALL "torchelastic/role_info/"
#define KEY_ROLE_INFO KEY_ROLE_INFO_ALL "%d" // an offer: {"role", "rank", "local_world_size"}
#define KEY_GONE KEY_ROLE_INFO STORE_GONE // set when that launcher disconnects, even if killed
#define KEY_ASSIGNED_RANKS "torchelastic/assigned_ranks/%d" // node 0's answer, see assign_ranks
#define KEY_NUM_MEMBERS "torchelastic/agent/terminal_state/num_members" // nodes that are done
#define KEY_END "torchelastic/agent/terminal_state/last_member" // how the job ended: END_*
#define KEY_NUM_NODES "ddprun/num_nodes" // --nnodes and --max-restarts of the first node
#define KEY_HEARTBEAT "ddprun/heartbeat/%d" // rises while the launcher lives; node 0's alone stays
#define KEY_FAILURE "ddprun/failure/%d" // the node's first failure: see failure_encode
#define KEY_ROOT "ddprun/root" // the failure that all nodes report
#define KEY_NUM_STOPPED "ddprun/num_stopped" // nodes that are done with EXIT_STOPPED

#define END_FAILED "failed"
#define END_STOPPED "stopped"
#define END_CHANGED "changed" // nodes have joined: the job continues with another group
#define END_DONE "<val_ignored>" // torchrun's value

typedef struct {
    char text[64];
} Key;

Key node_key(const char *format, int node);

/* ---- how they find each other (rendezvous.c) ---- */

bool address_is_here(const char *host); // whether it is a name or an address of this machine

/* Sets up the job's secret: generated for one node, read from --secret-file for several. If several
 * nodes have none, node 0 logs that when they meet; the variable is then empty, so that no rank
 * repeats it. Ranks and the store's clients find file and run id in the environment. */
void job_secret_init(const Flags *flags);

/* Connects this node to the job's store, under the job's prefix. Returns false and sets errno if
 * that takes longer than `seconds`, which is also the timeout of later requests. */
bool job_store_connect(Store *store, const Flags *flags, double seconds);

double job_store_timeout(const Flags *flags); // seconds of silence after which node 0 is gone

typedef struct {
    char role[256];
    int num_ranks; // ranks that this node offers
    int number; // its own number, or 0
} Node;

typedef struct {
    int first_rank, world_size; // the first of this node's ranks; ranks of the job
    int first_role_rank, role_world_size; // the same among the ranks of this node's role
} Ranks;

/* Returns this node as a line of JSON that torchrun's agents understand; free it with free(). Dies
 * if the role is not UTF-8. node_decode returns false if it is invalid or impossible. */
char *node_encode(const Flags *flags, int number);
bool node_decode(Node *node, const char *text, size_t bytes);

/* Numbers ranks node by node, and again among the nodes of each role, as torchrun does. */
Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node);

/* Connects to node 0's store and waits there for all nodes. Dies if one does not come within
 * flags->join_timeout; all die if one was given a different --nnodes or --max-restarts. */
Ranks rendezvous(Store *store, const Flags *flags);

/* ---- how they end together (agents.c) ---- */

/* How a group ended; CHANGED: another one continues (launcher/elastic_group.h). */
typedef enum {
    VERDICT_NONE,
    VERDICT_DONE,
    VERDICT_STOPPED,
    VERDICT_CHANGED,
    VERDICT_FAILED
} Verdict;

typedef struct {
    const Flags *flags;
    int master_port; // the store's port
    Ranks ranks;
    StoreServer *server; // the store's server, on node 0
    char watched[128]; // prefix of the keys that it watches
    Verdict verdict;
    Failure failure; // the first one known; its status is 0 if there is none
    double done_since; // when this node's workers were done; 0 if they are not

    // Only where there are several nodes:
    bool has_torchrun_nodes; // some run torchrun, which does not report failures
    bool host_is_torchrun; // node 0 runs torchrun
    Store store; // failed: node 0 is out of reach, or this is the only node
    Store heartbeat_store; // the connection of the heartbeat thread
    pthread_t heartbeat_thread;
    atomic_bool heartbeat_over; // it saw the job's end, or its store has failed
} Agents;

/* Tells the next worker which rank it is: it inherits this environment (rank_environment.c). */
void rank_set_environment(const Flags *flags, const Agents *agents, const Logs *logs,
                          int local_rank, int restart_count);

void agents_join(Agents *agents, const Flags *flags);

/* agents_join in two parts. agents_open starts the store on node 0 and sets master_port. Elastic
 * nodes then connect `store` and set `ranks`; for fixed ones agents_begin does both. */
void agents_open(Agents *agents, const Flags *flags);
void agents_begin(Agents *agents);

void agents_done(Agents *agents, bool stopped);
void agents_fail(Agents *agents, const Failure *failure); // this node's first failure

Verdict agents_verdict(Agents *agents); // the same on all nodes

/* Returns the first failure on any node, the same on all. A node's loss explains all others. */
const Failure *agents_root_cause(Agents *agents);

void agents_leave(Agents *agents); // waits no longer than another may take to end its workers

#endif
