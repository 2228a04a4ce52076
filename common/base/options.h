/* options.h - what an option is, and how its text becomes a value. The trainers' options are rows
 * in args.c; tools and launchers have tables of their own, with the same kinds, limits and
 * messages. */
#ifndef COMMON_BASE_OPTIONS_H
#define COMMON_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    OPTION_INT, // int; a default that is a word means low - 1 (not given)
    OPTION_UINT64, // uint64_t
    OPTION_REAL, // double
    OPTION_SWITCH, // bool: on or off
    OPTION_CHOICE, // an enum with the words of `value`, in their order
    OPTION_STRING, // string, not empty
    OPTION_OPTIONAL, // string, or NULL for the word that is its default
    OPTION_RATE, // string, see parse_rate; or NULL for the word that is its default
    OPTION_FLAG, // bool: true if present, takes no value
    OPTION_ACTION, // command line only, and not stored
} OptionKind;

/* Where an option must have the same value: on all ranks; also after a resume, since it changes the
 * course of the training; or nowhere. */
typedef enum { OF_JOB, OF_RUN, OF_RANK } Scope;

typedef struct Option {
    const char *name;
    const char *value; // placeholder for the value in --help, or the choices
    const char *preset; // the default, as typed
    const char *steps; // the digits of the steps that have it: "345"
    OptionKind kind;
    size_t offset; // offset of its field in the struct to fill
    const char *help;
    double low, high; // bounds of a number, inclusive
    const char *heading; // starts a section of --help; its row is the first of it in every step
    bool of_extra; // true if an extra reads it
    Scope scope;
} Option;

/* The step a program belongs to: it accepts and lists the options taught up to there. */
typedef enum { ANY_STEP, STEP_SINGLE, STEP_SPAWN, STEP_ENV, STEP_NODES, STEP_FAULT } Step;

/* Returns whether that step has this option; option_is_listed: and this build has its extra. */
bool option_is_taught(const Option *option, Step step);
bool option_is_listed(const Option *option, Step step);

/* Returns whether this name begins with what was typed; "-" and "_" are the same. */
bool name_begins(const char *name, const char *typed, size_t length);

/* Returns the option of this name, preferably of that step, or NULL. The last row has no name. */
const Option *option_find(const Option *options, Step step, const char *name, size_t length);

/* Returns the text of the option at **word of a command line: `joined` if it is in the same word
 * ("--lr=1"), else the next word, to which *word moves; "on" for a flag. Usage error if it is
 * missing, or a flag has one. --version is answered here, for all programs: status 0. */
const char *option_text(const Option *option, const char *joined, char ***word);

/* Prints a line of --help: name and value in `width` columns, then what it means. */
void option_print(const Option *option, int width);

/* Converts text to a value in the option's field of the struct; a string is not copied. Usage error
 * if it is not valid; `origin` is the option as the user wrote it; NULL for the command line. */
void option_set(const Option *option, void *fields, const char *text, const char *origin);

/* Reads a whole number: digits and nothing else. strtoull alone would take " -1" for 2^64 - 1.
 * Returns false if it is not a number from `low` to `high`; *value is then undefined. */
bool parse_whole(const char *text, uint64_t low, uint64_t high, uint64_t *value);

/* Does the same for a decimal number: strtod alone would take " nan", "inf" and "0x1p3". */
bool parse_real(const char *text, double low, double high, double *value);

/* Returns the bits per second of "3gbit", "2.5Gbit" or "100mbit", or 0 if it is not a rate from
 * 100kbit to 1000gbit. A function of extras/simulated_network. */
double parse_rate(const char *text);

#endif
