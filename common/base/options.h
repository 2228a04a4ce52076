/*
 * options.h - the table of all options, and what the user asked for.
 *
 * Behind args.h, for the files that fill Args; nobody else needs it.
 */
#ifndef COMMON_BASE_OPTIONS_H
#define COMMON_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdnoreturn.h>

#include "common/base/args.h"

enum { MAX_OPTIONS = 64, ANY_STEP = 0 };

typedef enum {
    OPTION_INT, // int; a default that is a word means low - 1: not given
    OPTION_UINT64, // uint64_t
    OPTION_REAL, // double
    OPTION_SWITCH, // bool: on or off
    OPTION_CHOICE, // string: one of those listed in `value`
    OPTION_STRING, // string, not empty
    OPTION_OPTIONAL, // string, or NULL for the word that is its default
    OPTION_FAULTS, // OPTION_OPTIONAL, a list of faults (fault_spec.h)
    OPTION_FLAG, // bool: true if present, takes no value
    OPTION_ACTION, // command line only, and not stored in Args
} OptionKind;

typedef struct {
    const char *name;
    const char *value; // what stands for the value in --help, or the choices
    const char *preset; // the default, as typed
    const char *group; // heading in --help
    int first_step; // teaches it
    OptionKind kind;
    size_t offset; // of its field in Args
    const char *help;
    double low, high; // bounds of a number, inclusive
    int last_step; // last step that has it; 0: all later ones do
    const char *fault_preset, *fault_help; // those of step 05; NULL: the same
} Option;

extern const Option options[];
extern const int num_options;

/* The option of this name, in which - and _ are the same; NULL if there is none. */
const Option *option_find(const char *name, size_t length);

/* Ends the program because there is no such option, suggesting the closest one of the step. `place`
 * goes before the name, `dashes` before the guess. */
noreturn void option_unknown(const char *place, const char *dashes, const char *name, size_t length,
                             int step);

bool option_taught(const Option *option, int step);

/* Its default in that step. */
const char *option_preset(const Option *option, int step);

/* Stores the value that text stands for in the option's field: `fields` is an Args, or the struct
 * of a tool whose own option it is. Usage error where it is not a valid value: `place` names the
 * option as the user wrote it. A string is not copied. */
void option_set(const Option *option, void *fields, const char *text, const char *place);

/* In increasing order of precedence. */
typedef enum { BY_DEFAULT, BY_FILE, BY_COMMAND_LINE, NUM_SOURCES } SettingSource;

/* What the user asked for, in the order of the table. */
typedef struct {
    const char *text[NUM_SOURCES][MAX_OPTIONS]; // values as written; NULL: not there
    SettingSource source[MAX_OPTIONS]; // the source whose value is used
    const char *path; // of the configuration file; NULL: there is none
    int line[MAX_OPTIONS]; // where in it, from 1
} Settings;

/* Reads the file at settings->path. The strings it adds are never freed. */
void config_read(Settings *settings);

noreturn void help_print(Step step, const char *program);

#endif
