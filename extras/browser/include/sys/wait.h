/* wasi-libc has no processes: extras/browser/browser.c has what the programs need of them. */
#include <sys/types.h>

#define WIFSIGNALED(status) 0
#define WTERMSIG(status) 0
#define WEXITSTATUS(status) (status)
#define wait(status) (*(status) = 0, -1)
pid_t fork(void);
