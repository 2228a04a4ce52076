/* Reading and writing safetensors files: exact bytes, round trips, a file of the Python package. */
#include <sys/syscall.h>

#include "common/base/log.h"
#include "tests/common/save/safetensors_files.h"
#include "tests/helpers/child.h"
#include "tests/helpers/leaves.h"

/* Computed by hand from the format's description. The larger elements come first. */
static void test_exact_bytes(void **state)
{
    (void)state;
    const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                          "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                          "\"w\":{\"dtype\":\"F32\",\"shape\":[1,3],\"data_offsets\":[8,20]}} ";
    const uint8_t step[] = { 7, 0, 0, 0, 0, 0, 0, 0 };
    const uint8_t w[] = { 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf, 0, 0, 0, 0x3f }; // 1, -1, 0.5
    const size_t header_bytes = sizeof header - 1;
    assert_int_equal(header_bytes % 8, 0);

    Safetensors file = make_small();
    commit(&file);
    safetensors_free(&file);
    uint8_t bytes[512];
    const uint8_t length[8] = { (uint8_t)header_bytes };
    assert_int_equal(file_get(path, bytes, sizeof bytes),
                     8 + header_bytes + sizeof step + sizeof w);
    assert_memory_equal(bytes, length, 8);
    assert_memory_equal(bytes + 8, header, header_bytes);
    assert_memory_equal(bytes + 8 + header_bytes, step, sizeof step);
    assert_memory_equal(bytes + 16 + header_bytes, w, sizeof w);
    unlink(path);
}

static bool is_hasty; // reads are interrupted, and short

/* In place of libc's. */
ssize_t read(int fd, void *bytes, size_t count)
{
    static unsigned calls;
    if (is_hasty && ++calls % 3 == 0)
        return errno = EINTR, -1;
    return syscall(SYS_read, fd, bytes, is_hasty && count > 1 ? count / 2 : count);
}

static void test_short_reads(void **state)
{
    (void)state;
    Safetensors file = make_small();
    commit(&file);
    is_hasty = true;
    Safetensors again = open_file(path);
    is_hasty = false;
    for (int i = 0; i < 2; i++)
        assert_memory_equal(again.tensor[i].data, file.tensor[i].data, file.tensor[i].bytes);
    safetensors_free(&again);
    safetensors_free(&file);
    unlink(path);
}

/* Writes a file and reads it when there is memory for so many blocks. */
static void write_and_read(const void *blocks)
{
    blocks_left = *(const int *)blocks;
    Safetensors file = make_small(), again;
    safetensors_metadata_checksum(&file, "none");
    CHECK(safetensors_commit(&file), "%s", file.error);
    CHECK(safetensors_open(&again, path, WITH_DATA), "%s", again.error);
    blocks_left = LONG_MAX;
    safetensors_free(&again);
    safetensors_free(&file);
}

static void test_no_memory(void **state)
{
    (void)state;
    needs_own_malloc();
    assert_dies_saying(write_and_read, &(int){ 0 }, 1, "fatal: out of memory\n");
    assert_dies_until_enough(write_and_read, "fatal: ");
    unlink(path);
}

static const char *const names[] = {
    "conv1.weight", "", "a \"quoted\" \\ name", "line\nbreak\ttab\x01", "Größe ∑",
};
static const struct {
    int ndim;
    size_t shape[5], numel;
} shapes[] = { { 0, { 0 }, 1 },
               { 1, { 5 }, 5 },
               { 2, { 3, 0 }, 0 },
               { 1, { 0 }, 0 },
               { 5, { 1, 2, 3, 1, 2 }, 12 } };

enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

static void test_round_trip(void **state)
{
    (void)state;
    uint8_t data[12 * 8 + NUM_DTYPES];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(37 * i + 11);

    static const DType types[] = { FLOAT64, INT64, FLOAT32, INT32, BFLOAT16, UINT8 };
    Safetensors file;
    safetensors_create(&file, path);
    char name[64];
    for (int t = 0; t < NUM_DTYPES; t++)
        for (int i = 0; i < NUM_SHAPES; i++) {
            const int type = types[t];
            snprintf(name, sizeof name, "%s/%d/%d", names[(type + i) % 5], type, i);
            safetensors_add(&file, name, types[t], shapes[i].ndim, shapes[i].shape, data + type);
        }
    for (int i = 0; i < 5; i++)
        safetensors_add_metadata(&file, names[i], "%s", names[4 - i]);
    commit(&file);
    const uint32_t checksum = safetensors_checksum(&file, false);
    safetensors_free(&file);

    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    file = open_file(path);
    assert_int_equal(dup(STDERR_FILENO), lowest); // the file is closed again
    close(lowest);
    assert_int_equal(file.num_tensors, NUM_DTYPES * NUM_SHAPES);
    assert_int_equal(safetensors_checksum(&file, false), checksum);
    for (int t = 0; t < NUM_DTYPES; t++)
        for (int i = 0; i < NUM_SHAPES; i++) {
            snprintf(name, sizeof name, "%s/%d/%d", names[(t + i) % 5], t, i);
            const StoredTensor *found = safetensors_find(&file, name);
            assert_non_null(found);
            assert_true(found->bytes == 0 || (uintptr_t)found->data % dtype_size(found->type) == 0);
            assert_int_equal(found->type, t);
            assert_int_equal(found->ndim, shapes[i].ndim);
            for (int d = 0; d < found->ndim; d++)
                assert_int_equal(found->shape[d], shapes[i].shape[d]);
            assert_int_equal(found->bytes, shapes[i].numel * dtype_size(found->type));
            assert_memory_equal(found->data, data + t, found->bytes);
        }
    for (int i = 0; i < 5; i++) {
        assert_string_equal(safetensors_metadata_key(&file, i), names[i]);
        assert_string_equal(safetensors_metadata(&file, names[i]), names[4 - i]);
    }
    assert_null(safetensors_metadata_key(&file, 5));
    assert_null(safetensors_metadata(&file, "not there"));
    safetensors_free(&file);
    unlink(path);
}

/* Written by the Python package: no metadata, bias before weight, data from byte 128 on. */
static void test_python_file(void **state)
{
    (void)state;
    const char *golden = "tests/golden/losses/linear_sgd_w1.safetensors";
    uint8_t bytes[512];
    assert_int_equal(file_get(golden, bytes, sizeof bytes), 212);
    Safetensors file = open_file(golden);

    assert_int_equal(file.num_tensors, 2);
    assert_string_equal(file.tensor[0].name, "bias");
    assert_string_equal(file.tensor[1].name, "weight");
    assert_memory_equal(safetensors_find(&file, "bias")->data, bytes + 128, 4);
    const StoredTensor *weight = safetensors_find(&file, "weight");
    assert_memory_equal(weight->data, bytes + 132, 80);
    assert_int_equal(weight->type, FLOAT32);
    assert_int_equal(weight->ndim, 2);
    assert_int_equal(weight->shape[0], 1);
    assert_int_equal(weight->shape[1], 20);
    assert_null(safetensors_find(&file, "weights"));
    assert_null(safetensors_metadata(&file, "format"));
    safetensors_free(&file);
}

/* Any order, empty tensors in between, spaces inside, and unknown members are valid. */
static void test_unusual_but_valid(void **state)
{
    (void)state;
    put_header("{}", 0);
    open_and_free(path);

    put_header("{ 'a' : {'more':null, 'dtype':'F64', 'shape':[], 'data_offsets':[0, 8]}\n} \n", 8);
    open_and_free(path);

    put_header("{'b':{'dtype':'U8','shape':[4],'data_offsets':[4,8]},"
               "'e':{'dtype':'F64','shape':[0],'data_offsets':[4,4]},"
               "'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}",
               8);
    Safetensors file = open_file(path);
    assert_ptr_equal(safetensors_find(&file, "a")->data, file.data);
    assert_ptr_equal(safetensors_find(&file, "b")->data, file.data + 4);
    assert_int_equal(safetensors_find(&file, "e")->bytes, 0);
    safetensors_free(&file);
    unlink(path);
}

/* Other writers use odd offsets, and types and dimensions that no model here needs, which are
 * skipped. F4 takes half a byte for each element. */
static void test_of_other_writers(void **state)
{
    (void)state;
    put_header("{'mask':{'dtype':'BOOL','shape':[1],'data_offsets':[0,1]},"
               "'w':{'dtype':'F32','shape':[1],'data_offsets':[1,5]},"
               "'q':{'dtype':'F4','shape':[2,3],'data_offsets':[5,8]},"
               "'z':{'dtype':'C64','shape':[1,1,1,1,1,1,1,1,1],'data_offsets':[8,16]},"
               "'h':{'dtype':'F8_E4M3FNUZ','shape':[2],'data_offsets':[16,18]},"
               "'f':{'dtype':'F6_E2M3','shape':[4],'data_offsets':[18,21]},"
               "'k':{'dtype':'NEW','shape':[7],'data_offsets':[21,23]},"
               "'s':{'dtype':'I64','shape':[],'data_offsets':[23,31]}}",
               31);
    Safetensors file = open_file(path);
    assert_int_equal(file.num_tensors, 8);
    for (int i = 0; i < 8; i++) {
        const StoredTensor *tensor = &file.tensor[i];
        const bool is_ours = tensor->name[0] == 'w' || tensor->name[0] == 's';
        assert_int_equal(tensor->type != NUM_DTYPES, is_ours);
        assert_true(!is_ours || (uintptr_t)tensor->data % dtype_size(tensor->type) == 0);
        assert_memory_equal(tensor->data, file.data + tensor->begin, tensor->bytes);
    }
    assert_string_equal(safetensors_find(&file, "h")->dtype, "F8_E4M3FNUZ");
    assert_string_equal(safetensors_find(&file, "w")->dtype, "F32");
    assert_int_equal(safetensors_find(&file, "z")->ndim, 9);
    safetensors_free(&file);

    assert_true(safetensors_open(&file, path, HEADER_ONLY));
    for (int i = 0; i < 8; i++)
        assert_null(file.tensor[i].data);
    safetensors_free(&file);
    unlink(path);
}

static void open_anew(void *valid)
{
    Safetensors file;
    assert_int_equal(safetensors_open(&file, path, WITH_DATA), *(const bool *)valid);
    safetensors_free(&file);
}

static void commit_anew(void *context)
{
    (void)context;
    Safetensors file = make_small();
    commit(&file);
    safetensors_metadata_checksum(&file, "format");
    safetensors_free(&file);
}

/* Both tensors are copied, since neither is aligned. */
static void test_leaves_nothing(void **state)
{
    (void)state;
    static const char *const headers[] = { "{'a':{'dtype':'F32','shape':[1],'data_offsets':[1,5]},"
                                           "'b':{'dtype':'F64','shape':[],'data_offsets':[5,13]},"
                                           "'c':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}",
                                           "{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}",
                                           "{'a':1}", "{'a':" };
    for (int i = 0; i < 4; i++) {
        put_header(headers[i], 13);
        assert_leaves_nothing(open_anew, &(bool){ i == 0 });
    }
    assert_leaves_nothing(commit_anew, NULL);
    unlink(path);
}

/* A path and a reason of any length make one line that fits. */
static void test_long_error(void **state)
{
    (void)state;
    Safetensors file;
    safetensors_create(&file, "");
    memset(file.path, 'p', sizeof file.path - 1);
    char reason[2048] = "";
    memset(reason, 'r', sizeof reason - 1);
    assert_false(file_reject(&file, "%s", reason));
    assert_int_equal(strlen(file.error), sizeof file.error - 1);
    assert_memory_equal(file.error + strlen(file.path), ": rrr", 5);
    safetensors_free(&file);
}

/* CRC-32 of "step", 7 as 8 bytes, "w", and three floats, from Python's zlib.crc32; before it, the
 * sum of the two tensors' own. */
static void test_checksum(void **state)
{
    (void)state;
    Safetensors file = make_small();
    assert_int_equal(safetensors_checksum(&file, false), 0x90924e5e);
    assert_int_equal(safetensors_checksum(&file, true), 0xb5db5636);
    safetensors_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_bytes),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_short_reads),    cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_python_file),    cmocka_unit_test(test_unusual_but_valid),
        cmocka_unit_test(test_checksum),       cmocka_unit_test(test_of_other_writers),
        cmocka_unit_test(test_leaves_nothing), cmocka_unit_test(test_long_error),
    };
    return cmocka_run_group_tests(tests, make_file_folder, remove_empty_folder);
}
