/*
 * What a run says at its start, and keeps in run.json, which --metrics-dir writes. All of it comes
 * from the table of options. A program that reads the output through a pipe gets none of the lines.
 */
#include "common/base/startup.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/args.h"
#include "common/base/log.h"

enum { NAME_BYTES = 64 }; // longer than any model's or data set's

static Settings *settings; // what args_parse was asked for; NULL: it was not called

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

void startup_settings(Settings *parsed)
{
    settings = parsed;
    if (settings_find(settings, "config", strlen("config"))->text[BY_COMMAND_LINE] == NULL)
        tell_of_unread_config(settings->path);
}

/* The value in its field, as it would be typed. Writes to text, returns it. */
static const char *value_of(const Setting *setting, const void *args, char *text, size_t bytes)
{
    const Option *option = setting->option;
    const char *fields = setting->group->fields != NULL ? setting->group->fields : args;
    const void *field = fields + option->offset;
    const char *string = NULL;
    switch (option->kind) {
    case OPTION_INT:
        if (*(const int *)field >= option->low)
            snprintf(text, bytes, "%d", *(const int *)field);
        else
            string = option->preset; // a word
        break;
    case OPTION_UINT64:
        if (*(const uint64_t *)field < UINT64_MAX)
            snprintf(text, bytes, "%ju", (uintmax_t) * (const uint64_t *)field);
        else
            string = option->preset; // no limit
        break;
    case OPTION_REAL:
        snprintf(text, bytes, "%.10g", *(const double *)field);
        break;
    case OPTION_SWITCH:
    case OPTION_FLAG:
        string = *(const bool *)field ? "on" : "off";
        break;
    case OPTION_ACTION:
        string = setting->text[setting->source];
        break;
    default:
        string = *(const char *const *)field;
        string = string != NULL ? string : setting->text[setting->source]; // "none", "auto", "off"
    }
    if (string != NULL)
        snprintf(text, bytes, "%s", string);
    return text;
}

/* The value of the option of this name. */
static const char *value_named(const char *name, const void *args, char *text, size_t bytes)
{
    return value_of(settings_find(settings, name, strlen(name)), args, text, bytes);
}

/* All options that the user set, and where: "--lr 0.05, config.yaml:7: seed 3". */
static void write_changed(const void *args, char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < settings->count; i++) {
        char origin[ORIGIN_BYTES], value[PATH_MAX], *end = text + strlen(text);
        const Setting *setting = &settings->all[i];
        if (setting->source == BY_DEFAULT)
            continue;
        setting_origin(origin, settings, setting, setting->source);
        if (snprintf(end, bytes - (size_t)(end - text), "%s%s %s", end > text ? ", " : "", origin,
                     value_of(setting, args, value, sizeof value)) < 0)
            *end = '\0';
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

void startup_announce(const void *args, int world_size, const char *device)
{
    char model[NAME_BYTES], dataset[NAME_BYTES], changed[ORIGIN_BYTES];
    if (settings == NULL || !log_speaks_for_job() || !startup_is_read())
        return;
    write_changed(args, changed, sizeof changed);
    const int batch_size = args_batch_size(args, world_size);
    log_info("trains %s on %s, batch %d x %d = %lld, on %s; %s%s",
             value_named("model", args, model, sizeof model),
             value_named("dataset", args, dataset, sizeof dataset), batch_size, world_size,
             (long long)batch_size * world_size, device,
             changed[0] != '\0' ? "set: " : "nothing set", changed);
}

struct json_t *startup_options(const void *args)
{
    if (settings == NULL)
        return NULL;
    json_t *values = json_object();
    for (int i = 0; i < settings->count; i++) {
        const Setting *setting = &settings->all[i];
        char text[PATH_MAX];
        if (setting->group->absent == NULL && setting->option->kind != OPTION_ACTION &&
            option_taught(setting->option, settings->step))
            json_object_set_new(values, setting->option->name,
                                json_text(value_of(setting, args, text, sizeof text)));
    }
    return values;
}
