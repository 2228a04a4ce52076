/* For declarations alone: a worker has one thread. */
#include <sys/types.h>
