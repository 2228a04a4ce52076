/* flag_texts.h - the launcher's flags, and the text given for each. */
#ifndef COMMON_LAUNCH_FLAG_TEXTS_H
#define COMMON_LAUNCH_FLAG_TEXTS_H

#include "common/base/args.h"

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
    LOCAL_ADDR,
    NUM_FLAGS
} Flag;

/* The flag's name without the dashes. */
const char *flag_name(Flag flag);

/* Finds every flag's text: from the command line, else from its PET_ variable, else the default; a
 * switch has "1" where it is on. NULL: none. Returns the index in argv of the first word that is
 * not a flag. On --help prints it and exits. */
int flag_texts_find(const char *texts[NUM_FLAGS], Step step, int argc, char **argv);

#endif
