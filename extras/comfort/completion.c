/*
 * ddprun --print-completion SHELL: a script by which the shell completes ddprun's flags. It lists
 * this program's flags, so it matches them. After the program the shell completes file names.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "extras/comfort/parts.h"

static bool has_value(const Option *flag)
{
    return flag->value[0] != '\0';
}

/* Prints all names, or those of flags with a value, as " --nnodes --node-rank". */
static void print_names(const Option *flags, int step, const char *dashes, bool with_value)
{
    for (const Option *flag = flags; flag->name != NULL; flag++)
        if (option_is_listed(flag, (Step)step) && (!with_value || has_value(flag)))
            printf(" %s%s", dashes, flag->name);
}

/* Prints bash's script. bash treats "=" and ":" as words of their own. */
static void print_bash(const Option *flags, int step)
{
    printf("# ddprun --print-completion bash >~/.local/share/bash-completion/completions/ddprun\n"
           "_ddprun()\n{\n    local i word=${COMP_WORDS[COMP_CWORD]}\n    local flags='");
    print_names(flags, step, "--", false);
    printf("'\n    local with_value='");
    print_names(flags, step, "--", true);
    printf(" -r -t '\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        [[ ${COMP_WORDS[i]} == -* ]] || return 0 # the program\n"
           "        if [[ ${COMP_WORDS[i + 1]} == = ]]; then\n"
           "            ((i += 2))\n"
           "        elif [[ $with_value == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
           "            ((i += 1))\n"
           "        fi\n"
           "    done\n"
           "    [[ $i -gt $COMP_CWORD || $word != -* ]] || COMPREPLY=($(compgen -W \"$flags\" -- "
           "\"$word\"))\n"
           "}\n"
           "complete -o bashdefault -o default -F _ddprun ddprun\n");
}

/* Escapes the characters that end a text in a specification of zsh's _arguments. */
static void print_zsh_text(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        printf(strchr("[]:\\", *c) != NULL ? "\\%c" : *c == '\'' ? "'\\''" : "%c", *c);
}

static void print_zsh(const Option *flags, int step)
{
    printf("#compdef ddprun\n"
           "# ddprun --print-completion zsh >~/.zsh/completions/_ddprun, a folder in $fpath\n"
           "_arguments -S \\\n");
    for (const Option *flag = flags; flag->name != NULL; flag++) {
        if (!option_is_listed(flag, (Step)step))
            continue;
        printf("    '--%s%s[", flag->name, has_value(flag) ? "=" : "");
        print_zsh_text(flag->help != NULL ? flag->help : "");
        printf("]%s", has_value(flag) ? ":" : "");
        print_zsh_text(flag->value);
        printf("%s' \\\n", has_value(flag) ? ":_files" : "");
    }
    printf("    '(-):program:_command_names -e' \\\n    '*::arguments:_normal'\n");
}

static void print_tcsh(const Option *flags, int step)
{
    printf("# ddprun --print-completion tcsh >~/.ddprun.tcsh, and source it in ~/.tcshrc\n"
           "complete ddprun 'c/--/(");
    print_names(flags, step, "", false);
    printf(" )/' 'p/*/f/'\n");
}

void comfort_print_completion(const char *shell, const Option *flags, int step)
{
    if (strcmp(shell, "bash") == 0)
        print_bash(flags, step);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(flags, step);
    else if (strcmp(shell, "tcsh") == 0)
        print_tcsh(flags, step);
    else
        usage_error("--print-completion %s: it must be bash, zsh or tcsh", shell);
    streams_exit();
}
