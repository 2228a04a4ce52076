/* Safetensors files where writing fails: the old file stays whole, and nothing else stays. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "tests/common/save/safetensors_files.h"

static int count_files(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2; // . and ..
}

/* Stands in for the C library's. Index 0 is for files, 1 for folders. */
static int num_flushed[2], flush_error[2]; // error 0: none
static bool has_name[2]; // is the file at its path, by then?

int fsync(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    const int is_folder = S_ISDIR(status.st_mode);
    num_flushed[is_folder]++;
    has_name[is_folder] = access(path, F_OK) == 0;
    errno = flush_error[is_folder];
    return errno == 0 ? 0 : -1;
}

static void assert_commit_fails(const Safetensors *file, const char *to, const char *reason)
{
    strcpy(error, "untouched");
    assert_false(safetensors_commit(file, to, error, sizeof error));
    if (strstr(error, reason) == NULL || strstr(error, to) == NULL)
        fail_msg("said \"%s\" instead of \"%s\"", error, reason);
}

static void test_commit_fails(void **state)
{
    (void)state;
    char to[PATH_MAX];
    Safetensors *file = make_small();
    commit(file);
    snprintf(to, sizeof to, "%s/missing/b", folder);
    assert_commit_fails(file, to, "No such file");
    snprintf(to, sizeof to, "%s/b", path);
    assert_commit_fails(file, to, "Not a directory");
    snprintf(to, sizeof to, "%s/%0300d", folder, 0);
    assert_commit_fails(file, to, "too long");
    snprintf(to, sizeof to, "%s/d", folder);
    assert_int_equal(mkdir(to, 0777), 0);
    assert_commit_fails(file, to, "directory");
    rmdir(to);
    assert_int_equal(count_files(), 1);
    safetensors_free(file);
    unlink(path);
}

/* The file is flushed before it has its name, and the folder with the name thereafter: only then is
 * there one of the two files whenever the machine stops. */
static void test_flushed(void **state)
{
    (void)state;
    Safetensors *file = make_small();
    memset(num_flushed, 0, sizeof num_flushed);
    commit(file);
    assert_true(num_flushed[0] == 1 && !has_name[0]);
    assert_true(num_flushed[1] == 1 && has_name[1]);
    unlink(path);
    flush_error[0] = EIO;
    assert_commit_fails(file, path, "Input/output error");
    assert_int_equal(count_files(), 0);
    flush_error[0] = 0;
    flush_error[1] = EINVAL; // some file systems flush no folders
    commit(file);
    flush_error[1] = EIO;
    assert_commit_fails(file, path, "Input/output error");
    flush_error[1] = 0;
    safetensors_free(file);
    unlink(path);
}

/* More bytes than the limits below allow to write; value is 1 or 2. */
static Safetensors *make_large(int value)
{
    static float weight[3][1 << 16];
    Safetensors *file = safetensors_create();
    weight[value][0] = (float)value;
    safetensors_add(file, "w", FLOAT32, 1, (size_t[]){ 1 << 16 }, weight[value]);
    return file;
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static float first_weight(void)
{
    float value = 0;
    Safetensors *file = open_file(path);
    memcpy(&value, safetensors_find(file, "w")->data, sizeof value);
    safetensors_free(file);
    return value;
}

/* A disk that fills up in the middle: the old file stays, and nothing else. */
static void test_disk_full(void **state)
{
    (void)state;
    Safetensors *old = make_large(1), *new = make_large(2);
    commit(old);
    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(100000);
    const bool ok = safetensors_commit(new, path, error, sizeof error);
    limit_file_size(RLIM_INFINITY);
    signal(SIGXFSZ, SIG_DFL);
    assert_false(ok);
    assert_non_null(strstr(error, "File too large"));
    assert_int_equal(count_files(), 1);
    assert_true(first_weight() == 1);

    commit(new);
    assert_true(first_weight() == 2);
    safetensors_free(old);
    safetensors_free(new);
    unlink(path);
}

/* A process that dies in the middle of writing: the limit's signal kills it after 100,000 bytes. */
static void test_killed(void **state)
{
    (void)state;
    Safetensors *old = make_large(1), *new = make_large(2);
    commit(old);
    const pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        limit_file_size(100000);
        safetensors_commit(new, path, error, sizeof error);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);

    char aside[PATH_MAX];
    snprintf(aside, sizeof aside, "%s.%d.tmp", path, (int)pid);
    assert_int_equal(access(aside, F_OK), 0);
    assert_true(first_weight() == 1);

    // What is left disturbs nobody, not even a process that happens to get the same id.
    char own[PATH_MAX];
    snprintf(own, sizeof own, "%s.%d.tmp", path, (int)getpid());
    assert_int_equal(rename(aside, own), 0);
    commit(new);
    assert_true(first_weight() == 2);
    assert_int_equal(count_files(), 1);
    safetensors_free(old);
    safetensors_free(new);
    unlink(path);
}

/* Somebody who may write to the folder puts a link where the temporary file will be: what it leads
 * to is not touched, and the file is written. */
static void test_prepared_link(void **state)
{
    (void)state;
    char victim[PATH_MAX], aside[PATH_MAX], text[8] = "";
    snprintf(victim, sizeof victim, "%s/victim", folder);
    snprintf(aside, sizeof aside, "%s.%d.tmp", path, (int)getpid());
    FILE *file = fopen(victim, "w");
    fputs("keep", file);
    fclose(file);
    Safetensors *new = make_large(2);
    const char *const targets[] = { victim, "missing" };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(symlink(targets[i], aside), 0);
        commit(new);
        assert_true(first_weight() == 2);
        assert_int_equal(count_files(), 2);
    }
    assert_int_equal(link(victim, aside), 0); // nor what has a second name
    commit(new);
    file = fopen(victim, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "keep");
    safetensors_free(new);
    unlink(victim);
    unlink(path);
}

/* What cannot be removed is named: a folder, and the file of a writer that is still at work. */
static void test_name_is_taken(void **state)
{
    (void)state;
    char aside[PATH_MAX];
    snprintf(aside, sizeof aside, "%s.%d.tmp", path, (int)getpid());
    Safetensors *file = make_small();
    assert_int_equal(mkdir(aside, 0777), 0);
    assert_commit_fails(file, path, ".tmp, which is in the way");
    assert_int_equal(rmdir(aside), 0);

    const int fd = open(aside, O_WRONLY | O_CREAT, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_commit_fails(file, path, ".tmp, which is in the way");
    assert_int_equal(access(aside, F_OK), 0);
    close(fd);
    commit(file);
    assert_int_equal(count_files(), 1);
    safetensors_free(file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit_fails),  cmocka_unit_test(test_flushed),
        cmocka_unit_test(test_disk_full),     cmocka_unit_test(test_killed),
        cmocka_unit_test(test_prepared_link), cmocka_unit_test(test_name_is_taken),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
