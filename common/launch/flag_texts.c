/*
 * One table names every flag, its default and its help. If a flag is given more than once, the last
 * one counts.
 */
#include "common/launch/flag_texts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/spelling.h"
#include "common/base/streams.h"

static const struct {
    const char *name;
    const char *argument; // NULL: a switch
    const char *value; // unless given; NULL: none
    const char *help; // NULL: accepted, but has no effect
} TABLE[NUM_FLAGS] = {
    [NPROC_PER_NODE] = { "nproc-per-node", "N", "1", "ranks on this node: 4, cpu, gpu, auto" },
    [NNODES] = { "nnodes", "N", "1", "nodes of the job; start ddprun once on each" },
    [NODE_RANK] = { "node-rank", "R", "0", "which of them this is, counted from 0" },
    [MASTER_ADDR] = { "master-addr", "HOST", "127.0.0.1", "node 0, as all nodes reach it" },
    [MASTER_PORT] = { "master-port", "PORT", NULL, "of its store (29500; one node: a free one)" },
    [STANDALONE] = { "standalone", NULL, NULL, "one node, whatever the --rdzv flags say" },
    [RDZV_BACKEND] = { "rdzv-backend", "NAME", "static", "static; on one node also c10d" },
    [RDZV_ENDPOINT] = { "rdzv-endpoint", "HOST:PORT", NULL, "another way to name node 0" },
    [RDZV_ID] = { "rdzv-id", "NAME", NULL, "the job's name, the same on every node" },
    [RDZV_CONF] = { "rdzv-conf", "K=V,...", NULL, "timeout=SECONDS to wait for the other nodes" },
    [MAX_RESTARTS] = { "max-restarts", "N", "0", "restart all ranks N times" },
    [SHUTDOWN_TIMEOUT] = { "shutdown-timeout", "S", "30", "seconds from SIGTERM to SIGKILL" },
    [MONITOR_INTERVAL] = { "monitor-interval", "S", "0.1", "seconds between checks of deadlines" },
    [ROLE] = { "role", "NAME", "default", "of this node's ranks" },
    [LOG_DIR] = { "log-dir", "DIR", NULL, "for the log folders of -r and -t" },
    [REDIRECTS] = { "redirects", "SPEC", "0", "to files: 1 stdout, 2 stderr, 3 both, or 0:1,1:3" },
    [TEE] = { "tee", "SPEC", "0", "to files and the console, with the rank" },
    [LOCAL_RANKS_FILTER] = { "local-ranks-filter", "R,...", NULL, "only these to the console" },
    [LOG_LINE_PREFIX_TEMPLATE] = { "log-line-prefix-template", "TEXT",
                                   "[${role_name}${local_rank}]:", "also ${rank}, ${hostname}" },
    [MODULE] = { "module", NULL, NULL, "the program is a Python module" },
    [NO_PYTHON] = { "no-python", NULL, NULL, "start a .py file as it is, not by python3 -u" },
    [PASS_LOCAL_RANK] = { "pass-local-rank", NULL, NULL, "--local-rank=R as first argument" },
    [START_METHOD] = { "start-method", "NAME", NULL, NULL },
    [EVENT_LOG_HANDLER] = { "event-log-handler", "NAME", NULL, NULL },
    [LOCAL_ADDR] = { "local-addr", "HOST", NULL, NULL },
};

/* What step 05 adds to some of them. */
static const struct {
    const char *argument, *help;
} FAULT_TABLE[NUM_FLAGS] = {
    [NNODES] = { "N|MIN:MAX", "nodes of the job; MIN:MAX: the number may change" },
    [RDZV_BACKEND] = { "NAME", "static, or c10d: nodes number themselves" },
    [RDZV_ENDPOINT] = { "HOST:PORT", "where they meet; HOST is one of them (port 29400)" },
    [RDZV_CONF] = { "K=V,...", "join_timeout=600,last_call_timeout=30,keep_alive_interval=5" },
    [MAX_RESTARTS] = { "N", "restart all ranks up to N times when one fails" },
    [MONITOR_INTERVAL] = { "S", "seconds between checks of deadlines and new nodes" },
};

static const char LETTERS[NUM_FLAGS] = { [REDIRECTS] = 'r', [TEE] = 't', [MODULE] = 'm' };

/* Variables that set a flag if PET_<FLAG> does not. */
static const char *const VARIABLES[NUM_FLAGS] = {
    [SHUTDOWN_TIMEOUT] = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
    [LOG_LINE_PREFIX_TEMPLATE] = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
};

const char *flag_name(Flag flag)
{
    return TABLE[flag].name;
}

static void print_help(Step step)
{
    printf(
        "Usage: ddprun [flags] program [arguments]\n"
        "\n"
        "Starts the program once per rank. A rank knows who it is from its environment:\n"
        "\n"
        "    RANK, WORLD_SIZE               among all ranks of the job\n"
        "    LOCAL_RANK, LOCAL_WORLD_SIZE   among those of its node: this picks the GPU\n"
        "    MASTER_ADDR, MASTER_PORT       the store through which the ranks find each other\n"
        "\n"
        "The first rank to fail ends all, on every node, and ddprun ends with its status (128 +\n"
        "signal if killed). Flags and variables are torchrun's. A flag that is not given is read\n"
        "from its variable: PET_NPROC_PER_NODE for --nproc-per-node, and so on.\n"
        "\n"
        "    ddprun --nproc-per-node 2 ./train 10\n"
        "    ddprun --nnodes 2 --node-rank 0 --master-addr alpha ./train 10    # on alpha\n"
        "    ddprun --nnodes 2 --node-rank 1 --master-addr alpha ./train 10    # on beta\n"
        "\n");
    if (step >= STEP_FAULT)
        printf(
            "After a failure all ranks are restarted, up to --max-restarts times, as a new group\n"
            "with an empty store; not after status 2 (a wrong option) or 75 from all (stopped on\n"
            "request). With MIN:MAX nodes, or --rdzv-backend c10d, the nodes number themselves.\n"
            "Lost nodes are left out and new ones admitted: WORLD_SIZE changes with them, and\n"
            "TORCHELASTIC_RESTART_COUNT counts the attempts.\n"
            "\n"
            "    ddprun --nnodes 1:4 --rdzv-endpoint alpha:29400 --max-restarts 3 ./train 10\n"
            "\n");
    for (Flag i = 0; i < NUM_FLAGS; i++) {
        if (TABLE[i].help == NULL || (i == MAX_RESTARTS && step < STEP_FAULT))
            continue;
        char flag[64];
        const bool is_more = step >= STEP_FAULT && FAULT_TABLE[i].help != NULL;
        const char *argument = is_more ? FAULT_TABLE[i].argument : TABLE[i].argument;
        argument = argument != NULL ? argument : "";
        if (LETTERS[i] != 0)
            snprintf(flag, sizeof flag, "-%c, --%s %s", LETTERS[i], TABLE[i].name, argument);
        else
            snprintf(flag, sizeof flag, "--%s %s", TABLE[i].name, argument);
        printf("  %-32s %s", flag, is_more ? FAULT_TABLE[i].help : TABLE[i].help);
        if (TABLE[i].value != NULL)
            printf(" (%s)", TABLE[i].value);
        printf("\n");
    }
    streams_exit();
}

/* The flag named by word, up to its end or '='; NUM_FLAGS if none. */
static Flag find_flag(const char *word)
{
    if (word[1] != '-') {
        for (Flag i = 0; i < NUM_FLAGS; i++)
            if (word[1] == LETTERS[i])
                return i;
        return NUM_FLAGS;
    }
    for (Flag i = 0; i < NUM_FLAGS; i++)
        if (name_is(TABLE[i].name, word + 2, strcspn(word + 2, "=")))
            return i;
    return NUM_FLAGS;
}

static noreturn void unknown_flag(const char *word)
{
    const char *typed = word + strspn(word, "-");
    Nearest nearest = nearest_to(typed, strcspn(typed, "="));
    for (Flag i = 0; i < NUM_FLAGS; i++)
        nearest_try(&nearest, TABLE[i].name);
    if (nearest.name == NULL)
        usage_error("unknown flag %s; ddprun --help lists them all", word);
    usage_error("unknown flag %s: did you mean --%s? ddprun --help lists them all", word,
                nearest.name);
}

/* The text after the name in the same word ("--tee=3", "-t3"), or NULL. */
static const char *attached_text(const char *word)
{
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        return equals != NULL ? equals + 1 : NULL;
    }
    const char *value = word + 2 + (word[2] == '=');
    return *value != '\0' ? value : NULL;
}

static void find_variables(const char *texts[])
{
    for (Flag i = 0; i < NUM_FLAGS; i++) {
        char variable[64] = "PET_";
        for (const char *c = TABLE[i].name; *c != '\0'; c++)
            variable[4 + c - TABLE[i].name] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        const char *value = getenv(variable);
        if (value == NULL && VARIABLES[i] != NULL)
            value = getenv(VARIABLES[i]);
        const bool is_off = TABLE[i].argument == NULL && value != NULL && atoi(value) == 0;
        texts[i] = value != NULL && value[0] != '\0' && !is_off ? value : TABLE[i].value;
    }
}

int flag_texts_find(const char *texts[NUM_FLAGS], Step step, int argc, char **argv)
{
    find_variables(texts);
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0)
            return i + 1;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            print_help(step);
        const Flag flag = find_flag(word);
        if (flag == NUM_FLAGS)
            unknown_flag(word);

        texts[flag] = attached_text(word);
        const bool is_switch = TABLE[flag].argument == NULL;
        if (is_switch && texts[flag] != NULL)
            usage_error("%s: --%s takes no value", word, TABLE[flag].name);
        if (is_switch)
            texts[flag] = "1";
        else if (texts[flag] == NULL && ++i < argc)
            texts[flag] = argv[i];
        if (texts[flag] == NULL)
            usage_error("--%s needs a value: --%s %s", TABLE[flag].name, TABLE[flag].name,
                        TABLE[flag].argument);
    }
    return i;
}
