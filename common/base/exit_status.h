/* exit_status.h - why a rank ended; 0 and 1 have their usual meanings. */
#ifndef COMMON_BASE_EXIT_STATUS_H
#define COMMON_BASE_EXIT_STATUS_H

#define EXIT_USAGE 2 // a rank cannot make sense of its command line
#define EXIT_STOPPED 75 // a rank has stopped on request: start it again

#endif
