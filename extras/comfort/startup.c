/* What a run prints at its start, and keeps in run.json, which --metrics-dir writes. It all comes
 * from the table of options. A program that reads the output through a pipe gets none of it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "extras/comfort/parts.h"

/* Lists all options that the user set, and where: "--lr 0.05, config.yaml:7: seed 3". */
static void write_changed(const Args *args, char *text, size_t bytes)
{
    text[0] = '\0';
    for (const Option *option = args_options; option->name != NULL; option++) {
        const Setting *setting = &args->settings->of[option - args_options];
        const size_t length = strlen(text);
        if (setting->source != BY_DEFAULT)
            snprintf(text + length, bytes - length, "%s%s %s", length > 0 ? ", " : "",
                     args_origin(args, option->name), setting->text);
    }
}

bool comfort_is_read(void)
{
    struct stat errors;
    return isatty(STDERR_FILENO) ||
           (fstat(STDERR_FILENO, &errors) == 0 && S_ISREG(errors.st_mode)) ||
           getenv("SLURM_JOB_ID") != NULL || getenv("PBS_JOBID") != NULL ||
           getenv("LSB_JOBID") != NULL || getenv("OMPI_COMM_WORLD_RANK") != NULL ||
           getenv("PMI_RANK") != NULL; // mpirun, and PMI's launchers, have pipes, too
}

void comfort_announce(const Args *args, int world_size, const char *device)
{
    char changed[PATH_MAX + 64], model[ARGS_VALUE_BYTES], dataset[ARGS_VALUE_BYTES];
    if (!log_prints_for_job())
        return;
    leftovers_remove(args->checkpoint_dir);
    if (args->settings == NULL || !comfort_is_read())
        return;
    write_changed(args, changed, sizeof changed);
    const int batch_size = args_batch_size(args, world_size);
    log_info("trains %s on %s, batch %d x %d = %lld, on %s; %s%s",
             args_value(args, args_option("model"), model),
             args_value(args, args_option("dataset"), dataset), batch_size, world_size,
             (long long)batch_size * world_size, device,
             changed[0] != '\0' ? "set: " : "nothing set", changed);
}

struct json_t *comfort_options(const Args *args)
{
    const Settings *settings = args->settings;
    if (settings == NULL)
        return NULL;
    json_t *values = json_object();
    for (const Option *option = args_options; option->name != NULL; option++)
        if (option->kind != OPTION_ACTION && option_is_listed(option, settings->step))
            json_object_set_new(values, option->name,
                                json_text(settings->of[option - args_options].text));
    return values;
}
