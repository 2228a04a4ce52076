/* The table of helpful functions, and advice about a program that cannot be started. */
#include "common/base/comfort.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extras/comfort/parts.h"

static const char *start_advice(const char *program, int error)
{
    struct stat file;
    if (isdigit((unsigned char)program[0]) &&
        program[strspn(program, "0123456789")] == '\0') // as run.sh names it
        return ": a program is expected here; the number of ranks goes behind --nproc-per-node";
    if (stat(program, &file) == 0 && S_ISDIR(file.st_mode))
        return "; it is a folder here: name a program in it";
    if (stat(program, &file) != 0 || !S_ISREG(file.st_mode))
        return "";
    if (strchr(program, '/') == NULL)
        return error == ENOENT ? "; it is here, but not in PATH: write ./ in front" : "";
    return error == EACCES && access(program, X_OK) != 0 ? "; it is not executable: see chmod +x"
                                                         : "";
}

const Comfort comfort = {
    .has_extras = true,
    .read_config = comfort_read_config,
    .guess = comfort_guess,
    .meaning = comfort_meaning,
    .announce = startup_announce,
    .options = startup_options,
    .is_read = startup_is_read,
    .start_advice = start_advice,
    .gpus_listed = comfort_gpus_listed,
    .check_launchers = launchers_check,
    .core_quota = comfort_core_quota,
    .crowd = comfort_crowd,
    .print_commands = comfort_print_commands,
    .print_completion = comfort_print_completion,
    .port_owner = comfort_port_owner,
};
