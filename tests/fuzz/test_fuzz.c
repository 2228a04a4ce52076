/*
 * Replays the corpus of every fuzz target (tests/fuzz): none of these inputs crashes, hangs, or,
 * under AddressSanitizer, leaks. Finding new ones is make check-fuzz's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"

enum { MAX_INPUT = 1 << 20 };

static char last_words[128]; // if the input in progress is the last one ...
static int tell_fd; // ... and where to say so

/* Not by _exit, which would end that input only (world.h). */
static void on_end(int number)
{
    signal(number, SIG_DFL);
    while (write(tell_fd, last_words, strlen(last_words)) < 0 && errno == EINTR)
        continue;
    raise(number);
}

static int replay(const Target *target, const char *path)
{
    static uint8_t data[MAX_INPUT];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    snprintf(last_words, sizeof last_words, "%s: crash, hang or leak\n", path);
    alarm(120); // no input may take long
    world_run(target->run, target->may_keep, data, size);
    alarm(0);
    return 1;
}

/* Says nothing of what the code under test has to say. */
static void test_corpus(void **state)
{
    const Target *target = *state;
    char pattern[64];
    snprintf(pattern, sizeof pattern, "tests/fuzz/corpus/%s/*", target->name);
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);

    fflush(NULL);
    const int fds[] = { dup(STDOUT_FILENO), dup(STDERR_FILENO) };
    tell_fd = fds[1];
    const int nowhere = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 2; i++)
        dup2(nowhere, STDOUT_FILENO + i);
    size_t num_replayed = 0;
    for (size_t i = 0; i < found.gl_pathc; i++)
        num_replayed += replay(target, found.gl_pathv[i]);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(fds[i], STDOUT_FILENO + i);
        close(fds[i]);
    }
    close(nowhere);
    assert_int_equal(num_replayed, found.gl_pathc);
    globfree(&found);
}

int main(void)
{
    signal(SIGABRT, on_end);
    signal(SIGALRM, on_end);
    signal(SIGSEGV, on_end);
    struct CMUnitTest tests[32];
    for (int i = 0; i < num_targets; i++)
        tests[i] =
            (struct CMUnitTest){ targets[i].name, test_corpus, NULL, NULL, (void *)&targets[i] };
    return _cmocka_run_group_tests("corpus", tests, num_targets, NULL, NULL);
}
