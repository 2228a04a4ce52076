/* comfort.h - functions of extras/comfort that make programs more helpful. A build without extras
 * has those of base_no_extras.c, which do nothing. */
#ifndef COMMON_BASE_COMFORT_H
#define COMMON_BASE_COMFORT_H

#include <stdbool.h>
#include <stddef.h>

struct Args;
struct Option;
struct Settings;

extern const bool has_extras; // whether this build has the options of extras

/* Sets what the configuration file says and the command line does not. */
void comfort_read_config(struct Settings *settings);

/* Returns " did you mean --lr?" if the name of an option of that step is near what was typed, or
 * "". */
const char *comfort_guess(const struct Option *options, int step, const char *typed, size_t length);

/* Returns the text that is meant: off for "no", if the option can be off; a path in HOME for "~/x".
 */
const char *comfort_meaning(const struct Option *option, const char *text, const char *origin);

/* Rank 0 removes what killed runs have left, and prints "trains linear on random, batch 64 ...". */
void comfort_announce(const struct Args *args, int world_size, const char *device);

/* Returns all options as typed (jansson's json_t); NULL if args_parse did not fill args. */
struct json_t *comfort_options(const struct Args *args);

/* Is standard error a terminal, a file, or the output of a batch job or of mpirun? */
bool comfort_is_read(void);

/* Returns why a program cannot be started, or "". */
const char *comfort_start_advice(const char *program, int error);

/* Returns the number of GPUs in the driver's files, or -1; CUDA's is more accurate. */
int comfort_gpus_listed(void);

/* Ends a rank that would train alone beside others. */
void comfort_check_launchers(void);

/* Returns how many cores the control group allows, at least 1; INT_MAX if it sets no limit. */
int comfort_core_quota(void);

/* Warns of ranks that start slowly, as they are many, or that OpenMP binds to the same cores. */
void comfort_share_cores(int num_ranks, bool is_bound);

/* Both end this process. The first prints what to type on each node (0 nodes: any number of nodes
 * may join), the second a shell's completion script. */
void comfort_print_commands(char **argv, char **program, const char *node_0, int num_nodes);
void comfort_print_completion(const char *shell, const struct Option *flags, int step);

/* Writes " by NAME (pid N)", if the process that has the port is known, else "". */
void comfort_port_owner(int port, char *text, size_t bytes);

#endif
