/* env.h - the variables a launcher sets for a process. */
#ifndef COMMON_COMM_ENV_H
#define COMMON_COMM_ENV_H

/* The value of RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR or MASTER_PORT. If none of the five is
 * set, returns those of a single rank, and logs that. If only some are set, dies with a line that
 * names the missing ones and says how to start the program. Local. */
int env_int(const char *name);
const char *env_str(const char *name);

/* The value of any variable that must be set; dies if it is not. A number is at least 0. Local. */
int env_number(const char *name);
const char *env_text(const char *name);

#endif
