/* Safetensors files when writing fails: the old file stays whole, and no other file is left. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
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

/* Removes files that commits have left. Returns their number. */
static int remove_asides(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count +=
            strstr(entry->d_name, ".tmp") != NULL && unlinkat(dirfd(dir), entry->d_name, 0) == 0;
    closedir(dir);
    return count;
}

/* Replace the C library's fsync. Index 0 is for files, 1 for folders. */
static int num_flushed[2], flush_error[2]; // flush_error: 0 for success
static bool has_name[2]; // true if the file was at its path by then
static int sweeps_left; // times that the temporary file is removed before it is flushed

int fsync(int fd)
{
    struct stat status, own;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(stat(folder, &own), 0);
    const int is_folder = S_ISDIR(status.st_mode);
    assert_true(!is_folder || status.st_ino == own.st_ino);
    num_flushed[is_folder]++;
    has_name[is_folder] = access(path, F_OK) == 0;
    if (!is_folder && sweeps_left > 0)
        sweeps_left -= remove_asides();
    errno = flush_error[is_folder];
    return errno == 0 ? 0 : -1;
}

/* Replaces the C library's, so that the number in a temporary file's name is known. */
static uint64_t next_number;

ssize_t getrandom(void *bytes, size_t count, unsigned flags)
{
    next_number += 7;
    assert_int_equal(flags, 0); // it may wait, after the machine's start
    assert_int_equal(count, sizeof next_number);
    memcpy(bytes, &next_number, sizeof next_number);
    return (ssize_t)count;
}

static void assert_commit_fails(Safetensors *file, const char *to, const char *reason)
{
    strcpy(file->error, "untouched");
    strcpy(file->path, to);
    assert_false(safetensors_commit(file));
    if (strstr(file->error, reason) == NULL || strstr(file->error, to) == NULL)
        fail_msg("said \"%s\" instead of \"%s\"", file->error, reason);
}

static void test_commit_fails(void **state)
{
    (void)state;
    char to[PATH_MAX];
    Safetensors file = make_small();
    commit(&file);
    snprintf(to, sizeof to, "%s/missing/b", folder);
    assert_commit_fails(&file, to, "No such file");
    snprintf(to, sizeof to, "%s/b", path);
    assert_commit_fails(&file, to, "Not a directory");
    snprintf(to, sizeof to, "%s/%0300d", folder, 0);
    assert_commit_fails(&file, to, "too long");
    snprintf(to, sizeof to, "%s/d", folder);
    assert_int_equal(mkdir(to, 0777), 0);
    assert_commit_fails(&file, to, "directory");
    rmdir(to);
    assert_int_equal(count_files(), 1);
    safetensors_free(&file);
    unlink(path);
}

/* The file is flushed before it is renamed, and the folder afterwards: only then does one of the
 * two files exist whenever the machine stops. */
static void test_flushed(void **state)
{
    (void)state;
    Safetensors file = make_small();
    memset(num_flushed, 0, sizeof num_flushed);
    commit(&file);
    assert_true(num_flushed[0] == 1 && !has_name[0]);
    assert_true(num_flushed[1] == 1 && has_name[1]);
    unlink(path);
    flush_error[0] = EIO;
    assert_commit_fails(&file, path, "Input/output error");
    assert_int_equal(count_files(), 0);
    flush_error[0] = 0;
    flush_error[1] = EINVAL; // because some file systems cannot flush folders
    commit(&file);
    flush_error[1] = EIO;
    assert_commit_fails(&file, path, "Input/output error");
    flush_error[1] = 0;
    safetensors_free(&file);
    unlink(path);
}

/* Returns more bytes than the limits below allow to write; value is 1 or 2. */
static Safetensors make_large(int value)
{
    static float weight[3][1 << 16];
    Safetensors file;
    safetensors_create(&file, path);
    weight[value][0] = (float)value;
    safetensors_add(&file, "w", FLOAT32, 1, (size_t[]){ 1 << 16 }, weight[value]);
    return file;
}

static float first_weight(void)
{
    float value = 0;
    Safetensors file = open_file(path);
    memcpy(&value, safetensors_find(&file, "w")->data, sizeof value);
    safetensors_free(&file);
    return value;
}

/* A disk fills up in the middle: only the old file stays. */
static void test_disk_full(void **state)
{
    (void)state;
    Safetensors old = make_large(1), new = make_large(2);
    commit(&old);
    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(100000);
    const bool ok = safetensors_commit(&new);
    limit_file_size(RLIM_INFINITY);
    signal(SIGXFSZ, SIG_DFL);
    assert_false(ok);
    assert_non_null(strstr(new.error, "File too large"));
    assert_int_equal(count_files(), 1);
    assert_true(first_weight() == 1);

    commit(&new);
    assert_true(first_weight() == 2);
    safetensors_free(&old);
    safetensors_free(&new);
    unlink(path);
}

/* A process dies in the middle of writing: the limit's signal kills it after 100,000 bytes. */
static void test_killed(void **state)
{
    (void)state;
    Safetensors old = make_large(1), new = make_large(2);
    commit(&old);
    const pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        limit_file_size(100000);
        safetensors_commit(&new);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);

    assert_true(first_weight() == 1);

    // The temporary file that is left does no harm.
    assert_int_equal(count_files(), 2);
    next_number++;
    commit(&new);
    assert_true(first_weight() == 2);
    assert_int_equal(remove_asides(), 1);
    assert_int_equal(count_files(), 1);
    safetensors_free(&old);
    safetensors_free(&new);
    unlink(path);
}

static void name_aside(char aside[PATH_MAX], uint64_t number)
{
    snprintf(aside, PATH_MAX, "%s.%llu.tmp", path, (unsigned long long)number);
}

/* A user who may write to the folder guesses the temporary file's name and puts a link there: its
 * target is not changed. The next commit uses another name. */
static void test_prepared_link(void **state)
{
    (void)state;
    char victim[PATH_MAX], aside[PATH_MAX], text[8] = "";
    snprintf(victim, sizeof victim, "%s/victim", folder);
    FILE *file = fopen(victim, "w");
    fputs("keep", file);
    fclose(file);
    Safetensors new = make_large(2);
    const char *const targets[] = { victim, "missing", NULL };
    for (int i = 0; i < 3; i++) {
        name_aside(aside, next_number + 7);
        assert_int_equal(targets[i] == NULL ? link(victim, aside) : symlink(targets[i], aside), 0);
        assert_commit_fails(&new, path, "File exists");
        assert_int_equal(count_files(), 2);
        unlink(aside);
    }
    commit(&new);
    assert_true(first_weight() == 2);
    file = fopen(victim, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "keep");
    safetensors_free(&new);
    unlink(victim);
    unlink(path);
}

/* A starting run removes the temporary file while it is written: it is written again, but not
 * forever, and the folder has one file. */
static void test_swept(void **state)
{
    (void)state;
    Safetensors file = make_small();
    for (int sweeps = 1; sweeps <= 2; sweeps++) {
        sweeps_left = sweeps;
        if (sweeps == 1)
            commit(&file);
        else
            assert_commit_fails(&file, path, "No such file");
        assert_int_equal(sweeps_left, 0);
        assert_int_equal(count_files(), 1);
    }

    memset(file.path, '/', PATH_MAX - 1); // as long as leaves room for the number
    memcpy(file.path, folder, strlen(folder));
    strcpy(file.path + PATH_MAX - sizeof "a.safetensors.123.tmp", "a.safetensors");
    next_number = 93;
    sweeps_left = 1;
    commit(&file);
    assert_int_equal(sweeps_left, 0);
    assert_int_equal(count_files(), 1);
    safetensors_free(&file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit_fails),  cmocka_unit_test(test_flushed),
        cmocka_unit_test(test_disk_full),     cmocka_unit_test(test_killed),
        cmocka_unit_test(test_prepared_link), cmocka_unit_test(test_swept),
    };
    return cmocka_run_group_tests(tests, make_file_folder, remove_empty_folder);
}
