/* words.h - the command line of a program without options, such as an aside or a benchmark. */
#ifndef COMMON_BASE_WORDS_H
#define COMMON_BASE_WORDS_H

#include <stdio.h>

#include "common/base/log.h"
#include "common/base/options.h"

/* Checks the words; call it first. After --help or -h prints `usage`, after --version the version,
 * and ends this process with status 0. Usage error if there are more than `most` words, or if one
 * of them looks like an option. */
static inline void words_check(int argc, char **argv, int most, const char *usage)
{
    streams_guard();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            if (log_prints_for_node())
                fputs(usage, stdout);
            streams_exit();
        }
        if (strcmp(argv[i], "--version") == 0)
            option_text(&(Option){ .name = "version" }, NULL, NULL);
        if (i > most || argv[i][0] == '-')
            usage_error("\"%.80s\" has no place here: %s --help explains it", argv[i],
                        program_invocation_name);
    }
}

#endif
