/* Advice about a program that cannot be started. */
#include "common/base/comfort.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const bool has_extras = true;

const char *comfort_start_advice(const char *program, int error)
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
