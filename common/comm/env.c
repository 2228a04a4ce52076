/* Variables come from outside: a missing one, or one that is no number, ends the program with a
 * line that says how to start it. */
#include "common/comm/env.h"

#include <limits.h>
#include <stdlib.h>

#include "common/base/log.h"

const char *env_str(const char *name)
{
    const char *value = getenv(name);
    CHECK(value != NULL && value[0] != '\0',
          "%s is not set: start this program with its run.sh, ddprun or torchrun", name);
    return value;
}

int env_int(const char *name)
{
    const char *text = env_str(name);
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    CHECK(errno == 0 && *end == '\0' && value >= 0 && value <= INT_MAX,
          "%s is \"%s\": it must be a whole number from 0 on, set by the launcher", name, text);
    return (int)value;
}
