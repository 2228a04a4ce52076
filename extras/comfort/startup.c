/*
 * What a run says at its start, and keeps in run.json, which --metrics-dir writes. All of it comes
 * from the table of options. A program that reads the output through a pipe gets none of the lines.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "extras/comfort/parts.h"

static const Settings *settings; // those of args_parse; NULL: it was not called

/* Is there more than comments in it? */
static bool sets_something(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[4096];
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char first = line[strspn(line, " \t\r\n")];
        found = first != '#' && first != '\0';
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* A file of this name where the user stands looks as if it were read. */
static void tell_of_unread_config(const char *path)
{
    struct stat here, there;
    if (!log_speaks_for_node() || stat("config.yaml", &here) != 0 || !S_ISREG(here.st_mode))
        return;
    const bool is_read = path != NULL && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
                         here.st_dev == there.st_dev;
    if (!is_read && sets_something("config.yaml"))
        log_info("the config.yaml in this folder is not read: --config config.yaml would");
}

void startup_parsed(const Settings *parsed)
{
    settings = parsed;
    const Option *config = option_find(args_options, ANY_STEP, "config", strlen("config"));
    if (settings->of[config - args_options].source == BY_DEFAULT)
        tell_of_unread_config(settings->path);
}

/* All options that the user set, and where: "--lr 0.05, config.yaml:7: seed 3". */
static void write_changed(char *text, size_t bytes)
{
    text[0] = '\0';
    for (const Option *option = args_options; option->name != NULL; option++) {
        const Setting *setting = &settings->of[option - args_options];
        const size_t length = strlen(text);
        if (setting->source != BY_DEFAULT)
            snprintf(text + length, bytes - length, "%s%s %s", length > 0 ? ", " : "",
                     args_origin(option->name), setting->text);
    }
}

bool startup_is_read(void)
{
    struct stat errors;
    return isatty(STDERR_FILENO) ||
           (fstat(STDERR_FILENO, &errors) == 0 && S_ISREG(errors.st_mode)) ||
           getenv("SLURM_JOB_ID") != NULL || getenv("PBS_JOBID") != NULL ||
           getenv("LSB_JOBID") != NULL;
}

void startup_announce(const Args *args, int world_size, const char *device)
{
    char changed[ORIGIN_BYTES];
    if (settings == NULL || !log_speaks_for_job() || !startup_is_read())
        return;
    write_changed(changed, sizeof changed);
    const int batch_size = args_batch_size(args, world_size);
    log_info("trains %s on %s, batch %d x %d = %lld, on %s; %s%s", args->model, args->dataset,
             batch_size, world_size, (long long)batch_size * world_size, device,
             changed[0] != '\0' ? "set: " : "nothing set", changed);
}

struct json_t *startup_options(void)
{
    if (settings == NULL)
        return NULL;
    json_t *values = json_object();
    for (const Option *option = args_options; option->name != NULL; option++)
        if (option->kind != OPTION_ACTION && option_is_listed(option, settings->step))
            json_object_set_new(values, option->name,
                                json_text(settings->of[option - args_options].text));
    return values;
}
