/*
 * peak - runs a command and reports on standard error its maximum memory: "peak: 4.7 MB".
 *
 *     peak COMMAND...
 *
 * It is so small because the kernel counts what a process had before it became another program.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    int status = 1;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child)
        return 1;
    fprintf(stderr, "peak: %.1f MB\n", usage.ru_maxrss * 1024 / 1e6);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
