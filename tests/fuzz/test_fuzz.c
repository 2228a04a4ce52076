/*
 * Runs every fuzz target on its corpus, of at most ten files, and on the hundreds of inputs that
 * seeds.py makes: none of them crashes, hangs, or, under AddressSanitizer, leaks. make check-fuzz
 * searches for new ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"
#include "tests/helpers/unit.h"

enum { INPUT_BYTES = 1 << 20 };
enum { MOST_KEPT = 10, LEAST_MADE = 100 }; // inputs for each target

static char made[256]; // the folder with the inputs of seeds.py
static char last_message[512]; // message if the input in progress ends the process ...
static int report_fd; // ... and the descriptor to write it to

/* Reports the input and raises the signal again; _exit would only end that input (world.h). */
static void on_end(int number)
{
    signal(number, SIG_DFL);
    while (write(report_fd, last_message, strlen(last_message)) < 0 && errno == EINTR)
        continue;
    raise(number);
}

static void replay(const Target *target, const char *path)
{
    static uint8_t data[INPUT_BYTES];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    snprintf(last_message, sizeof last_message, "%s: crash, hang or leak\n", path);
    alarm(120); // no input may take long
    world_run(target->run, target->may_keep, data, size);
    alarm(0);
}

/* Adds the files of FOLDER/NAME of the target; returns how many there are then. */
static size_t find_inputs(const Target *target, const char *folder, int flags, glob_t *found)
{
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%s/%s/*", folder, target->name);
    assert_int_equal(glob(pattern, flags, NULL, found), 0);
    return found->gl_pathc;
}

/* Discards the output of the code under test. */
static void test_corpus(void **state)
{
    const Target *target = *state;
    glob_t found;
    const size_t num_kept = find_inputs(target, "tests/fuzz/corpus", 0, &found);
    assert_in_range(num_kept, 1, MOST_KEPT);
    assert_true(find_inputs(target, made, GLOB_APPEND, &found) >= num_kept + LEAST_MADE);

    fflush(NULL);
    const int fds[] = { dup(STDOUT_FILENO), dup(STDERR_FILENO) };
    report_fd = fds[1];
    const int nowhere = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 2; i++)
        dup2(nowhere, STDOUT_FILENO + i);
    for (size_t i = 0; i < found.gl_pathc; i++)
        replay(target, found.gl_pathv[i]);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(fds[i], STDOUT_FILENO + i);
        close(fds[i]);
    }
    close(nowhere);
    globfree(&found);
}

/* Makes the inputs that are not kept in the repository, which are most of them. */
static int make_inputs(void **state)
{
    (void)state;
    char command[PATH_MAX];
    const char *temporary = getenv("TMPDIR");
    snprintf(made, sizeof made, "%s/fuzz_seeds_XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(made) == NULL)
        return -1;
    snprintf(command, sizeof command, "tests/fuzz/seeds.py %s", made);
    return system(command);
}

static int remove_inputs(void **state)
{
    (void)state;
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -r %s", made);
    return system(command);
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
    return _cmocka_run_group_tests("corpus", tests, num_targets, make_inputs, remove_inputs);
}
