/*
 * tool.h - the command line of a tool: arguments that have a place, and options that have a name.
 *
 * What a tool shares with the trainers (--device, --data-dir) are the rows of their table; its own
 * options are rows of a table like it.
 */
#ifndef COMMON_BASE_TOOL_H
#define COMMON_BASE_TOOL_H

#include "common/base/options.h"

typedef struct {
    const char *name; // "tools/export"
    const char *arguments; // "FILE DIR", all of them needed
    const char *about; // what it does, in whole lines: for --help
    const char *const *shared; // names of options that go to Args; NULL at the end
    const Option *own; // whose fields are the tool's; a name of NULL at the end
} Tool;

/* Fills args, from their defaults on, the tool's own fields, and argument[] in the order of
 * tool->arguments. Ends the process with status 2 and one line on anything it does not understand,
 * with status 0 after --help. Strings live as long as argv. */
void tool_parse(const Tool *tool, Args *args, void *fields, const char **argument, int argc,
                char **argv);

#endif
