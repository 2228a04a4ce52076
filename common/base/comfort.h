/* comfort.h - functions of extras/comfort that make programs more helpful. All are optional: in a
 * build without extras (comfort_absent.c) every field is NULL or false. */
#ifndef COMMON_BASE_COMFORT_H
#define COMMON_BASE_COMFORT_H

#include <stdbool.h>
#include <stddef.h>

struct Args;
struct Option;
struct Settings;

typedef struct {
    bool has_extras; // this build has the options of extras
    // Sets what is in the configuration file and not on the command line. Keeps the pointer.
    void (*read_config)(struct Settings *settings);
    // Returns " did you mean --lr?" if an option of that step is near what was typed, else "".
    const char *(*guess)(const struct Option *options, int step, const char *typed, size_t length);
    // Returns what is meant: "no" as off, if the option has it; "~/x" as a path in HOME; else text.
    const char *(*meaning)(const struct Option *option, const char *text, const char *origin);
    // Prints on rank 0: "trains linear on random, batch 32 x 2 = 64, on cpu; set: --lr 0.05".
    void (*announce)(const struct Args *args, int world_size, const char *device);
    struct json_t *(*options)(void); // all options as typed; NULL if args_parse was not called
    bool (*is_read)(void); // true if stderr is a terminal, a file, a batch job's or mpirun's
    const char *(*start_advice)(const char *program, int error); // why it cannot be started, or ""
    int (*gpus_listed)(void); // GPUs in the driver's files; CUDA is more accurate
    void (*check_launchers)(void); // ends a rank that would train alone beside others
    int (*core_quota)(void); // how many cores the control group allows, at least 1
    void (*crowd)(int num_ranks); // warns if this many ranks are slow to start
    // Both end this process: what to type on each node (0 nodes: they may come and go), a script.
    void (*print_commands)(char **argv, char **program, const char *node_0, int num_nodes);
    void (*print_completion)(const char *shell, const struct Option *flags, int step);
    void (*port_owner)(int port, char *text, size_t bytes); // writes " by NAME (pid N)" if known
} Comfort;

extern const Comfort comfort;

#endif
