/* The launcher's command line. Each flag's text comes from the command line, else from its
 * variable, else it is the default; the last one counts. Then flags that belong together are
 * combined: torchrun's several ways of naming node 0 become one address and one port. */
#include "launcher/launch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/memory.h"
#include "common/comm/store/handshake.h"
#include "common/comm/store/net.h"

#define MAX_SECONDS 1e6
#define MAX_PYTHON_WORDS 4 // in front of a program
#define DEFAULT_PORT 29500 // fixed, since all nodes must know it
#define DEFAULT_ENDPOINT_PORT 29400 // default for elastic nodes
#define FIELD(name) offsetof(Flags, name)

/* A flag without help has one in step 05, or is accepted without effect. */
const Option flag_options[] = {
    { "nproc-per-node", "N", "1", "35", OPTION_STRING, FIELD(nproc),
      .help = "ranks on this node: 4, cpu, gpu, auto" },
    { "nnodes", "N", "1", "35", OPTION_STRING, FIELD(nnodes),
      .help = "nodes of the job; start ddprun once on each" },
    { "node-rank", "R", "0", "35", OPTION_INT, FIELD(node_rank),
      .help = "which of them this is, counted from 0", .high = FLAGS_MAX_NODES - 1 },
    { "master-addr", "HOST", "127.0.0.1", "35", OPTION_STRING, FIELD(master_name),
      .help = "node 0, as all nodes reach it" },
    { "master-port", "PORT", "none", "35", OPTION_INT, FIELD(typed_port),
      .help = "of its store (29500; one node: a free one)", .high = 65535 },
    { "standalone", "", "", "35", OPTION_FLAG, FIELD(standalone),
      .help = "one node, whatever the --rdzv flags say" },
    { "rdzv-backend", "NAME", "static", "35", OPTION_STRING, FIELD(rdzv_backend),
      .help = "static; on one node also c10d" },
    { "rdzv-endpoint", "HOST:PORT", "", "35", OPTION_STRING, FIELD(rdzv_endpoint),
      .help = "another way to name node 0" },
    { "rdzv-id", "NAME", "", "35", OPTION_OPTIONAL, FIELD(rdzv_id),
      .help = "the job's name, the same on every node" },
    { "rdzv-conf", "K=V,...", "", "35", OPTION_OPTIONAL, FIELD(rdzv_conf),
      .help = "timeouts, see below" },
    { "secret-file", "FILE", "", "35", OPTION_STRING, FIELD(secret_file),
      .help = "lets in those that know it: on every node" },
    { "max-restarts", "N", "0", "35", OPTION_INT, FIELD(max_restarts), .high = 1000000 },
    { "shutdown-timeout", "S", "30", "35", OPTION_REAL, FIELD(shutdown_timeout),
      .help = "seconds from SIGTERM to SIGKILL", .high = MAX_SECONDS },
    { "monitor-interval", "S", "0.1", "35", OPTION_REAL, FIELD(monitor_interval),
      .help = "seconds between checks of deadlines", .low = 0.01, .high = MAX_SECONDS },
    { "role", "NAME", "default", "35", OPTION_STRING, FIELD(role), .help = "of this node's ranks" },
    { "log-dir", "DIR", "", "35", OPTION_STRING, FIELD(log_dir),
      .help = "for the log folders of -r and -t" },
    { "redirects", "SPEC", "0", "35", OPTION_STRING, FIELD(redirects),
      .help = "to files: 1 stdout, 2 stderr, 3 both, or 0:1,1:3", .of_extra = true },
    { "tee", "SPEC", "0", "35", OPTION_STRING, FIELD(tee),
      .help = "to files and the console, with the rank", .of_extra = true },
    { "local-ranks-filter", "R,...", "", "35", OPTION_STRING, FIELD(local_ranks_filter),
      .help = "only these to the console", .of_extra = true },
    { "duplicate-stdout-filters", "TEXT,...", "", "35", OPTION_STRING, FIELD(stdout_filters),
      .help = "teed lines with one of these also to filtered_stdout.log", .of_extra = true },
    { "duplicate-stderr-filters", "TEXT,...", "", "35", OPTION_STRING, FIELD(stderr_filters),
      .help = "the same for standard error", .of_extra = true },
    { "log-line-prefix-template", "TEXT", "[${role_name}${local_rank}]:", "35", OPTION_STRING,
      FIELD(line_prefix), .help = "also ${rank}, ${hostname}", .of_extra = true },
    { "numa-binding", "MODE", "", "35", OPTION_STRING, FIELD(numa_binding),
      .help = "a rank's cores: node, socket, exclusive, core-complex", .of_extra = true },
    { "module", "", "", "35", OPTION_FLAG, FIELD(module),
      .help = "the program is a Python module" },
    { "no-python", "", "", "35", OPTION_FLAG, FIELD(no_python),
      .help = "start a .py file as it is, not by python3 -u" },
    { "pass-local-rank", "", "", "35", OPTION_FLAG, FIELD(pass_local_rank),
      .help = "--local-rank=R as first argument" },
    { "start-method", "NAME", "", "35", .kind = OPTION_ACTION },
    { "event-log-handler", "NAME", "", "35", .kind = OPTION_ACTION },
    { "local-addr", "HOST", "", "5", OPTION_STRING, .offset = FIELD(local_addr) },
    { "run-path", "", "", "5", OPTION_FLAG, .offset = FIELD(run_path) },
    { "virtual-local-rank", "", "", "5", OPTION_FLAG, .offset = FIELD(virtual_local_rank) },
    { "signals-to-handle", "SIG,...", "", "5", OPTION_STRING, .offset = FIELD(signals_to_handle) },
    { "logs-specs", "NAME", "default", "5", OPTION_STRING, .offset = FIELD(logs_specs) },
    { "print-commands", "", "", "35", OPTION_FLAG, FIELD(only_print),
      .help = "print what to type on each node, and no more", .of_extra = true },
    { "print-completion", "SHELL", "", "35", OPTION_STRING, FIELD(completion),
      .help = "print a script for bash, zsh or tcsh, and no more", .of_extra = true },
    { "version", "", "", "35", .kind = OPTION_ACTION, .help = "the version of ddprun" },
    { "help", "", "", "35", .kind = OPTION_ACTION },
    { 0 },
};
enum { NUM_OPTIONS = sizeof flag_options / sizeof *flag_options };

/* Returns the flag with this letter as its other name, or "". */
static const char *long_name(char letter)
{
    static const char *const names[] = { "redirects", "tee", "module", "help" };
    for (int i = 0; i < 4; i++)
        if (names[i][0] == letter)
            return names[i];
    return "";
}

static noreturn void print_help(const MoreFlags *more)
{
    printf(
        "Usage: ddprun [flags] program [arguments]\n\n"
        "Starts the program once per rank. A rank knows who it is from its environment:\n\n"
        "    RANK, WORLD_SIZE               among all ranks of the job\n"
        "    LOCAL_RANK, LOCAL_WORLD_SIZE   among those of its node: this picks the GPU\n"
        "    MASTER_ADDR, MASTER_PORT       the store through which the ranks find each other\n\n"
        "The first rank to fail ends all, on every node, and ddprun ends with its status (128 +\n"
        "signal if killed). Flags and variables are torchrun's. A flag that is not given is read\n"
        "from its variable: PET_NPROC_PER_NODE for --nproc-per-node, and so on.\n\n"
        "    ddprun --nproc-per-node 2 ./train 10\n"
        "    ddprun --nnodes 2 --node-rank 0 --master-addr alpha ./train 10    # on alpha\n"
        "    ddprun --nnodes 2 --node-rank 1 --master-addr alpha ./train 10    # on beta\n\n"
        "%s",
        more != NULL ? more->text : "");
    for (const Option *flag = flag_options; flag->name != NULL; flag++) {
        char name[64];
        const Option *shown =
            more != NULL ? option_find(more->help, ANY_STEP, flag->name, strlen(flag->name)) : NULL;
        shown = shown != NULL ? shown : flag;
        if (shown->help == NULL || !option_is_listed(flag, ANY_STEP))
            continue;
        const bool has_letter = strcmp(long_name(flag->name[0]), flag->name) == 0;
        snprintf(name, sizeof name, "-%c, --%s %s", flag->name[0], flag->name, shown->value);
        printf("  %-32s %s", name + (has_letter ? 0 : strlen("-x, ")), shown->help);
        if (flag->preset[0] != '\0' && strcmp(flag->preset, "none") != 0)
            printf(" (%s)", flag->preset);
        printf("\n");
    }
    printf("\nSettings of --rdzv-conf:\n"
           "  timeout or join_timeout          seconds to wait for all nodes (900; elastic: 600)\n"
           "  keep_alive_interval              seconds between the heartbeats of a node (5)\n"
           "  keep_alive_max_attempt           missed heartbeats after which a node is lost (3)\n"
           "%s",
           more != NULL ? more->settings : "");
    streams_exit();
}

/* Returns the flag of this name, or the only one that begins so. (torchrun takes max-r for
 * max-restarts, but not max, since it counts max_restarts as another name.) */
static const Option *find_flag(Step step, const char *word, const char *name, size_t length)
{
    const Option *found = option_find(flag_options, ANY_STEP, name, length);
    if (found != NULL)
        return found;
    for (const Option *flag = flag_options; flag->name != NULL && length > 0; flag++) {
        if (!name_begins(flag->name, name, length))
            continue;
        if (found != NULL)
            usage_error("%s may mean --%s or --%s: write more of it", word, found->name,
                        flag->name);
        found = flag;
    }
    const char *typed = word + strspn(word, "-");
    const size_t bytes = strcspn(typed, "=");
    const char *guess = comfort_guess(flag_options, step, typed, bytes);
    if (found == NULL)
        usage_error("unknown flag %s%s%s ddprun --help lists them all", word,
                    guess[0] != '\0' ? ":" : ";", guess);
    return found;
}

/* Returns the text in PET_<FLAG>, or in another variable for the flag, or NULL if not given. */
static const char *variable_of(const Option *flag)
{
    static const char *const others[][2] = {
        { "secret-file", SECRET_VARIABLE },
        { "shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" },
        { "log-line-prefix-template", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE" },
    };
    char variable[64] = "PET_";
    for (int i = 0; flag->name[i] != '\0'; i++)
        variable[4 + i] = flag->name[i] == '-' ? '_' : (char)toupper((unsigned char)flag->name[i]);
    const char *text = getenv(variable);
    for (int i = 0; i < 3 && text == NULL; i++)
        if (strcmp(flag->name, others[i][0]) == 0)
            text = getenv(others[i][1]);
    const bool is_off = text != NULL && flag->kind == OPTION_FLAG && atoi(text) == 0;
    return text != NULL && text[0] != '\0' && !is_off ? text : NULL;
}

/* Records the text of the flag at **word, the last word of which becomes **word: "--tee=3",
 * "--tee 3", "-t3", "-t=3", "-t 3". */
static void read_flag(const MoreFlags *more, const char *texts[], char ***word)
{
    const char *typed = **word;
    const bool is_long = typed[1] == '-';
    const char *rest = is_long ? typed + strcspn(typed, "=") : typed + 2;
    const char *name = is_long ? typed + 2 : long_name(typed[1]);
    const size_t length = is_long ? (size_t)(rest - name) : strlen(name);
    const Option *flag = find_flag(more != NULL ? STEP_FAULT : STEP_ENV, typed, name, length);
    if (strcmp(flag->name, "help") == 0)
        print_help(more);
    const char *joined = rest[0] == '=' ? rest + 1 : rest[0] != '\0' ? rest : NULL;
    texts[flag - flag_options] = option_text(flag, joined, word);
}

/* Sets the fields of this step's flags to their texts, or the defaults. */
static void set_fields(Flags *flags, Step step, const char *const texts[])
{
    for (const Option *flag = flag_options; flag->name != NULL; flag++) {
        const char *text = texts[flag - flag_options];
        text = text != NULL ? text : variable_of(flag);
        if (text != NULL && !option_is_taught(flag, step))
            usage_error("--%s: only step 05's ddprun has this flag, and its PET_ variable",
                        flag->name);
        if (text != NULL && !option_is_listed(flag, step) && strcmp(text, flag->preset) != 0 &&
            flag->offset != FIELD(line_prefix)) // which has no effect without --tee
            usage_error("--%s is in extras/, which this build does not have", flag->name);
        text = text != NULL ? text : flag->preset;
        if (text[0] != '\0' || texts[flag - flag_options] != NULL) // else the field stays NULL
            option_set(flag, flags, text, NULL);
    }
}

static bool to_int(const char *text, int low, int high, int *value)
{
    uint64_t number = 0;
    const bool valid = parse_whole(text, (uint64_t)low, (uint64_t)high, &number);
    *value = (int)number;
    return valid;
}

static int count_ranks(const char *text)
{
    const bool is_gpu = strcmp(text, "gpu") == 0;
    int num_gpus = is_gpu || strcmp(text, "auto") == 0 ? gpus_count() : 0, value = 0;
    if (num_gpus < 0)
        num_gpus = comfort_gpus_listed(); // without CUDA it may start a program that has it
    if (num_gpus > 0)
        return num_gpus;
    if (is_gpu)
        usage_error("--nproc-per-node gpu: this node shows no GPU; give a number, cpu or auto");
    if (strcmp(text, "cpu") == 0 || strcmp(text, "auto") == 0)
        return host_num_cores() < FLAGS_MAX_WORKERS ? host_num_cores() : FLAGS_MAX_WORKERS;
    if (!to_int(text, 1, FLAGS_MAX_WORKERS, &value))
        usage_error("--nproc-per-node %s: it must be a number from 1 to %d, cpu, gpu or auto", text,
                    FLAGS_MAX_WORKERS);
    return value;
}

/* Reads "2", or "2:4" from step 05 on. */
static void read_nodes(Flags *flags, bool may_change)
{
    const char *text = flags->nnodes, *colon = strchr(text, ':');
    char min[32];
    const int length = snprintf(min, sizeof min, "%.*s", (int)strcspn(text, ":"), text);
    if (length >= (int)sizeof min || !to_int(min, 1, FLAGS_MAX_NODES, &flags->min_nodes) ||
        !to_int(colon != NULL ? colon + 1 : min, flags->min_nodes, FLAGS_MAX_NODES,
                &flags->max_nodes))
        usage_error("--nnodes %s: it must be a number from 1 to %d%s", text, FLAGS_MAX_NODES,
                    may_change ? ", or MIN:MAX" : "");
    if (flags->min_nodes != flags->max_nodes && !may_change)
        usage_error("--nnodes %s: groups that grow and shrink come with step 05's ddprun", text);

    for (const Launcher *at = launchers + 1; at->rank != NULL; at++) // all would write one file
        if (at->world_size != NULL && host_env_count(at->world_size) > 1 && flags->max_nodes == 1 &&
            !host_env_is_set("SLURM_PTY_PORT"))
            usage_error("%s has started several launchers, each for a job of its own: let run.sh "
                        "start it (LAUNCHER=%s before it), or say --nnodes",
                        at->is_mpi ? "mpirun" : "srun", at->is_mpi ? "mpirun" : "srun");
}

/* Reads HOST[:PORT]; an IPv6 address is in brackets. */
static void read_endpoint(Flags *flags)
{
    const char *host = flags->rdzv_endpoint, *colon = strrchr(host, ':');
    const bool has_port = colon != NULL && strchr(colon, ']') == NULL;
    if ((has_port && !to_int(colon + 1, 0, 65535, &flags->master_port)) ||
        !net_copy_host(flags->master_addr, sizeof flags->master_addr, host,
                       has_port ? (size_t)(colon - host) : strlen(host)))
        usage_error("--rdzv-endpoint %s: it must be HOST or HOST:PORT", host);
}

/* Sets whether nodes get their ranks at the rendezvous. */
static void read_backend(Flags *flags, bool may_change)
{
    const bool alone = flags->max_nodes == 1;
    const char *backend = flags->rdzv_backend;
    const bool is_c10d = strcmp(backend, "c10d") == 0;
    if (flags->standalone && !alone)
        usage_error("--standalone is for one node; leave it out, or --nnodes");
    if (!flags->standalone && strcmp(backend, "static") != 0 &&
        (!is_c10d || (!alone && !may_change)))
        usage_error("--rdzv-backend %s%s is not supported: give each node --node-rank, and all the "
                    "same --master-addr and --master-port",
                    backend, is_c10d ? ", which step 05's ddprun has for several nodes," : "");
    flags->elastic = !alone && (is_c10d || flags->min_nodes < flags->max_nodes);
    if (flags->elastic && flags->rdzv_endpoint == NULL)
        usage_error("--nnodes %s --rdzv-backend %s: the nodes need a place to meet: give all the "
                    "same --rdzv-endpoint HOST:PORT",
                    flags->nnodes, backend);
}

void flags_set_address(Flags *flags, const char *flag, const char *text)
{
    const size_t bytes = sizeof flags->master_addr;
    if (!net_copy_host(flags->master_addr, bytes, text, strlen(text)))
        usage_error("%s \"%s\": it must be a name or an address of 1 to %zu letters", flag, text,
                    bytes - 1);
}

/* Sets which node serves the store, and where. */
static void read_master(Flags *flags)
{
    const bool alone = flags->max_nodes == 1;
    flags_set_address(flags, "--master-addr", flags->master_name);
    flags->master_port = alone ? 0 : flags->elastic ? DEFAULT_ENDPOINT_PORT : DEFAULT_PORT;
    if (flags->typed_port >= 0 && !flags->elastic)
        flags->master_port = flags->typed_port;
    if (flags->rdzv_endpoint != NULL && !flags->standalone)
        read_endpoint(flags);
    if (!alone && flags->master_port == 0)
        usage_error("--%s: several nodes must agree on a port; name one",
                    flags->elastic ? "rdzv-endpoint HOST:0" : "master-port 0");
    if (flags->node_rank >= flags->max_nodes)
        usage_error("--node-rank %d: it must be a whole number from 0 to %d", flags->node_rank,
                    flags->max_nodes - 1);
}

/* Sets the job's name: as torchrun's, random if no other node needs to know it. */
static void read_run_id(Flags *flags)
{
    const char *text = flags->rdzv_id;
    const size_t bytes = sizeof flags->run_id;
    if (text == NULL && flags->master_port == 0) {
        FILE *file = fopen("/proc/sys/kernel/random/uuid", "r");
        CHECK(file != NULL && fscanf(file, "%36s", flags->run_id) == 1,
              "no random run id: is /proc mounted? with --rdzv-id NAME none is needed");
        fclose(file);
    } else if (text == NULL) {
        snprintf(flags->run_id, bytes, "none");
    } else if (snprintf(flags->run_id, bytes, "%s", text) >= (int)bytes || strchr(text, '/')) {
        usage_error("--rdzv-id %s: at most %zu letters, and no /", text, bytes - 1);
    }
}

static void read_setting(Flags *flags, const char *key, const char *value)
{
    static const Option settings[] = {
        { "timeout", "", "", "", OPTION_REAL, FIELD(join_timeout), .high = MAX_SECONDS },
        { "join-timeout", "", "", "", OPTION_REAL, FIELD(join_timeout), .high = MAX_SECONDS },
        { "last-call-timeout", "", "", "", OPTION_REAL, FIELD(last_call_timeout),
          .high = MAX_SECONDS },
        { "keep-alive-interval", "", "", "", OPTION_REAL, FIELD(heartbeat_interval), .low = 0.1,
          .high = MAX_SECONDS },
        { "keep-alive-max-attempt", "", "", "", OPTION_INT, FIELD(heartbeat_limit), .low = 1,
          .high = 1000 },
        { "is-host", "", "", "", OPTION_INT, FIELD(is_host), .high = 1 },
        { 0 },
    };
    char name[64];
    snprintf(name, sizeof name, "--rdzv-conf %.40s", key);
    const Option *setting = option_find(settings, ANY_STEP, key, strlen(key));
    if (setting == NULL)
        usage_error("%s is no setting of ddprun: these are join_timeout or timeout, "
                    "last_call_timeout, keep_alive_interval, keep_alive_max_attempt and is_host",
                    name);
    if ((setting->offset == FIELD(last_call_timeout) || setting->offset == FIELD(is_host)) &&
        flags->max_nodes > 1 && !flags->elastic)
        usage_error("%s has no effect on fixed nodes: leave it out, or let nodes come and go, with "
                    "--nnodes MIN:MAX or --rdzv-backend c10d (step 05's ddprun)",
                    name);
    option_set(setting, flags, value, name);
}

static void read_conf(Flags *flags)
{
    flags->join_timeout = flags->elastic ? 600 : 900;
    flags->last_call_timeout = 30;
    flags->is_host = -1;
    flags->heartbeat_interval = 5;
    flags->heartbeat_limit = 3;
    char *conf = strdup(flags->rdzv_conf != NULL ? flags->rdzv_conf : "");
    char *rest = NULL, *sep = ",'\""; // PyTorch's own tests quote the list once more
    CHECK(conf != NULL, "out of memory");
    for (char *key = strtok_r(conf, sep, &rest); key != NULL; key = strtok_r(NULL, sep, &rest)) {
        char *value = strchr(key, '=');
        if (value == NULL)
            usage_error("--rdzv-conf %s: it must be KEY=VALUE,KEY=VALUE...", flags->rdzv_conf);
        *value = '\0';
        read_setting(flags, key, value + 1);
    }
    free(conf);
}

void flags_use_python(Flags *flags, char *option, char *code)
{
    char *python = getenv("PYTHON_EXEC") != NULL ? getenv("PYTHON_EXEC") : "python3";
    char *words[MAX_PYTHON_WORDS] = { python, "-u", option, code }; // -u: unbuffered
    const size_t count = option == NULL ? 2 : code == NULL ? 3 : 4;
    size_t length = 1; // words of the command, with its NULL
    while (flags->command[length - 1] != NULL)
        length++;
    memmove(flags->command + count, flags->command, length * sizeof *words);
    memcpy(flags->command, words, count * sizeof *words);
}

/* Sets the command. torchrun hands every program to Python unless told not to; ddprun is for
 * programs of any kind. */
static void read_command(Flags *flags, char **words, int num_words)
{
    if (num_words <= 0)
        usage_error("which program? ddprun [flags] program [arguments]; see ddprun --help");
    const bool is_module = flags->module && !flags->run_path;
    const bool no_python = flags->no_python || flags->run_path;
    if (is_module && no_python)
        usage_error("--module and --no-python exclude each other");

    flags->program = words[0];
    flags->command = mem_calloc((size_t)(MAX_PYTHON_WORDS + num_words + 2), sizeof *flags->command);
    char **next = flags->command;
    *next++ = words[0];
    if (flags->pass_local_rank)
        *next++ = flags->local_rank_argument;
    memcpy(next, words + 1, (size_t)(num_words - 1) * sizeof *words);
    const char *extension = strrchr(words[0], '.');
    if (is_module || (!no_python && extension != NULL && strcmp(extension, ".py") == 0))
        flags_use_python(flags, is_module ? "-m" : NULL, NULL);
}

void flags_parse(Flags *flags, const MoreFlags *more, int argc, char **argv)
{
    streams_guard();
    const char *texts[NUM_OPTIONS] = { NULL }; // texts on the command line
    char **word = argv + 1;
    for (; *word != NULL && (*word)[0] == '-' && (*word)[1] != '\0'; word++) {
        if (strcmp(*word, "--") == 0) {
            word++;
            break;
        }
        read_flag(more, texts, &word);
    }
    *flags = (Flags){ 0 };
    const Step step = more != NULL ? STEP_FAULT : STEP_ENV;
    set_fields(flags, step, texts);
    if (flags->completion != NULL)
        comfort_print_completion(flags->completion, flag_options, step);
    if (flags->max_restarts > 0 && more == NULL)
        usage_error("--max-restarts %d: restarts come with step 05's ddprun", flags->max_restarts);
    flags->nproc_per_node = count_ranks(flags->nproc);
    comfort_share_cores(flags->nproc_per_node, flags->numa_binding != NULL);
    read_nodes(flags, more != NULL);
    read_backend(flags, more != NULL);
    read_master(flags);
    read_conf(flags);
    read_run_id(flags);
    read_command(flags, word, (int)(argv + argc - word));
    if (flags->only_print)
        comfort_print_commands(argv, word, flags->master_addr,
                               flags->elastic ? 0 : flags->max_nodes);
}

void flags_free(Flags *flags)
{
    free(flags->command);
}
