/* env.h - what a launcher tells a process through its environment. */
#ifndef COMMON_DIST_ENV_H
#define COMMON_DIST_ENV_H

/* The value of a variable that must be set. Dies where it is not, or is no whole number of at least
 * 0, with a line that says how to start the program instead. Local. */
int env_int(const char *name);
const char *env_str(const char *name);

#endif
