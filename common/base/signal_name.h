/* signal_name.h - what a signal is called. */
#ifndef COMMON_BASE_SIGNAL_NAME_H
#define COMMON_BASE_SIGNAL_NAME_H

/* "SIGTERM"; of those without a name "signal 35", valid until the next call. */
const char *signal_name(int signal);

#endif
