/*
 * --help: how to start this program, and the options it knows, which are those that its step and
 * the earlier ones teach.
 */
#include <stdio.h>

#include "common/base/log.h"
#include "common/base/options.h"
#include "common/base/streams.h"

static const struct {
    const char *launcher, *ranks;
} example[] = {
    [STEP_SINGLE] = { "", "" },
    [STEP_SPAWN] = { "", " --nproc 2" },
    [STEP_ENV] = { "ddprun --nproc-per-node 2 ", "" },
    [STEP_NODES] = { "srun --nodes 2 --ntasks-per-node 2 ", "" },
    [STEP_FAULT] = { "ddprun --nproc-per-node 2 --max-restarts 3 ", "" },
};

static void print_option(const Option *option, Step step)
{
    char name[64];
    snprintf(name, sizeof name, "--%s %s", option->name, option->value);
    const bool other = step == STEP_FAULT && option->fault_help != NULL;
    printf("  %-36s %s", name, other ? option->fault_help : option->help);
    const char *preset = option_preset(option, step);
    if (preset[0] != '\0')
        printf(" [%s]", preset);
    printf("\n");
}

void help_print(Step step, const char *program)
{
    if (!log_speaks_for_node())
        streams_exit();

    const char *launcher = example[step].launcher, *ranks = example[step].ranks;
    printf("Usage: %s [total_epochs [save_every]] [options]\n\n", program);
    printf("  %s%s 50 10 --batch-size 64%s\n", launcher, program, ranks);
    printf("  %s%s --model linear --epochs 3%s\n\n", launcher, program, ranks);
    printf("Each option with its [default]; - and _ are the same in names.\n");

    const char *group = "";
    for (const Option *option = options; option < options + num_options; option++) {
        if (!option_taught(option, step))
            continue;
        if (strcmp(group, option->group) != 0)
            printf("\n%s\n", option->group);
        group = option->group;
        print_option(option, step);
    }
    streams_exit();
}
