/* A worker ends with its page. */
#define PR_SET_PDEATHSIG 1
#define prctl(option, signal) ((void)(signal))
