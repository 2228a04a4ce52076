/* Finds an option by its name and converts its text to a value. The whole text must be valid:
 * "12abc", "1e999" and negative counts are refused, as are values outside the row's range. */
#include "common/base/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/log.h"

bool option_is_taught(const Option *option, Step step)
{
    return step == ANY_STEP || strchr(option->steps, '0' + (int)step) != NULL;
}

bool option_is_listed(const Option *option, Step step)
{
    return option_is_taught(option, step) && (!option->of_extra || has_extras);
}

bool name_begins(const char *name, const char *typed, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] != (typed[i] == '_' ? '-' : typed[i]))
            return false;
    return true;
}

const Option *option_find(const Option *options, Step step, const char *name, size_t length)
{
    const Option *found = NULL;
    for (const Option *option = options; option->name != NULL; option++)
        if (name_begins(option->name, name, length) && option->name[length] == '\0') {
            found = option;
            if (option_is_taught(option, step))
                break;
        }
    return found;
}

const char *option_text(const Option *option, const char *joined, char ***word)
{
    if (option->kind == OPTION_FLAG && joined == NULL)
        return "on";
    if (option->kind == OPTION_FLAG)
        usage_error("--%s takes no value", option->name);
    if (strcmp(option->name, "version") == 0) {
        if (log_prints_for_node())
            printf("%s (ddp.c) %s\n", program_invocation_short_name, VERSION);
        streams_exit();
    }
    const char *text = joined != NULL ? joined : *++*word;
    if (text == NULL || (joined == NULL && strncmp(text, "--", 2) == 0))
        usage_error("--%s needs a value: --%s %s", option->name, option->name, option->value);
    return text;
}

void option_print(const Option *option, int width)
{
    char name[64];
    snprintf(name, sizeof name, "--%s %s", option->name, option->value);
    printf("  %-*s %s", width, name, option->help);
    printf(option->preset[0] != '\0' ? " [%s]\n" : "\n", option->preset);
}

bool parse_whole(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0' && errno == 0 &&
           *value >= low && *value <= high;
}

bool parse_real(const char *text, double low, double high, double *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && text[strspn(text, "0123456789.eE+-")] == '\0' && *end == '\0' &&
           errno == 0 && *value >= low && *value <= high;
}

static uint64_t to_whole(const Option *option, const char *text, const char *origin)
{
    const uint64_t low = (uint64_t)option->low;
    const uint64_t high = option->kind == OPTION_INT ? (uint64_t)option->high : UINT64_MAX;
    const bool has_word = isalpha((unsigned char)option->preset[0]);
    uint64_t value;
    if (has_word && strcmp(text, option->preset) == 0)
        return low - 1;
    if (!parse_whole(text, low, high, &value))
        usage_error("%s must be a whole number from %ju to %ju%s%s, not \"%.80s\"", origin, low,
                    high, has_word ? " or " : "", has_word ? option->preset : "", text);
    return value;
}

static const char *to_string(const Option *option, const char *text, const char *origin)
{
    if (option->kind != OPTION_STRING && strcmp(text, option->preset) == 0)
        return NULL;
    if (text[0] == '\0')
        usage_error("%s must not be empty", origin);
    if (option->kind == OPTION_RATE && parse_rate(text) == 0)
        usage_error("%s %s: it is a rate from 100kbit to 1000gbit, as in 3gbit, or off", origin,
                    text);
    return text;
}

/* Returns the number of text among `words`, as in "one|two|three"; usage error if it is none. */
static int to_choice(const char *words, const char *text, const char *origin)
{
    const size_t length = strlen(text);
    int number = 0;
    for (const char *word = words; word != NULL; word = strchr(word, '|'), number++) {
        word += word[0] == '|';
        if (strcspn(word, "|") == length && strncmp(word, text, length) == 0)
            return number;
    }
    usage_error("%s must be one of %s, not \"%.80s\"", origin, words, text);
}

void option_set(const Option *option, void *fields, const char *text, const char *origin)
{
    char typed[64];
    snprintf(typed, sizeof typed, "--%s", option->name);
    origin = origin != NULL ? origin : typed;
    void *field = (char *)fields + option->offset;
    text = comfort_meaning(option, text, origin);
    switch (option->kind) {
    case OPTION_INT:
        *(int *)field = (int)to_whole(option, text, origin);
        break;
    case OPTION_UINT64:
        *(uint64_t *)field = to_whole(option, text, origin);
        break;
    case OPTION_REAL:
        if (!parse_real(text, option->low, option->high, field))
            usage_error("%s must be a number from %.10g to %.10g, not \"%.80s\"", origin,
                        option->low, option->high, text);
        break;
    case OPTION_SWITCH:
        *(bool *)field = to_choice(option->value, text, origin) == 0; // "on|off"
        break;
    case OPTION_CHOICE:
        *(int *)field = to_choice(option->value, text, origin);
        break;
    case OPTION_STRING:
    case OPTION_OPTIONAL:
    case OPTION_RATE:
        *(const char **)field = to_string(option, text, origin);
        break;
    case OPTION_FLAG:
        *(bool *)field = text[0] != '\0';
        break;
    case OPTION_ACTION:
        break;
    }
}
