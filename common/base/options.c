/*
 * What can be done with a row whatever it is about: find it by its name, list it, and get from the
 * text of a value to the value. The whole text must be valid: "12abc", "1e999" and negative counts
 * are refused, as are values outside the row's range.
 */
#include "common/base/options.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/log.h"

bool option_taught(const Option *option, int step)
{
    return step == ANY_STEP ||
           (option->first_step <= step && (option->last_step == 0 || step <= option->last_step));
}

static const char *preset_of(const Option *option, int step)
{
    return step == STEP_FAULT && option->fault_preset != NULL ? option->fault_preset
                                                              : option->preset;
}

void settings_init(Settings *settings, int step)
{
    *settings = (Settings){ .step = step };
    for (const OptionGroup *const *group = option_groups; *group != NULL; group++)
        for (const Option *option = (*group)->rows; option->name != NULL; option++) {
            CHECK(settings->count < MAX_OPTIONS, "raise MAX_OPTIONS");
            settings->all[settings->count++] = (Setting){
                .option = option,
                .group = *group,
                .text[BY_DEFAULT] = preset_of(option, step),
            };
        }
}

Setting *settings_find(Settings *settings, const char *name, size_t length)
{
    for (Setting *at = settings->all; at < settings->all + settings->count; at++)
        if (name_begins(at->option->name, name, length) && at->option->name[length] == '\0')
            return at;
    return NULL;
}

bool setting_is_absent(const Setting *setting, int step)
{
    return setting->group->absent != NULL && option_taught(setting->option, step);
}

void setting_unknown(const Settings *settings, int step, const char *origin, const char *dashes,
                     const char *name, size_t length)
{
    const char *names[MAX_OPTIONS + 1] = { NULL };
    int count = 0;
    for (const Setting *setting = settings->all; setting < settings->all + settings->count;
         setting++)
        if (!setting_is_absent(setting, settings->step) && option_taught(setting->option, step))
            names[count++] = setting->option->name;
    const char *nearest = comfort_nearest(name, length, names);
    const int shown = length < 80 ? (int)length : 80;
    if (nearest == NULL)
        usage_error("%s%.*s is no option: --help lists them", origin, shown, name);
    usage_error("%s%.*s is no option: did you mean %s%s? --help lists them", origin, shown, name,
                dashes, nearest);
}

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

static int to_int(const Option *option, const char *text, const char *origin)
{
    const bool has_word = isalpha((unsigned char)option->preset[0]);
    if (has_word && strcmp(text, option->preset) == 0)
        return (int)option->low - 1;

    uint64_t value = 0;
    if (!parse_whole(text, &value) || (double)value < option->low || (double)value > option->high)
        usage_error("%s must be a whole number from %.10g to %.10g%s%s, not \"%.80s\"", origin,
                    option->low, option->high, has_word ? " or " : "",
                    has_word ? option->preset : "", text);
    return (int)value;
}

static uint64_t to_uint64(const char *text, const char *origin)
{
    uint64_t value = 0;
    if (!parse_whole(text, &value))
        usage_error("%s must be a whole number from 0 to %ju, not \"%.80s\"", origin, UINTMAX_MAX,
                    text);
    return value;
}

static double to_real(const Option *option, const char *text, const char *origin)
{
    double value = 0;
    if (!parse_real(text, &value) || value < option->low || value > option->high)
        usage_error("%s must be a number from %.10g to %.10g, not \"%.80s\"", origin, option->low,
                    option->high, text);
    return value;
}

static const char *to_choice(const Option *option, const char *text, const char *origin)
{
    if (!is_choice(text, option->value))
        usage_error("%s must be one of %s, not \"%.80s\"", origin, option->value, text);
    return text;
}

static const char *to_string(const Option *option, const char *text, const char *origin)
{
    if (text[0] == '\0')
        usage_error("%s must not be empty", origin);
    if (option->check != NULL)
        option->check(text, origin);
    return text;
}

void option_set(const Option *option, void *fields, const char *text, const char *origin)
{
    void *field = (char *)fields + option->offset;
    switch (option->kind) {
    case OPTION_INT:
        *(int *)field = to_int(option, text, origin);
        break;
    case OPTION_UINT64:
        *(uint64_t *)field = to_uint64(text, origin);
        break;
    case OPTION_REAL:
        *(double *)field = to_real(option, text, origin);
        break;
    case OPTION_SWITCH:
        *(bool *)field = strcmp(to_choice(option, text, origin), "on") == 0;
        break;
    case OPTION_CHOICE:
        *(const char **)field = to_choice(option, text, origin);
        break;
    case OPTION_STRING:
        *(const char **)field = to_string(option, text, origin);
        break;
    case OPTION_OPTIONAL:
        *(const char **)field =
            strcmp(text, option->preset) == 0 ? NULL : to_string(option, text, origin);
        break;
    case OPTION_FLAG:
        *(bool *)field = text[0] != '\0';
        break;
    case OPTION_ACTION:
        break;
    }
}

/* --help begins with how to start this program. */
static const struct {
    const char *launcher, *ranks;
} example[] = {
    [STEP_SINGLE] = { "", "" },
    [STEP_SPAWN] = { "", " --nproc 2" },
    [STEP_ENV] = { "ddprun --nproc-per-node 2 ", "" },
    [STEP_NODES] = { "srun --nodes 2 --ntasks-per-node 2 ", "" },
    [STEP_FAULT] = { "ddprun --nproc-per-node 2 --max-restarts 3 ", "" },
};

static void print_option(const Option *option, Step step)
{
    char name[64];
    snprintf(name, sizeof name, "--%s %s", option->name, option->value);
    const bool other = step == STEP_FAULT && option->fault_help != NULL;
    printf("  %-36s %s", name, other ? option->fault_help : option->help);
    const char *preset = preset_of(option, step);
    if (preset[0] != '\0')
        printf(" [%s]", preset);
    printf("\n");
}

void help_print(Step step, const char *program)
{
    if (!log_speaks_for_node())
        streams_exit();

    const char *launcher = example[step].launcher, *ranks = example[step].ranks;
    printf("Usage: %s [total_epochs [save_every]] [options]\n\n", program);
    printf("  %s%s 50 10 --batch-size 64%s\n", launcher, program, ranks);
    printf("  %s%s --model linear --epochs 3%s\n\n", launcher, program, ranks);
    printf("Each option with its [default]; - and _ are the same in names.\n");

    const char *heading = "";
    for (const OptionGroup *const *group = option_groups; *group != NULL; group++)
        for (const Option *option = (*group)->rows; option->name != NULL; option++) {
            if ((*group)->absent != NULL || !option_taught(option, step))
                continue;
            if (strcmp(heading, (*group)->heading) != 0)
                printf("\n%s\n", (*group)->heading);
            heading = (*group)->heading;
            print_option(option, step);
        }
    streams_exit();
}
