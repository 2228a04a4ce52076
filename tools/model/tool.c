/*
 * Reads a tool's command line. Its options have the trainers' kinds, limits and messages, but no
 * configuration file: tools are run by hand.
 */
#include "tools/model/tool.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"

/* Returns the row of an option that the tool shares with the trainers; NULL if it does not. */
static const Option *find_shared(const Tool *tool, const char *name, size_t length)
{
    const Option *option = option_find(args_options, ANY_STEP, name, length);
    for (const char *const *shared = tool->shared; option != NULL && *shared != NULL; shared++)
        if (strcmp(*shared, option->name) == 0)
            return option;
    return NULL;
}

static noreturn void print_help(const Tool *tool)
{
    if (log_prints_for_node()) {
        printf("Usage: %s %s [options]\n\n%s\n", tool->name, tool->arguments, tool->about);
        for (const Option *option = tool->own; option->name != NULL; option++)
            option_print(option, 30);
        for (const char *const *name = tool->shared; *name != NULL; name++)
            option_print(find_shared(tool, *name, strlen(*name)), 30);
        option_print(args_option("version"), 30);
    }
    streams_exit();
}

/* Reads the option at **word; *word then points to the option's last word. */
static void read_option(const Tool *tool, Args *args, void *fields, char ***word)
{
    const char *name = **word + 2;
    const size_t length = strcspn(name, "=");
    const Option *own = option_find(tool->own, ANY_STEP, name, length);
    const Option *option = own != NULL ? own : find_shared(tool, name, length);
    if (option == NULL)
        usage_error("--%.*s is no option: see %s --help", length < 80 ? (int)length : 80, name,
                    tool->name);
    const char *joined = name[length] == '=' ? name + length + 1 : NULL;
    const char *text = option_text(option, joined, word);
    option_set(option, own != NULL ? fields : (void *)args, text, NULL);
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
    for (char **word = argv + 1; word < argv + argc; word++) {
        if (strcmp(*word, "--help") == 0 || strcmp(*word, "-h") == 0)
            print_help(tool);
        if (strcmp(*word, "--version") == 0)
            option_text(&(Option){ .name = "version" }, NULL, NULL);
        if (strncmp(*word, "--", 2) == 0)
            read_option(tool, args, fields, &word);
        else if (given < wanted)
            argument[given++] = *word;
        else
            usage_error("\"%.80s\" has no place here: %s %s [options], see --help", *word,
                        tool->name, tool->arguments);
    }
    if (given < wanted)
        usage_error("usage: %s %s [options], see --help", tool->name, tool->arguments);
}
