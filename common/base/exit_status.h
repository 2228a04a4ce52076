/* exit_status.h - how a rank says why it ended; 0 and 1 are as everywhere. */
#ifndef COMMON_BASE_EXIT_STATUS_H
#define COMMON_BASE_EXIT_STATUS_H

#define EXIT_USAGE 2 // a rank cannot make sense of its command line
#define EXIT_STOPPED 75 // a rank has stopped because it was asked to: start me again

#endif
