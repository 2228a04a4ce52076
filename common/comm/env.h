/* env.h - the variables a launcher sets for a process. */
#ifndef COMMON_COMM_ENV_H
#define COMMON_COMM_ENV_H

/* Return the value of RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR or MASTER_PORT. If none of the five
 * is set, return that of a single rank, and log that. If only some are set, die with a line that
 * names the missing ones and explains how to start the program. Local. */
int env_int(const char *name);
const char *env_str(const char *name);

/* Return the value of any variable; die if it is not set. A number is at least 0. Local. */
int env_number(const char *name);
const char *env_text(const char *name);

#endif
