/*
 * What the texts of the flags mean, alone and together. torchrun's several ways of naming node 0
 * become one address and one port. If a flag is given more than once, the last one counts.
 */
#include "common/launch/flags.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"

#define MAX_SECONDS 1e6
#define MAX_PYTHON_WORDS 4 // in front of a program
#define DEFAULT_PORT 29500 // fixed, since all nodes must know it
#define DEFAULT_ENDPOINT_PORT 29400 // the same for elastic nodes

/* Reads the whole number that text begins with and sets *end behind it; -1: there is none from min
 * to max. */
static int read_int(const char *text, char **end, int min, int max)
{
    errno = 0;
    const long number = strtol(text, end, 10);
    return *end != text && errno == 0 && number >= min && number <= max ? (int)number : -1;
}

/* The text is such a number and nothing else. */
static int whole_int(const char *text, int min, int max)
{
    char *end = NULL;
    const int number = read_int(text, &end, min, max);
    return *end == '\0' ? number : -1;
}

static int int_value(const char *name, const char *text, int min, int max)
{
    const int value = whole_int(text, min, max);
    if (value < 0)
        usage_error("%s %s: it must be a whole number from %d to %d", name, text, min, max);
    return value;
}

/* A decimal number: strtod alone would take "0x10" and "1e-999" too. */
static double seconds_value(const char *name, const char *text, double min)
{
    char *end = NULL;
    errno = 0;
    const double value = strtod(text, &end);
    const bool valid =
        end != text && *end == '\0' && errno == 0 && text[strspn(text, "0123456789.eE+-")] == '\0';
    if (!valid || value < min || value > MAX_SECONDS)
        usage_error("%s %s: it must be a number of seconds from %g to %g", name, text, min,
                    MAX_SECONDS);
    return value;
}

static int nproc_value(const char *const texts[])
{
    const char *text = texts[NPROC_PER_NODE];
    const bool wants_gpus = strcmp(text, "gpu") == 0;
    int num_gpus = wants_gpus || strcmp(text, "auto") == 0 ? gpus_count() : 0;
    if (num_gpus < 0 && comfort.gpus_listed != NULL)
        num_gpus = comfort.gpus_listed(); // without CUDA it may start a program that has it
    if (num_gpus > 0)
        return num_gpus;
    if (wants_gpus)
        usage_error("--nproc-per-node gpu: this node shows no GPU; give a number, cpu or auto");
    if (strcmp(text, "cpu") == 0 || strcmp(text, "auto") == 0)
        return host_num_cores() < FLAGS_MAX_WORKERS ? host_num_cores() : FLAGS_MAX_WORKERS;
    const int value = whole_int(text, 1, FLAGS_MAX_WORKERS);
    if (value < 0)
        usage_error("--nproc-per-node %s: it must be a number from 1 to %d, cpu, gpu or auto", text,
                    FLAGS_MAX_WORKERS);
    return value;
}

/* "2", or "2:4" from step 05 on. */
static void read_nodes(Flags *flags, const char *text, bool may_change)
{
    char *end = NULL;
    flags->min_nodes = flags->max_nodes = read_int(text, &end, 1, FLAGS_MAX_NODES);
    if (flags->min_nodes > 0 && *end == ':')
        flags->max_nodes = read_int(end + 1, &end, flags->min_nodes, FLAGS_MAX_NODES);
    if (flags->max_nodes < 0 || *end != '\0')
        usage_error("--nnodes %s: it must be a number from 1 to %d%s", text, FLAGS_MAX_NODES,
                    may_change ? ", or MIN:MAX" : "");
    if (flags->min_nodes != flags->max_nodes && !may_change)
        usage_error("--nnodes %s: groups that grow and shrink come with step 05's ddprun", text);
}

/* HOST[:PORT]; an IPv6 address is in brackets. */
static void read_endpoint(Flags *flags, const char *endpoint)
{
    const char *host = endpoint;
    size_t length = strlen(host);
    const char *colon = strrchr(host, ':');
    if (colon != NULL && strchr(colon, ']') == NULL) {
        length = (size_t)(colon - host);
        flags->master_port = whole_int(colon + 1, 0, 65535);
    }
    if (flags->master_port < 0 ||
        !net_copy_host(flags->master_addr, sizeof flags->master_addr, host, length))
        usage_error("--rdzv-endpoint %s: it must be HOST or HOST:PORT", endpoint);
}

/* Do nodes get their ranks at the rendezvous? */
static void read_backend(Flags *flags, const char *const texts[], bool may_change)
{
    const bool alone = flags->max_nodes == 1;
    const char *backend = texts[RDZV_BACKEND];
    const bool is_c10d = strcmp(backend, "c10d") == 0;
    if (texts[STANDALONE] != NULL && !alone)
        usage_error("--standalone is for one node; leave it out, or --nnodes");
    if (texts[STANDALONE] == NULL && strcmp(backend, "static") != 0 &&
        (!is_c10d || (!alone && !may_change)))
        usage_error("--rdzv-backend %s%s is not supported: give each node --node-rank, and all the "
                    "same --master-addr and --master-port",
                    backend, is_c10d ? ", which step 05's ddprun has for several nodes," : "");
    flags->elastic = !alone && (is_c10d || flags->min_nodes < flags->max_nodes);
    if (flags->elastic && texts[RDZV_ENDPOINT] == NULL)
        usage_error(
            "--nnodes %s --rdzv-backend %s: the nodes need a place to meet: give all the same "
            "--rdzv-endpoint HOST:PORT",
            texts[NNODES], backend);
}

void flags_read_address(Flags *flags, Flag flag)
{
    const char *text = flags->texts[flag];
    const size_t bytes = sizeof flags->master_addr;
    if (!net_copy_host(flags->master_addr, bytes, text, strlen(text)))
        usage_error("--%s \"%s\": it must be a name or an address of 1 to %zu letters",
                    flag_name(flag), text, bytes - 1);
}

/* Which node serves the store, and where. */
static void read_master(Flags *flags, const char *const texts[])
{
    const bool alone = flags->max_nodes == 1;

    flags_read_address(flags, MASTER_ADDR);
    flags->master_port = alone ? 0 : flags->elastic ? DEFAULT_ENDPOINT_PORT : DEFAULT_PORT;
    if (texts[MASTER_PORT] != NULL && !flags->elastic)
        flags->master_port = int_value("--master-port", texts[MASTER_PORT], 0, 65535);
    if (texts[RDZV_ENDPOINT] != NULL && texts[STANDALONE] == NULL)
        read_endpoint(flags, texts[RDZV_ENDPOINT]);
    if (!alone && flags->master_port == 0)
        usage_error("--%s: several nodes must agree on a port; name one",
                    flags->elastic ? "rdzv-endpoint HOST:0" : "master-port 0");
    flags->node_rank = int_value("--node-rank", texts[NODE_RANK], 0, flags->max_nodes - 1);
}

/* The job's name: as torchrun's, random if no other node needs to know it. */
static void read_run_id(Flags *flags, const char *text)
{
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

/* One of torchrun's settings. */
static void read_setting(Flags *flags, const char *key, const char *value)
{
    char name[64];
    snprintf(name, sizeof name, "--rdzv-conf %.40s", key);
    const bool is_last_call = strcmp(key, "last_call_timeout") == 0;
    const bool is_host = strcmp(key, "is_host") == 0;
    if ((is_last_call || is_host) && flags->max_nodes > 1 && !flags->elastic)
        usage_error("%s has no effect on fixed nodes: leave it out, or let nodes come and go, with "
                    "--nnodes MIN:MAX or --rdzv-backend c10d (step 05's ddprun)",
                    name);
    if (strcmp(key, "timeout") == 0 || strcmp(key, "join_timeout") == 0)
        flags->join_timeout = seconds_value(name, value, 0);
    else if (is_last_call)
        flags->last_call_timeout = seconds_value(name, value, 0);
    else if (strcmp(key, "keep_alive_interval") == 0)
        flags->heartbeat_interval = seconds_value(name, value, 0.1);
    else if (strcmp(key, "keep_alive_max_attempt") == 0)
        flags->heartbeat_limit = int_value(name, value, 1, 1000);
    else if (is_host)
        flags->is_host = int_value(name, value, 0, 1);
    else
        usage_error("%s is no setting of ddprun: these are join_timeout or timeout, "
                    "last_call_timeout, keep_alive_interval, keep_alive_max_attempt and is_host",
                    name);
}

static void read_conf(Flags *flags, const char *text)
{
    flags->join_timeout = flags->elastic ? 600 : 900;
    flags->last_call_timeout = 30;
    flags->is_host = -1;
    flags->heartbeat_interval = 5;
    flags->heartbeat_limit = 3;
    char *conf = strdup(text != NULL ? text : "");
    char *rest = NULL, *sep = ",'\""; // PyTorch's own tests quote the list once more
    CHECK(conf != NULL, "out of memory");
    for (char *key = strtok_r(conf, sep, &rest); key != NULL; key = strtok_r(NULL, sep, &rest)) {
        char *value = strchr(key, '=');
        if (value == NULL)
            usage_error("--rdzv-conf %s: it must be KEY=VALUE,KEY=VALUE...", text);
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
    size_t length = 1; // of the command, with its NULL
    while (flags->command[length - 1] != NULL)
        length++;
    memmove(flags->command + count, flags->command, length * sizeof *words);
    memcpy(flags->command, words, count * sizeof *words);
}

/* torchrun hands every program to Python unless it is told not to. ddprun is for programs of any
 * kind. */
static void read_command(Flags *flags, char **words, int num_words)
{
    if (num_words == 0)
        usage_error("which program? ddprun [flags] program [arguments]; see ddprun --help");
    const bool by_run_path = flags->texts[RUN_PATH] != NULL; // step 05's
    const bool is_module = flags->texts[MODULE] != NULL && !by_run_path;
    const bool no_python = flags->texts[NO_PYTHON] != NULL || by_run_path;
    if (is_module && no_python)
        usage_error("--module and --no-python exclude each other");

    flags->program = words[0];
    flags->command = mem_calloc((size_t)(MAX_PYTHON_WORDS + num_words + 2), sizeof *flags->command);
    char **next = flags->command;
    *next++ = words[0];
    if (flags->texts[PASS_LOCAL_RANK] != NULL)
        *next++ = flags->local_rank_argument;
    memcpy(next, words + 1, (size_t)(num_words - 1) * sizeof *words);
    const char *extension = strrchr(words[0], '.');
    if (is_module || (!no_python && extension != NULL && strcmp(extension, ".py") == 0))
        flags_use_python(flags, is_module ? "-m" : NULL, NULL);
}

/* Under mpirun each launcher would start a job of its own, all with the same files. */
static void refuse_mpirun(const Flags *flags)
{
    const int launchers = host_env_count("OMPI_COMM_WORLD_SIZE");
    if (launchers > 1 && flags->max_nodes == 1)
        usage_error("mpirun has started %d launchers, each for a job of its own: let run.sh start "
                    "mpirun (LAUNCHER=mpirun before it), or say --nnodes",
                    launchers);
}

void flags_parse(Flags *flags, const MoreFlags *more, int argc, char **argv)
{
    streams_guard();
    *flags = (Flags){ 0 };
    const int first_word = flag_texts_find(flags->texts, more, argc, argv);
    const char *const *texts = flags->texts;
    for (Flag i = FIRST_OF_STEP_05; i < NUM_FLAGS && more == NULL; i++)
        if (texts[i] != NULL)
            usage_error("--%s: only step 05's ddprun has this flag, and its PET_ variable",
                        flag_name(i));
    flags->role = texts[ROLE];
    flags->log_dir = texts[LOG_DIR];

    flags->nproc_per_node = nproc_value(texts);
    if (comfort.crowd != NULL)
        comfort.crowd(flags->nproc_per_node);
    read_nodes(flags, texts[NNODES], more != NULL);
    refuse_mpirun(flags);
    read_backend(flags, texts, more != NULL);
    read_master(flags, texts);
    read_conf(flags, texts[RDZV_CONF]);
    read_run_id(flags, texts[RDZV_ID]);

    flags->max_restarts = int_value("--max-restarts", texts[MAX_RESTARTS], 0, 1000000);
    if (flags->max_restarts > 0 && more == NULL)
        usage_error("--max-restarts %d: restarts come with step 05's ddprun", flags->max_restarts);
    flags->monitor_interval = seconds_value("--monitor-interval", texts[MONITOR_INTERVAL], 0.01);
    flags->shutdown_timeout = seconds_value("--shutdown-timeout", texts[SHUTDOWN_TIMEOUT], 0);

    read_command(flags, argv + first_word, argc - first_word);
}

void flags_free(Flags *flags)
{
    free(flags->command);
}
