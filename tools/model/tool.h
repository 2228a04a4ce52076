/*
 * tool.h - the command line of a tool: positional arguments and options.
 *
 * Options shared with the trainers (--device, --data-dir) are rows of their table; a tool's own
 * options are in a table of the same kind.
 */
#ifndef TOOLS_MODEL_TOOL_H
#define TOOLS_MODEL_TOOL_H

#include "common/base/args.h"
#include "common/base/options.h"

typedef struct {
    const char *name; // "tools/export"
    const char *arguments; // "FILE DIR", all required
    const char *about; // what it does, in complete lines, for --help
    const char *const *shared; // names of options that go to Args; ends with NULL
    const Option *own; // their fields are the tool's; ends with a name of NULL
} Tool;

/* Fills args, beginning with the defaults, the tool's own fields, and argument[] in the order of
 * tool->arguments. Ends the process with status 2 and one line on any error in the command line,
 * with status 0 after --help. Strings live as long as argv. */
void tool_parse(const Tool *tool, Args *args, void *fields, const char **argument, int argc,
                char **argv);

#endif
