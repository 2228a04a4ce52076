/*
 * Reads a tool's command line. Its options have the trainers' kinds, limits and messages, but no
 * configuration file: tools are run by hand.
 */
#include "tools/model/tool.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/names.h"

/* The trainers' option of this name. */
static const Option *shared_option(const char *name)
{
    const Option *option = option_find(ANY_STEP, name, strlen(name));
    CHECK(option != NULL, "%s is no option of the trainers", name);
    return option;
}

static void print_row(const Option *option)
{
    char name[64];
    snprintf(name, sizeof name, "--%s %s", option->name, option->value);
    printf("  %-30s %s", name, option->help);
    if (option->preset[0] != '\0')
        printf(" [%s]", option->preset);
    printf("\n");
}

static noreturn void print_help(const Tool *tool)
{
    if (log_speaks_for_node()) {
        printf("Usage: %s %s [options]\n\n%s\n", tool->name, tool->arguments, tool->about);
        for (const Option *option = tool->own; option->name != NULL; option++)
            print_row(option);
        for (const char *const *name = tool->shared; *name != NULL; name++)
            print_row(shared_option(*name));
    }
    streams_exit();
}

/* The tool's own option of this name, or one shared with the trainers; NULL: there is none. */
static const Option *find(const Tool *tool, const char *name, size_t length, bool *own)
{
    *own = true;
    for (const Option *option = tool->own; option->name != NULL; option++)
        if (name_is(option->name, name, length))
            return option;
    *own = false;
    for (const char *const *shared = tool->shared; *shared != NULL; shared++) {
        const Option *option = shared_option(*shared);
        if (name_is(option->name, name, length))
            return option;
    }
    return NULL;
}

/* Reads the option at argv[0]: --name=value, or --name and the value after it, or a flag. Returns
 * how many arguments it took. */
static int read_option(const Tool *tool, Args *args, void *fields, char **argv)
{
    const char *name = argv[0] + 2, *value = argv[1];
    const size_t length = strcspn(name, "=");
    const bool joined = name[length] == '=';
    bool own = false;
    const Option *option = find(tool, name, length, &own);
    if (option == NULL)
        usage_error("--%.*s is no option: see %s --help", length < 80 ? (int)length : 80, name,
                    tool->name);
    if (option->kind == OPTION_FLAG && joined)
        usage_error("--%s takes no value", option->name);
    if (option->kind == OPTION_FLAG)
        value = "on";
    else if (joined)
        value = name + length + 1;
    else if (value == NULL || strncmp(value, "--", 2) == 0)
        usage_error("--%s needs a value: --%s %s", option->name, option->name, option->value);

    char origin[64];
    snprintf(origin, sizeof origin, "--%s", option->name);
    option_set(option, own ? fields : (void *)args, value, origin);
    return option->kind == OPTION_FLAG || joined ? 1 : 2;
}

static int count_words(const char *text)
{
    int count = 0;
    for (const char *c = text; *c != '\0'; c++)
        count += *c != ' ' && (c == text || c[-1] == ' ');
    return count;
}

void tool_parse(const Tool *tool, Args *args, void *fields, const char **argument, int argc,
                char **argv)
{
    streams_guard();
    args_defaults(args, "cnn");
    for (const Option *option = tool->own; option->name != NULL; option++)
        option_set(option, fields, option->preset, option->name);

    const int wanted = count_words(tool->arguments);
    int given = 0;
    for (int i = 1; i < argc;) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            print_help(tool);
        if (strncmp(argv[i], "--", 2) == 0) {
            i += read_option(tool, args, fields, argv + i);
            continue;
        }
        if (given == wanted)
            usage_error("\"%.80s\" has no place here: %s %s [options], see --help", argv[i],
                        tool->name, tool->arguments);
        argument[given++] = argv[i++];
    }
    if (given < wanted)
        usage_error("usage: %s %s [options], see --help", tool->name, tool->arguments);
}
