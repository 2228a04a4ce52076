/*
 * The text of each flag: from the command line, else from its variable, else its default. What the
 * texts mean is in flags.c.
 */
#include "common/launch/flags.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/options.h"
#include "common/comm/store/handshake.h"

static const struct {
    const char *name;
    const char *argument; // NULL: a switch
    const char *value; // unless given; NULL: none
    const char *help; // NULL: step 05 has one, or it is accepted, but has no effect
    char letter; // another name; 0: none
    const char *variable; // sets it if PET_<FLAG> does not
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
    [RDZV_CONF] = { "rdzv-conf", "K=V,...", NULL, "timeouts, see below" },
    [SECRET_FILE] = { "secret-file", "FILE", NULL, "lets in those that know it: on every node",
                      .variable = SECRET_VARIABLE },
    [MAX_RESTARTS] = { "max-restarts", "N", "0" },
    [SHUTDOWN_TIMEOUT] = { "shutdown-timeout", "S", "30", "seconds from SIGTERM to SIGKILL",
                           .variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" },
    [MONITOR_INTERVAL] = { "monitor-interval", "S", "0.1", "seconds between checks of deadlines" },
    [ROLE] = { "role", "NAME", "default", "of this node's ranks" },
    [LOG_DIR] = { "log-dir", "DIR", NULL, "for the log folders of -r and -t" },
    [REDIRECTS] = { "redirects", "SPEC", "0", "to files: 1 stdout, 2 stderr, 3 both, or 0:1,1:3",
                    'r' },
    [TEE] = { "tee", "SPEC", "0", "to files and the console, with the rank", 't' },
    [LOCAL_RANKS_FILTER] = { "local-ranks-filter", "R,...", NULL, "only these to the console" },
    [LOG_LINE_PREFIX_TEMPLATE] = { "log-line-prefix-template", "TEXT",
                                   "[${role_name}${local_rank}]:", "also ${rank}, ${hostname}",
                                   .variable = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE" },
    [MODULE] = { "module", NULL, NULL, "the program is a Python module", 'm' },
    [NO_PYTHON] = { "no-python", NULL, NULL, "start a .py file as it is, not by python3 -u" },
    [PASS_LOCAL_RANK] = { "pass-local-rank", NULL, NULL, "--local-rank=R as first argument" },
    [START_METHOD] = { "start-method", "NAME", NULL, NULL },
    [EVENT_LOG_HANDLER] = { "event-log-handler", "NAME", NULL, NULL },
    [LOCAL_ADDR] = { "local-addr", "HOST" },
    [RUN_PATH] = { "run-path" },
    [VIRTUAL_LOCAL_RANK] = { "virtual-local-rank" },
    [SIGNALS_TO_HANDLE] = { "signals-to-handle", "SIG,..." },
    [LOGS_SPECS] = { "logs-specs", "NAME" },
};

const char *flag_name(Flag flag)
{
    return TABLE[flag].name;
}

static noreturn void print_help(const MoreFlags *more)
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
    printf("%s", more != NULL ? more->text : "");
    for (Flag i = 0; i < NUM_FLAGS; i++) {
        char flag[64];
        const bool is_more = more != NULL && more->flag[i].help != NULL;
        if (!is_more && TABLE[i].help == NULL)
            continue;
        const char *argument = is_more ? more->flag[i].argument : TABLE[i].argument;
        argument = argument != NULL ? argument : "";
        if (TABLE[i].letter != 0)
            snprintf(flag, sizeof flag, "-%c, --%s %s", TABLE[i].letter, TABLE[i].name, argument);
        else
            snprintf(flag, sizeof flag, "--%s %s", TABLE[i].name, argument);
        printf("  %-32s %s", flag, is_more ? more->flag[i].help : TABLE[i].help);
        if (TABLE[i].value != NULL)
            printf(" (%s)", TABLE[i].value);
        printf("\n");
    }
    printf("\nSettings of --rdzv-conf:\n"
           "  timeout or join_timeout          seconds to wait for the other nodes (900; elastic: "
           "600)\n"
           "  keep_alive_interval              seconds between the heartbeats of a node (5)\n"
           "  keep_alive_max_attempt           missed heartbeats after which a node is lost (3)\n");
    printf("%s", more != NULL ? more->settings : "");
    streams_exit();
}

/* The flag named by word, up to its end or '='; NUM_FLAGS if none. The beginning of a name will do
 * if no other one has it. (torchrun takes max-r for max-restarts, but not max, since it counts
 * max_restarts as another name.) */
static Flag find_flag(const char *word)
{
    Flag found = NUM_FLAGS;
    char names[1024] = ""; // that begin so: longer than all of them
    const size_t length = strcspn(word + 2, "=");
    for (Flag i = 0; i < NUM_FLAGS; i++) {
        const char *name = TABLE[i].name;
        const bool begins = word[1] == '-' && name_begins(name, word + 2, length);
        if (begins ? name[length] == '\0' : word[1] == TABLE[i].letter)
            return i;
        if (!begins)
            continue;
        strcat(strcat(strcat(names, found < NUM_FLAGS ? ", " : ""), "--"), name);
        found = i;
    }
    if (strchr(names, ',') != NULL)
        usage_error("%s may mean one of several flags, write more of it: %s", word, names);
    return found;
}

static noreturn void unknown_flag(const char *word)
{
    const char *typed = word + strspn(word, "-");
    Option flags[NUM_FLAGS + 1] = { { NULL } };
    for (Flag i = 0; i < NUM_FLAGS; i++)
        flags[i].name = TABLE[i].name;
    const char *guess = option_guess(flags, ANY_STEP, typed, strcspn(typed, "="));
    usage_error("unknown flag %s%s%s ddprun --help lists them all", word,
                guess[0] != '\0' ? ":" : ";", guess);
}

static void find_variables(const char *texts[])
{
    for (Flag i = 0; i < NUM_FLAGS; i++) {
        char variable[64] = "PET_";
        for (const char *c = TABLE[i].name; *c != '\0'; c++)
            variable[4 + c - TABLE[i].name] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        const char *value = getenv(variable);
        if (value == NULL && TABLE[i].variable != NULL)
            value = getenv(TABLE[i].variable);
        const bool is_off = TABLE[i].argument == NULL && value != NULL && atoi(value) == 0;
        texts[i] = value != NULL && value[0] != '\0' && !is_off ? value : TABLE[i].value;
    }
}

int flag_texts_find(const char *texts[NUM_FLAGS], const MoreFlags *more, int argc, char **argv)
{
    find_variables(texts);
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0)
            return i + 1;
        if (strcmp(word, "-h") == 0 || strncmp(word, "--help", strlen(word)) == 0)
            print_help(more);
        const Flag flag = find_flag(word);
        if (flag == NUM_FLAGS)
            unknown_flag(word);

        // "--tee=3", "--tee 3", "-t3", "-t=3", "-t 3"
        const char *rest = word[1] == '-' ? strchr(word, '=') : word[2] != '\0' ? word + 2 : NULL;
        texts[flag] = rest != NULL && rest[0] == '=' ? rest + 1 : rest;
        const bool is_switch = TABLE[flag].argument == NULL;
        if (is_switch && texts[flag] != NULL)
            usage_error("%s: --%s takes no value", word, TABLE[flag].name);
        if (texts[flag] == NULL)
            texts[flag] = is_switch ? "1" : argv[++i];
        if (texts[flag] == NULL)
            usage_error("--%s needs a value: --%s %s", TABLE[flag].name, TABLE[flag].name,
                        TABLE[flag].argument);
    }
    return i;
}
