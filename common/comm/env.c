/* Variables come from outside: a missing one, or one that is not a number, ends the program with a
 * line that explains how to start it. Only without any launcher does a single rank train alone. */
#include "common/comm/env.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "common/comm/store/net.h"

#define HOW_TO_START "start this program with its run.sh, ddprun or torchrun"

static const char *const five[] = { "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR",
                                    "MASTER_PORT" };
enum { FIVE = 5 };

/* Returns false if mpirun or srun has started several ranks, since each would train by itself. */
static bool is_alone(void)
{
    for (int i = 0; i < FIVE; i++)
        if (host_env_is_set(five[i]))
            return false;
    const Launcher *launcher = launcher_find();
    return launcher == NULL || host_env_count(launcher->world_size) == 1;
}

/* Returns variable i of the five for a group of one rank. */
static const char *value_alone(int i)
{
    static char port[16];
    static const char *const values[FIVE] = { "0", "0", "1", "localhost", port };
    if (port[0] == '\0') {
        snprintf(port, sizeof port, "%d", net_free_port());
        log_info("no launcher: one rank trains alone; for more, " HOW_TO_START);
    }
    return values[i];
}

static noreturn void refuse_missing(void)
{
    char names[128] = "";
    int num_missing = 0;
    for (int i = 0; i < FIVE; i++)
        if (!host_env_is_set(five[i]))
            strcat(strcat(names, num_missing++ > 0 ? ", " : ""), five[i]);
    die("%s %s not set: " HOW_TO_START, names, num_missing > 1 ? "are" : "is");
}

const char *env_str(const char *name)
{
    if (strcmp(name, "RANK") == 0)
        comfort_check_launchers();
    for (int i = 0; i < FIVE; i++) {
        if (strcmp(name, five[i]) != 0 || host_env_is_set(name))
            continue;
        if (!is_alone())
            refuse_missing();
        return value_alone(i);
    }
    return env_text(name);
}

static int to_number(const char *name, const char *text)
{
    uint64_t value = 0;
    CHECK(parse_whole(text, 0, INT_MAX, &value),
          "%s is \"%s\": it must be a whole number from 0 on, set by the launcher", name, text);
    return (int)value;
}

int env_int(const char *name)
{
    return to_number(name, env_str(name));
}

const char *env_text(const char *name)
{
    CHECK(host_env_is_set(name), "%s is not set: " HOW_TO_START, name);
    return getenv(name);
}

int env_number(const char *name)
{
    return to_number(name, env_text(name));
}
