/* env.h - the variables a launcher sets for a process. */
#ifndef COMMON_COMM_ENV_H
#define COMMON_COMM_ENV_H

/* The value of a variable that must be set. Dies if it is not, or env_int finds no whole number >=
 * 0, with a line that says how to start the program. Local. */
int env_int(const char *name);
const char *env_str(const char *name);

#endif
