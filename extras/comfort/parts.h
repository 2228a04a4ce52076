/* parts.h - the functions behind the table in common/base/comfort.h, which documents them. */
#ifndef EXTRAS_COMFORT_PARTS_H
#define EXTRAS_COMFORT_PARTS_H

#include "common/base/args.h"
#include "common/base/comfort.h"

void comfort_read_config(Settings *settings);

void startup_parsed(const Settings *settings);
void startup_announce(const Args *args, int world_size, const char *device);
struct json_t *startup_options(void);
bool startup_is_read(void);

const char *comfort_meaning(const Option *option, const char *text, const char *origin);
bool comfort_is_path(const Option *option); // true for a FILE or a DIR

const char *comfort_guess(const Option *options, int step, const char *typed, size_t length);

/* Returns the name most like `typed` of the options listed in that step; NULL if none is near. */
const char *comfort_nearest(const Option *options, int step, const char *typed, size_t length);

void launchers_check(void);
int comfort_gpus_listed(void);
int comfort_core_quota(void);
void comfort_crowd(int num_ranks);
void comfort_print_commands(char **argv, char **program, const char *node_0, int num_nodes);
void comfort_print_completion(const char *shell, const Option *flags, int step);

void comfort_port_owner(int port, char *text, size_t bytes);

#endif
