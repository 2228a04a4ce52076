/*
 * args_child.h - shared by the tests of options: args_parse in a child process.
 *
 * The child's Args come back as text, one "name value" a line, and its status and messages are what
 * a user would see.
 */
#ifndef TESTS_COMMON_BASE_ARGS_CHILD_H
#define TESTS_COMMON_BASE_ARGS_CHILD_H

#include <errno.h>
#include <string.h>

#include "05_fault_tolerance/checks/fault_spec.h"
#include "05_fault_tolerance/checks/reduce_order.h"
#include "common/base/args.h"
#include "tests/helpers/child.h"

static int world_size; // ranks the child divides the batch among (0: it does not divide it)

static inline const char *or_null(const char *text)
{
    return text != NULL ? text : "(null)";
}

static inline void dump(FILE *file, const Args *a)
{
    char word[ARGS_VALUE_BYTES];
    for (const Option *option = args_options; option->name != NULL; option++)
        if (option->kind == OPTION_CHOICE)
            fprintf(file, "\n%s %s\n", option->name, args_value(a, option, word));
    fprintf(file, "data_dir %s\ndataset_size %d\nnum_samples %d\n", a->data_dir, a->dataset_size,
            a->num_samples);
    fprintf(file, "epochs %d\nsave_every %d\nbatch_size %d\nglobal_batch_size %d\n", a->epochs,
            a->save_every, a->batch_size, a->global_batch_size);
    fprintf(file, "lr %.15g\nmomentum %.15g\nweight_decay %.15g\ndropout %d\n", a->lr, a->momentum,
            a->weight_decay, a->dropout);
    fprintf(file, "seed %ju\nthreads %d\ninit_from %s\nresume %s\ncheckpoint_dir %s\n",
            (uintmax_t)a->seed, a->threads, or_null(a->init_from), or_null(a->resume),
            a->checkpoint_dir);
    fprintf(file, "metrics_dir %s\nmax_steps %ju\nlog_interval %d\n", or_null(a->metrics_dir),
            (uintmax_t)a->max_steps, a->log_interval);
    fprintf(file, "check_collectives %d\nbucket_cap_mb %.15g\ntimeout %.15g\nnproc %d\n",
            a->check_collectives, a->bucket_cap_mb, a->timeout, a->nproc);
    fprintf(file, "local_rank %d\nsave_every_steps %d\nkeep %d\nresume_auto %d\n", a->local_rank,
            a->save_every_steps, a->keep, a->resume_auto);
    fprintf(file, "check_sync %d\ninject %s\nsimulate_network %s\n", a->check_sync,
            or_null(a->inject), or_null(a->simulate_network));
    fprintf(file, "LOCAL_RANK %s\n", or_null(getenv("LOCAL_RANK")));
}

typedef struct {
    Step step;
    const char *program; // argv[0]; with a '/', a program to execute instead
    const char *line; // arguments, separated by single spaces
} Command;

static inline void run_command(const void *context)
{
    const Command *command = context;
    char *argv[64] = { strdup(command->program) }, *line = strdup(command->line);
    int argc = 1;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    if (strchr(command->program, '/') != NULL) {
        execv(command->program, argv);
        _exit(127);
    }
    Args args;
    args_parse(&args, command->step, argc, argv);
    faults_check(&args);
    if (world_size > 0) {
        reduce_order_check(&args, world_size);
        printf("\nshare %d\n", args_batch_size(&args, world_size));
    }
    dump(stdout, &args);
}

static inline int run(Step step, const char *line)
{
    return child_run(run_command, &(Command){ step, "train", line });
}

static inline void assert_value(const char *field)
{
    char line[256];
    snprintf(line, sizeof line, "\n%s\n", field);
    assert_has(out, line);
}

/* Asserts that the child ended with status 2 and one line that contains message. */
static inline void assert_refused(int status, const char *message)
{
    assert_string_equal(out, "");
    assert_has(err, message);
    assert_int_equal(strncmp(err, program_invocation_short_name, strcspn(err, ":")), 0);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    assert_int_equal(status, 2);
}

/* Asserts that args_defaults equals parsing no options, except for --resume. */
static inline void assert_defaults(const char *model, bool resume_auto)
{
    char expected[OUTPUT_BYTES] = "";
    FILE *file = fmemopen(expected, sizeof expected, "w");
    Args args;
    args_defaults(&args, model);
    args.resume_auto = resume_auto;
    dump(file, &args);
    fclose(file);
    assert_string_equal(out, expected);
}

#endif
