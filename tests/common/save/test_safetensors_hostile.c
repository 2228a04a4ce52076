/*
 * Invalid safetensors files. Each must be refused with one line that names the reason; under
 * AddressSanitizer this also shows that none makes the reader access memory out of bounds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/common/save/safetensors_files.h"

static void assert_refused(const char *reason)
{
    Safetensors file;
    if (safetensors_open(&file, path, WITH_DATA))
        fail_msg("accepted, though it should say: %s", reason);
    if (strstr(file.error, reason) == NULL || strstr(file.error, path) == NULL)
        fail_msg("said \"%s\" instead of \"%s\"", file.error, reason);
    assert_null(strchr(file.error, '\n'));
    safetensors_free(&file);
}

/* Each comes with 8 bytes of data; ' stands for ". */
static const struct {
    const char *header, *reason;
} hostile[] = {
    { "", "does not begin with {" },
    { " {}", "does not begin with {" },
    { "[]", "does not begin with {" },
    { "{", "header is not valid" },
    { "{'a':1}{", "header is not valid" },
    { "{'a':'\xff'}", "header is not valid" },
    { "{'a':'\\u0000'}", "header is not valid" },
    { "{}", "has 8 bytes of data, its tensors take 0" },
    { "{'a':null}", "tensor \"a\"" },
    { "{'a':{'dtype':'F32','shape':[2]}}", "data_offsets" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[0]}}", "tensor \"a\"" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8,8]}}", "tensor \"a\"" },
    { "{'a':{'dtype':'F32','shape':2,'data_offsets':[0,8]}}", "shape is not valid" },
    { "{'a':{'dtype':32,'shape':[2],'data_offsets':[0,8]}}", "tensor \"a\"" },
    { "{'a':{'dtype':'F32','shape':[2.0],'data_offsets':[0,8]}}", "shape is not valid" },
    { "{'a':{'dtype':'F32','shape':[-2],'data_offsets':[0,8]}}", "shape is not valid" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8.0]}}", "tensor \"a\"" },
    { "{'new\\nline':{'dtype':'F\\n','shape':4,'data_offsets':[0,8]}}", "tensor \"new?line\"" },
    // Types that no model here needs: their sizes are checked, too.
    { "{'a':{'dtype':'F16','shape':[3],'data_offsets':[0,8]}}", "a shape of 6 bytes" },
    { "{'a':{'dtype':'BOOL','shape':[9],'data_offsets':[0,8]}}", "a shape of 9 bytes" },
    { "{'a':{'dtype':'C64','shape':[2],'data_offsets':[0,8]}}", "a shape of 16 bytes" },
    { "{'a':{'dtype':'U1','shape':[8],'data_offsets':[0,8]}}", "a shape of 1 bytes" },
    { "{'a':{'dtype':'F4','shape':[15],'data_offsets':[0,8]}}", "a shape of 7.5 bytes" },
    { "{'a':{'dtype':'I16','shape':[-4],'data_offsets':[0,8]}}", "shape is not valid" },
    { "{'a':{'dtype':'F99999999999999999999','shape':[4],'data_offsets':[0,8]}}",
      "shape is not valid" },
    { "{'a':{'dtype':'F32','shape':[3],'data_offsets':[0,8]}}",
      "a shape of 12 bytes and is at 0 to 8, of 8 bytes" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,4]},"
      "'b':{'dtype':'U8','shape':[4],'data_offsets':[4,8]}}",
      "a shape of 8 bytes and is at 0 to 4" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[8,0]}}", "is at 8 to 0" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[-8,0]}}", "is at -8 to 0" },
    { "{'a':{'dtype':'F32','shape':[2],'data_offsets':[8,16]}}", "is at 8 to 16, of 8 bytes" },
    { "{'a':{'dtype':'F32','shape':[17179869184],'data_offsets':[0,68719476736]}}",
      "is at 0 to 68719476736" },
    { "{'a':{'dtype':'F32','shape':[4294967296,4294967296],'data_offsets':[0,0]}}",
      "shape is not valid" },
    { "{'a':{'dtype':'U8','shape':[9223372036854775807,3,0],'data_offsets':[0,0]}}",
      "shape is not valid" },
    { "{'a':{'dtype':'U8','shape':[9223372036854775808],'data_offsets':[0,8]}}",
      "header is not valid" },
    { "{'a':{'dtype':'U8','shape':[9223372036854775807],'data_offsets':[0,9223372036854775807]}}",
      "shape is not valid" },
    // Backwards: in 64 bits the two would take 8 bytes together.
    { "{'b':{'dtype':'NEW','shape':[2305843009213693951],'data_offsets':[16,8]},"
      "'a':{'dtype':'U8','shape':[16],'data_offsets':[0,16]}}",
      "is at 16 to 8" },
    { "{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}",
      "8 bytes of data, its tensors take 4" },
    { "{'a':{'dtype':'F32','shape':[1],'data_offsets':[4,8]}}",
      "8 bytes of data, its tensors take 4" },
    { "{'a':{'dtype':'U8','shape':[5],'data_offsets':[0,5]},"
      "'b':{'dtype':'U8','shape':[4],'data_offsets':[4,8]}}",
      "8 bytes of data, its tensors take 9" },
    { "{'a':{'dtype':'U8','shape':[3],'data_offsets':[0,3]},"
      "'b':{'dtype':'U8','shape':[4],'data_offsets':[4,8]}}",
      "8 bytes of data, its tensors take 7" },
    { "{'a':{'dtype':'F64','shape':[],'data_offsets':[0,8]},"
      "'b':{'dtype':'F64','shape':[],'data_offsets':[0,8]}}",
      "8 bytes of data, its tensors take 16" },
    { "{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},"
      "'a':{'dtype':'U8','shape':[4],'data_offsets':[4,8]}}",
      "duplicate" },
    { "{'__metadata__':{'a':'1','a':'2'}}", "duplicate" },
    { "{'__metadata__':{'a':1}}", "has 8 bytes of data, its tensors take 0" },
    { "{'__metadata__':[]}", "has 8 bytes of data, its tensors take 0" },
    { "{'a':{'dtype':'U8','shape':[1,1,1,1,1,1,1,1,9],'data_offsets':[0,8]}}",
      "a shape of 9 bytes" },
};

static void test_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        put_header(hostile[i].header, 8);
        assert_refused(hostile[i].reason);
    }

    char deep[200000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{'a':", 5);
    deep[sizeof deep - 1] = '\0';
    put_header(deep, 8);
    assert_refused("maximum parsing depth");
    unlink(path);
}

static void test_lengths(void **state)
{
    (void)state;
    const uint64_t lengths[] = { 9, 1 << 20, 1ull << 32, 1ull << 63, UINT64_MAX - 7, UINT64_MAX };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t bytes[16] = { [8] = '{', [9] = '}' };
        memcpy(bytes, &lengths[i], 8);
        file_put(path, bytes, sizeof bytes);
        assert_refused("claims a header of");
    }

    for (size_t size = 0; size <= 8; size++) {
        file_put(path, (uint8_t[8]){ 0 }, size);
        assert_refused(size < 8 ? "is no safetensors file: it has only" : "begin with {");
    }

    const uint64_t too_long = 100000001; // more than the format allows, in a file of that length
    file_put(path, &too_long, sizeof too_long);
    assert_int_equal(truncate(path, 1 << 28), 0);
    assert_refused("100000001 bytes, the file has 268435456, and the format allows 100000000");
    unlink(path);
}

/* Replaces the C library's: fails once, after so many reads; with 0 because another process has cut
 * the file. */
static int reads_left = -1, read_error;

ssize_t read(int fd, void *buffer, size_t bytes)
{
    ssize_t (*real)(int, void *, size_t) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "read");
    if (reads_left < 0 || reads_left-- > 0)
        return real(fd, buffer, bytes);
    errno = read_error;
    return read_error == 0 ? 0 : -1;
}

static void test_read_fails(void **state)
{
    (void)state;
    put_header("{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}", 4);
    for (int reads = 0; reads < 3; reads++) // of the length, the header, the data
        for (int i = 0; i < 2; i++) {
            reads_left = reads;
            read_error = i == 0 ? 0 : EIO;
            assert_refused(i == 0 ? "cannot read: it became shorter"
                                  : "cannot read: Input/output error");
        }
    open_and_free(path);
    unlink(path);
}

/* Replaces the C library's: a file of so many bytes, larger than some file systems allow. */
static off_t pretended;

int fstat(int fd, struct stat *status)
{
    const int result = fstatat(fd, "", status, AT_EMPTY_PATH);
    status->st_size = pretended > 0 ? pretended : status->st_size;
    return result;
}

/* Five tensors share the same bytes, and take as many together, in 64 bits. */
static void test_total_wraps(void **state)
{
    (void)state;
    char header[1024] = "{", *end = header + 1;
    for (int i = 0; i < 5; i++)
        end += sprintf(end, "%s'%d':{'dtype':'NEW','shape':[],'data_offsets':[0,%lld]}",
                       i > 0 ? "," : "", i, 1ll << 62);
    strcpy(end, "}");
    put_header(header, 0);
    Safetensors file;
    pretended = (1ll << 62) + 8 + (off_t)strlen(header);
    assert_false(safetensors_open(&file, path, HEADER_ONLY));
    pretended = 0;
    assert_non_null(strstr(file.error, "bytes of data, its tensors take 9223372036854775808"));
    safetensors_free(&file);
    unlink(path);
}

/* Replaces the C library's, to simulate a machine with this much memory (NULL for this machine). */
static const char *memory_left;

FILE *fopen(const char *name, const char *mode)
{
    FILE *(*real)(const char *, const char *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    if (memory_left == NULL || strcmp(name, "/proc/meminfo") != 0)
        return real(name, mode);
    return fmemopen((char *)memory_left, strlen(memory_left), "r");
}

/* A header of 3 MiB, mostly spaces, is read; the longest that the format allows, too, but not with
 * too little memory to parse it. */
static void test_long_headers(void **state)
{
    (void)state;
    enum { LONG = 3 << 20 };
    static char header[LONG + 1];
    memset(header, ' ', LONG);
    static const char object[] = "{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}";
    memcpy(header, object, sizeof object - 1);
    put_header(header, 8);
    open_and_free(path);
    const uint64_t longest = 100000000;
    file_put(path, &longest, sizeof longest);
    assert_int_equal(truncate(path, 1 << 28), 0);
    memory_left = "MemTotal: 32000000 kB\nMemAvailable: 20000000 kB\nSwapFree: 0 kB\n";
    assert_refused("does not begin with {");
    memory_left = "MemTotal: 32000000 kB\nMemAvailable: 5000000 kB\nSwapFree: 0 kB\n";
    assert_refused("header of 100000000 bytes may take 8000000000 as JSON, and this machine has");
    memory_left = NULL;
    unlink(path);
}

/* A sparse file larger than the memory is refused, because the kernel would kill its reader. With
 * little memory left, a small file is still read. */
static void test_little_memory(void **state)
{
    (void)state;
    static const char large[] =
        "{'a':{'dtype':'U8','shape':[120000000],'data_offsets':[0,120000000]}}";
    put_header(large, 0);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(large)) + 120000000), 0);
    memory_left = "MemTotal: 1600000 kB\nMemAvailable: 200000 kB\nSwapFree: 10000 kB\n";
    Safetensors file;
    assert_true(safetensors_open(&file, path, HEADER_ONLY));
    safetensors_free(&file);
    assert_refused("bytes, and this machine has 112640000 to give"); // a sixteenth is reserved
    put_header("{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}", 4);
    memory_left = "MemTotal: 1600000 kB\nMemAvailable: 1 kB\nSwapFree: 0 kB\n";
    open_and_free(path);
    memory_left = NULL;
    unlink(path);
}

static void test_no_file(void **state)
{
    (void)state;
    assert_refused("No such file");
    assert_int_equal(mkdir(path, 0777), 0);
    assert_refused("no regular file");
    rmdir(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    alarm(120); // opening a pipe without a writer must not wait
    assert_refused("no regular file");
    alarm(0);
    unlink(path);
    Safetensors file;
    assert_false(safetensors_open(&file, "/dev/zero", WITH_DATA));
    safetensors_free(&file);
}

static void change_byte(size_t at, uint8_t byte)
{
    const int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* Files cut anywhere are refused. With any bit flipped they are refused, or read in full with
 * another checksum, unless the checksum does not cover the bit (a dtype, a shape, metadata). */
static void test_damage(void **state)
{
    (void)state;
    uint8_t bytes[512];
    Safetensors file = make_small();
    commit(&file);
    const uint32_t checksum = safetensors_checksum(&file, false);
    safetensors_free(&file);
    const size_t size = file_get(path, bytes, sizeof bytes);
    const size_t data = size - 20;

    for (size_t bit = 0; bit < 8 * size; bit++) {
        const uint8_t flipped = (uint8_t)(bytes[bit / 8] ^ 1 << bit % 8);
        change_byte(bit / 8, flipped);
        const bool is_read = safetensors_open(&file, path, WITH_DATA);
        if (bit / 8 < 8 || bit / 8 >= data)
            assert_int_equal(is_read, bit / 8 >= data);
        if (is_read) {
            const bool same = safetensors_checksum(&file, false) == checksum;
            assert_true(!same || bit / 8 < data);
        }
        safetensors_free(&file);
        change_byte(bit / 8, bytes[bit / 8]);
    }
    for (size_t left = size; left-- > 0;) {
        assert_int_equal(truncate(path, (off_t)left), 0);
        assert_refused(path);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),       cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_read_fails),    cmocka_unit_test(test_long_headers),
        cmocka_unit_test(test_little_memory), cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_damage),        cmocka_unit_test(test_total_wraps),
    };
    return cmocka_run_group_tests(tests, make_file_folder, remove_empty_folder);
}
