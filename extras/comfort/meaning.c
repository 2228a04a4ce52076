/* What the text of an option means, beyond its own words. Configuration files are written in the
 * words of YAML and Python, in which "no" and "null" are values, not names of files; and shells
 * leave "--checkpoint-dir=~/x" as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "extras/comfort/parts.h"

bool comfort_is_path(const Option *option)
{
    return strcmp(option->value, "FILE") == 0 || strcmp(option->value, "DIR") == 0;
}

static bool is_off(const char *text)
{
    static const char *const words[] = { "off", "none", "no", "false", "null", "~" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Returns the option's own word for off; NULL if it cannot be off. */
static const char *own_word(const Option *option)
{
    const char *preset = option->preset;
    if (is_off(preset))
        return preset;
    if (strstr(option->value, "off") != NULL)
        return "off";
    if (strcmp(option->name, "resume") == 0)
        return "none";
    const bool has_zero = option->help != NULL && strstr(option->help, "; 0: ") != NULL;
    return has_zero && strcmp(preset, "0") == 0 ? preset : NULL; // --help lists what 0 turns off
}

/* Replaces ~ by HOME. The path lives as long as the process. */
static const char *in_home(const char *text, const char *origin)
{
    const char *home = getenv("HOME");
    char *path = NULL;
    if (home == NULL || home[0] == '\0')
        usage_error("%s %.80s: HOME is not set, so write the whole path", origin, text);
    CHECK(asprintf(&path, "%s%s", home, text + 1) > 0, "out of memory");
    return path;
}

const char *comfort_meaning(const Option *option, const char *text, const char *origin)
{
    const bool off = is_off(text);
    const char *word = off ? own_word(option) : NULL;
    if (word != NULL)
        return word;
    if (off && comfort_is_path(option))
        usage_error("%s cannot be off: name a path, or leave it out (./%s for one of that name)",
                    origin, text);
    return comfort_is_path(option) && strncmp(text, "~/", 2) == 0 ? in_home(text, origin) : text;
}
