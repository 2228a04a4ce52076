/*
 * options.h - rows that say which options there are, and what the user asked for.
 *
 * Behind args.h, for what fills Args, and for rooms, steps, extras and tools with options of their
 * own. An option of Args is a row in args.c and a field there. What is an extra's or a step's
 * alone is a group of its own:
 *
 *   1. declare the group below, and put it where --help shall list it: option_groups in args.c;
 *   2. define it beside the code that reads the values, with `fields` pointing at the struct that
 *      holds them: `static WatchArgs values; const OptionGroup watch_options = { ... }`. What is
 *      special about a value is a function in the row, `check`;
 *   3. define it in base once more, in X_absent.c where that file is X.c, with names alone (and
 *      first_step): a program without the code takes them for unknown options, and ignores them in
 *      config.yaml. For a step's code, which is not in libcommon.a, the linker chooses between the
 *      two: keep the group in a file of which the step's program needs something else, too.
 */
#ifndef COMMON_BASE_OPTIONS_H
#define COMMON_BASE_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdnoreturn.h>

/* The step a program belongs to: it accepts and lists the options taught up to there. */
typedef enum { STEP_SINGLE = 1, STEP_SPAWN, STEP_ENV, STEP_NODES, STEP_FAULT } Step;

enum { MAX_OPTIONS = 64, ANY_STEP = 0 };

typedef enum {
    OPTION_INT, // int; a default that is a word means low - 1: not given
    OPTION_UINT64, // uint64_t
    OPTION_REAL, // double
    OPTION_SWITCH, // bool: on or off
    OPTION_CHOICE, // string: one of those listed in `value`
    OPTION_STRING, // string, not empty
    OPTION_OPTIONAL, // string, or NULL for the word that is its default
    OPTION_FLAG, // bool: true if present, takes no value
    OPTION_ACTION, // command line only, and not stored
} OptionKind;

typedef struct {
    const char *name;
    const char *value; // what stands for the value in --help, or the choices
    const char *preset; // the default, as typed
    int first_step; // teaches it
    OptionKind kind;
    size_t offset; // of its field in the struct that the group fills
    const char *help;
    double low, high; // bounds of a number, inclusive
    int last_step; // last step that has it; 0: all later ones do
    const char *fault_preset, *fault_help; // those of step 05; NULL: the same
    void (*check)(const char *text, const char *origin); // usage error if a string is invalid
} Option;

typedef struct {
    const char *heading; // in --help; consecutive groups may share one
    const Option *rows; // the last has no name
    void *fields; // what the rows fill; NULL: the Args of the program
    const char *absent; // the folder with these options, which this program lacks; NULL: none
} OptionGroup;

#define HEADING_RESULTS "What is printed and saved"
#define HEADING_RANKS "How the ranks work together"

extern const OptionGroup *const option_groups[]; // args.c: in the order of --help; NULL at the end
extern const OptionGroup watch_options, network_options; // extras
extern const OptionGroup fault_options; // step 05

bool option_taught(const Option *option, int step);

/* Stores the value that text stands for in the option's field: `fields` is an Args, or what else
 * the option's group fills. Usage error where it is not a valid value: `origin` names the option as
 * the user wrote it. A string is not copied. */
void option_set(const Option *option, void *fields, const char *text, const char *origin);

/* In increasing order of precedence. */
typedef enum { BY_DEFAULT, BY_FILE, BY_COMMAND_LINE, NUM_SOURCES } SettingSource;

/* What the user asked for: one option. */
typedef struct {
    const Option *option;
    const OptionGroup *group; // its group
    const char *text[NUM_SOURCES]; // values as written; NULL: not there
    SettingSource source; // the source whose value is used
    int line; // where in the configuration file, from 1
} Setting;

typedef struct {
    int step; // the program's
    const char *path; // of the configuration file; NULL: there is none
    int count;
    Setting all[MAX_OPTIONS]; // in the order of the groups
} Settings;

/* All options there are, with the defaults of that step. */
void settings_init(Settings *settings, int step);

/* The option of this name, in which - and _ are the same; NULL if there is none. */
Setting *settings_find(Settings *settings, const char *name, size_t length);

/* Would that step have it if this program were complete? */
bool setting_is_absent(const Setting *setting, int step);

/* Ends the program because there is no such option, suggesting the closest one of the step.
 * `origin` goes before the name, `dashes` before the guess. */
noreturn void setting_unknown(const Settings *settings, int step, const char *origin,
                              const char *dashes, const char *name, size_t length);

/* Where the user set an option, for messages: "--lr", or "config.yaml:7: lr". */
enum { ORIGIN_BYTES = PATH_MAX + 64 };
void setting_origin(char origin[ORIGIN_BYTES], const Settings *settings, const Setting *setting,
                    SettingSource source);

/* Reads the file at settings->path. The strings it adds are never freed. */
void config_read(Settings *settings);

noreturn void help_print(Step step, const char *program);

#endif
