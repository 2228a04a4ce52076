# For tools/break.sh 05: a disk that takes 8 seconds for a file, 4 for the bytes and 4 for the name.
/^\/\* One step of gradient descent/i\
/* Stands in for that of the C library. */\
int fsync(int fd)\
{\
    (void)fd;\
    sleep(4);\
    return 0;\
}\

s|^#include "05_fault_tolerance/diagnostics.h"|#include <unistd.h>\
\
&|
