/*
 * From the text of an option to its value. The whole text must be valid: "12abc", "1e999" and
 * negative counts are refused, as are values outside the table's range.
 */
#include <ctype.h>
#include <stdlib.h>

#include "common/base/fault_spec.h"
#include "common/base/log.h"
#include "common/base/options.h"

/* Digits and nothing else: strtoull alone would take " -1" for 2^64 - 1. */
static bool parse_whole(const char *text, uint64_t *value)
{
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0' && errno == 0;
}

/* A decimal number and nothing else: strtod alone would take " nan", "inf" and "0x1p3". */
static bool parse_real(const char *text, double *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && text[strspn(text, "0123456789.eE+-")] == '\0' && *end == '\0' &&
           errno == 0;
}

/* Is it one of the words in "one|two|three"? */
static bool is_choice(const char *text, const char *words)
{
    const size_t length = strlen(text);
    for (const char *word = words; word != NULL; word = strchr(word, '|')) {
        word += word[0] == '|';
        if (strcspn(word, "|") == length && strncmp(word, text, length) == 0)
            return true;
    }
    return false;
}

static int to_int(const Option *option, const char *text, const char *place)
{
    const bool has_word = isalpha((unsigned char)option->preset[0]);
    if (has_word && strcmp(text, option->preset) == 0)
        return (int)option->low - 1;

    uint64_t value = 0;
    if (!parse_whole(text, &value) || (double)value < option->low || (double)value > option->high)
        usage_error("%s must be a whole number from %.10g to %.10g%s%s, not \"%.80s\"", place,
                    option->low, option->high, has_word ? " or " : "",
                    has_word ? option->preset : "", text);
    return (int)value;
}

static uint64_t to_uint64(const char *text, const char *place)
{
    uint64_t value = 0;
    if (!parse_whole(text, &value))
        usage_error("%s must be a whole number from 0 to %ju, not \"%.80s\"", place, UINTMAX_MAX,
                    text);
    return value;
}

static double to_real(const Option *option, const char *text, const char *place)
{
    double value = 0;
    if (!parse_real(text, &value) || value < option->low || value > option->high)
        usage_error("%s must be a number from %.10g to %.10g, not \"%.80s\"", place, option->low,
                    option->high, text);
    return value;
}

static const char *to_choice(const Option *option, const char *text, const char *place)
{
    if (!is_choice(text, option->value))
        usage_error("%s must be one of %s, not \"%.80s\"", place, option->value, text);
    return text;
}

static const char *to_string(const char *text, const char *place)
{
    if (text[0] == '\0')
        usage_error("%s must not be empty", place);
    return text;
}

static const char *to_faults(const char *text, const char *place)
{
    faults_check(to_string(text, place), place);
    return text;
}

void option_set(const Option *option, void *fields, const char *text, const char *place)
{
    void *field = (char *)fields + option->offset;
    switch (option->kind) {
    case OPTION_INT:
        *(int *)field = to_int(option, text, place);
        break;
    case OPTION_UINT64:
        *(uint64_t *)field = to_uint64(text, place);
        break;
    case OPTION_REAL:
        *(double *)field = to_real(option, text, place);
        break;
    case OPTION_SWITCH:
        *(bool *)field = strcmp(to_choice(option, text, place), "on") == 0;
        break;
    case OPTION_CHOICE:
        *(const char **)field = to_choice(option, text, place);
        break;
    case OPTION_STRING:
        *(const char **)field = to_string(text, place);
        break;
    case OPTION_OPTIONAL:
        *(const char **)field = strcmp(text, option->preset) == 0 ? NULL : to_string(text, place);
        break;
    case OPTION_FAULTS:
        *(const char **)field = strcmp(text, option->preset) == 0 ? NULL : to_faults(text, place);
        break;
    case OPTION_FLAG:
        *(bool *)field = text[0] != '\0';
        break;
    case OPTION_ACTION:
        break;
    }
}
