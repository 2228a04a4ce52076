/*
 * What the flags mean, alone and together. torchrun's several ways of naming node 0 become one
 * address and one port, its per-rank settings one array each.
 */
#include "common/launch/flags.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/gpus.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/streams.h"
#include "common/launch/flag_texts.h"

#define MAX_SECONDS 1e6
#define DEFAULT_PORT 29500 // fixed, since all nodes must know it
#define DEFAULT_ENDPOINT_PORT 29400 // the same for elastic nodes

/* Reads the whole number at the beginning of text; false if there is none from min to max. */
static bool read_int(const char *text, char **end, long min, long max, int *value)
{
    errno = 0;
    const long number = strtol(text, end, 10);
    const bool valid = *end != text && errno == 0 && number >= min && number <= max;
    if (valid)
        *value = (int)number;
    return valid;
}

static int int_value(const char *const texts[], Flag flag, int max)
{
    int value = 0;
    char *end = NULL;
    if (!read_int(texts[flag], &end, 0, max, &value) || *end != '\0')
        usage_error("--%s %s: it must be a whole number from 0 to %d", flag_name(flag), texts[flag],
                    max);
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
    const int num_gpus = wants_gpus || strcmp(text, "auto") == 0 ? gpus_count() : 0;
    if (num_gpus > 0)
        return num_gpus;
    if (wants_gpus)
        usage_error("--nproc-per-node gpu: this node shows no GPU; give a number, cpu or auto");
    if (strcmp(text, "cpu") == 0 || strcmp(text, "auto") == 0)
        return host_num_cores() < FLAGS_MAX_WORKERS ? host_num_cores() : FLAGS_MAX_WORKERS;
    int value = 0;
    char *end = NULL;
    if (!read_int(text, &end, 1, FLAGS_MAX_WORKERS, &value) || *end != '\0')
        usage_error("--nproc-per-node %s: it must be a number from 1 to %d, cpu, gpu or auto", text,
                    FLAGS_MAX_WORKERS);
    return value;
}

/* "2", or "2:4" from step 05 on. */
static void read_nodes(Flags *flags, const char *text, Step step)
{
    char *end = NULL;
    bool valid = read_int(text, &end, 1, FLAGS_MAX_NODES, &flags->min_nodes);
    flags->max_nodes = flags->min_nodes;
    if (valid && *end == ':')
        valid = read_int(end + 1, &end, flags->min_nodes, FLAGS_MAX_NODES, &flags->max_nodes);
    if (!valid || *end != '\0')
        usage_error("--nnodes %s: it must be a number from 1 to %d%s", text, FLAGS_MAX_NODES,
                    step < STEP_FAULT ? "" : ", or MIN:MAX");
    if (flags->min_nodes != flags->max_nodes && step < STEP_FAULT)
        usage_error("--nnodes %s: groups that grow and shrink come with step 05's ddprun", text);
}

/* HOST[:PORT]; an IPv6 address is in brackets. */
static void read_endpoint(Flags *flags, const char *endpoint)
{
    const char *host = endpoint;
    size_t length = strlen(host);
    const char *colon = strrchr(host, ':');
    char *end = NULL;
    bool valid = true;
    if (colon != NULL && strchr(colon, ']') == NULL) {
        length = (size_t)(colon - host);
        valid = read_int(colon + 1, &end, 0, 65535, &flags->master_port) && *end == '\0';
    }
    if (length > 1 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    if (!valid || length == 0 || length >= sizeof flags->master_addr)
        usage_error("--rdzv-endpoint %s: it must be HOST or HOST:PORT", endpoint);
    memcpy(flags->master_addr, host, length);
    flags->master_addr[length] = '\0';
}

/* Do nodes get their ranks at the rendezvous? */
static void read_backend(Flags *flags, const char *const texts[], Step step)
{
    const bool alone = flags->max_nodes == 1;
    const char *backend = texts[RDZV_BACKEND];
    const bool is_c10d = strcmp(backend, "c10d") == 0;
    if (texts[STANDALONE] != NULL && !alone)
        usage_error("--standalone is for one node; leave it out, or --nnodes");
    if (texts[STANDALONE] == NULL && strcmp(backend, "static") != 0 &&
        (!is_c10d || (!alone && step < STEP_FAULT)))
        usage_error("--rdzv-backend %s is not spoken here: give each node --node-rank, and all the "
                    "same --master-addr and --master-port",
                    backend);
    flags->elastic = !alone && (is_c10d || flags->min_nodes < flags->max_nodes);
    if (flags->elastic && texts[RDZV_ENDPOINT] == NULL)
        usage_error("--nnodes %s --rdzv-backend %s: where do the nodes meet? give all the same "
                    "--rdzv-endpoint HOST:PORT",
                    texts[NNODES], backend);
}

/* Which node serves the store, and where. */
static void read_master(Flags *flags, const char *const texts[])
{
    const bool alone = flags->max_nodes == 1;

    const size_t bytes = sizeof flags->master_addr;
    const int length = snprintf(flags->master_addr, bytes, "%s", texts[MASTER_ADDR]);
    if (length == 0 || length >= (int)bytes)
        usage_error("--master-addr \"%s\": it must be a name or an address of 1 to %zu letters",
                    texts[MASTER_ADDR], bytes - 1);
    flags->master_port = alone ? 0 : flags->elastic ? DEFAULT_ENDPOINT_PORT : DEFAULT_PORT;
    if (texts[MASTER_PORT] != NULL && !flags->elastic)
        flags->master_port = int_value(texts, MASTER_PORT, 65535);
    if (texts[RDZV_ENDPOINT] != NULL && texts[STANDALONE] == NULL)
        read_endpoint(flags, texts[RDZV_ENDPOINT]);
    if (!alone && flags->master_port == 0)
        usage_error("--%s: several nodes must agree on a port; name one",
                    flags->elastic ? "rdzv-endpoint HOST:0" : "master-port 0");
    flags->node_rank = int_value(texts, NODE_RANK, flags->max_nodes - 1);
}

/* The job's name: as torchrun's, random if no other node needs to know it. */
static void read_run_id(Flags *flags, const char *text)
{
    const size_t bytes = sizeof flags->run_id;
    if (text == NULL && flags->master_port == 0) {
        FILE *file = fopen("/proc/sys/kernel/random/uuid", "r");
        CHECK(file != NULL && fscanf(file, "%36s", flags->run_id) == 1,
              "no random run id: is /proc mounted? --rdzv-id NAME does without");
        fclose(file);
    } else if (text == NULL) {
        snprintf(flags->run_id, bytes, "none");
    } else if (snprintf(flags->run_id, bytes, "%s", text) >= (int)bytes || strchr(text, '/')) {
        usage_error("--rdzv-id %s: at most %zu letters, and no /", text, bytes - 1);
    }
}

static void read_setting(Flags *flags, const char *key, const char *value)
{
    const char *join = flags->elastic ? "join_timeout" : "timeout";
    const struct {
        const char *key;
        double *seconds, min;
    } times[] = { { join, &flags->join_timeout, 0 },
                  { "last_call_timeout", &flags->last_call_timeout, 0 },
                  { "keep_alive_interval", &flags->heartbeat_interval, 0.1 } };
    const struct {
        const char *key;
        int *number, min, max;
    } numbers[] = { { "keep_alive_max_attempt", &flags->heartbeat_limit, 1, 1000 },
                    { "is_host", &flags->is_host, 0, 1 } };
    char name[64], *end = NULL;
    snprintf(name, sizeof name, "--rdzv-conf %.40s", key);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (strcmp(key, times[i].key) == 0)
            *times[i].seconds = seconds_value(name, value, times[i].min);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(key, numbers[i].key) == 0 &&
            (!read_int(value, &end, numbers[i].min, numbers[i].max, numbers[i].number) ||
             *end != '\0'))
            usage_error("%s=%s: it must be %d to %d", name, value, numbers[i].min, numbers[i].max);
}

/* --rdzv-conf: torchrun's timeouts; settings of other backends are ignored. */
static void read_conf(Flags *flags, const char *text)
{
    flags->join_timeout = flags->elastic ? 600 : 900;
    flags->last_call_timeout = 30;
    flags->is_host = -1;
    flags->heartbeat_interval = 5;
    flags->heartbeat_limit = 3;
    char *conf = strdup(text != NULL ? text : "");
    char *rest = NULL;
    CHECK(conf != NULL, "out of memory");
    for (char *key = strtok_r(conf, ",", &rest); key != NULL; key = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(key, '=');
        if (value == NULL)
            usage_error("--rdzv-conf %s: it must be KEY=VALUE,KEY=VALUE...", text);
        *value = '\0';
        read_setting(flags, key, value + 1);
    }
    free(conf);
}

/* "3" for every local rank, or "0:1,1:3" for some. */
static void read_streams(const Flags *flags, const char *const texts[], Flag flag, char *streams)
{
    const char *rest = texts[flag];
    char *end = NULL;
    int value = 0;
    bool valid = true;
    if (strchr(rest, ':') == NULL) {
        valid = read_int(rest, &end, 0, 3, &value) && *end == '\0';
        memset(streams, value, (size_t)flags->nproc_per_node);
        rest = NULL;
    }
    while (valid && rest != NULL) {
        int local_rank = 0;
        valid = read_int(rest, &end, 0, flags->nproc_per_node - 1, &local_rank) && *end == ':' &&
                read_int(end + 1, &end, 0, 3, &value) && (*end == ',' || *end == '\0');
        streams[local_rank] = (char)value;
        rest = *end == ',' ? end + 1 : NULL;
    }
    if (!valid)
        usage_error("--%s %s: it must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a "
                    "number for each local rank, as in 0:1,1:3",
                    flag_name(flag), texts[flag]);
}

static void read_shown(Flags *flags, const char *text)
{
    memset(flags->shown, text == NULL, sizeof flags->shown);
    for (const char *rest = text; rest != NULL;) {
        int local_rank = 0;
        char *end = NULL;
        if (!read_int(rest, &end, 0, flags->nproc_per_node - 1, &local_rank) ||
            (*end != ',' && *end != '\0'))
            usage_error("--local-ranks-filter %s: it must be local ranks, as in 0,2", text);
        flags->shown[local_rank] = true;
        rest = *end == ',' ? end + 1 : NULL;
    }
}

/* The words a worker is started with. Python runs unbuffered (-u), as under torchrun. */
static void read_command(Flags *flags, const char *const texts[], char **words)
{
    if (words[0] == NULL)
        usage_error("which program? ddprun [flags] program [arguments]; see ddprun --help");
    const bool is_module = texts[MODULE] != NULL;
    if (is_module && texts[NO_PYTHON] != NULL)
        usage_error("--module and --no-python exclude each other");

    int num_words = 0;
    while (words[num_words] != NULL)
        num_words++;
    flags->program = words[0];
    flags->command = mem_calloc((size_t)num_words + 5, sizeof *flags->command);
    const char *extension = strrchr(words[0], '.');
    char **next = flags->command;
    if (is_module ||
        (texts[NO_PYTHON] == NULL && extension != NULL && strcmp(extension, ".py") == 0)) {
        *next++ = getenv("PYTHON_EXEC") != NULL ? getenv("PYTHON_EXEC") : "python3";
        *next++ = "-u";
        if (is_module)
            *next++ = "-m";
    }
    *next++ = words[0];
    if (texts[PASS_LOCAL_RANK] != NULL)
        *next++ = flags->local_rank_argument;
    for (int i = 1; i < num_words; i++)
        *next++ = words[i];
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

void flags_parse(Flags *flags, Step step, int argc, char **argv)
{
    streams_guard();
    const char *texts[NUM_FLAGS];
    char **words = argv + flag_texts_find(texts, step, argc, argv);
    *flags = (Flags){ .role = texts[ROLE],
                      .log_dir = texts[LOG_DIR],
                      .log_line_prefix_template = texts[LOG_LINE_PREFIX_TEMPLATE] };

    flags->nproc_per_node = nproc_value(texts);
    host_tell_of_crowd(flags->nproc_per_node);
    read_nodes(flags, texts[NNODES], step);
    refuse_mpirun(flags);
    read_backend(flags, texts, step);
    read_master(flags, texts);
    read_conf(flags, texts[RDZV_CONF]);
    read_run_id(flags, texts[RDZV_ID]);

    flags->max_restarts = int_value(texts, MAX_RESTARTS, 1000000);
    if (flags->max_restarts > 0 && step < STEP_FAULT)
        usage_error("--max-restarts %d: restarts come with step 05's ddprun", flags->max_restarts);
    flags->monitor_interval = seconds_value("--monitor-interval", texts[MONITOR_INTERVAL], 0.01);
    flags->shutdown_timeout = seconds_value("--shutdown-timeout", texts[SHUTDOWN_TIMEOUT], 0);

    read_streams(flags, texts, REDIRECTS, flags->redirects);
    read_streams(flags, texts, TEE, flags->tee);
    read_shown(flags, texts[LOCAL_RANKS_FILTER]);
    read_command(flags, texts, words);
}

void flags_free(Flags *flags)
{
    free(flags->command);
}
