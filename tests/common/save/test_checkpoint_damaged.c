/*
 * Damaged checkpoints and other files: each is refused with one line that names it, by --resume and
 * by --init-from, soon and without a crash.
 */
#include <sys/stat.h>

#include "tests/common/save/checkpoint_run.h"

enum { NUM_CUTS = 200, MANY_TENSORS = 18000 };

static char path[64];

static void assert_refused_both(Run *run, const char *reason)
{
    run->args.resume = path;
    run->args.init_from = NULL;
    assert_dies_saying(load, run, 2, path, reason);
    run->args.resume = NULL;
    run->args.init_from = path;
    assert_dies_saying(load, run, 2, path, reason);
}

/* Saves a run of the model at `path`; returns the file's bytes, to be freed. */
static char *save_good(Run *run, const char *model, size_t *bytes)
{
    snprintf(path, sizeof path, "%s/epoch_3.safetensors", folder);
    run_init(run, model, "sgd", 0.9, 1);
    run_step(run);
    save(run, 3, 0);
    return get_file(path, bytes);
}

/* Truncated where header and tensors begin and end, and at 200 places of each model's file. */
static void test_truncated(void **state)
{
    (void)state;
    static const char *const models[] = { "linear", "cnn" };
    for (size_t m = 0; m < LENGTH(models); m++) {
        Run run;
        size_t bytes;
        char *good = save_good(&run, models[m], &bytes);
        assert_true(bytes > NUM_CUTS);
        for (size_t i = NUM_CUTS + 1; i-- > 0;) {
            const size_t size = (bytes - 1) * i / NUM_CUTS;
            assert_int_equal(truncate(path, (off_t)size), 0);
            run.args.resume = i % 2 == 0 ? path : NULL;
            run.args.init_from = i % 2 == 0 ? NULL : path;
            assert_dies_saying(load, &run, 2, path, "name another file with --resume");
        }
        file_put(path, good, bytes);
        run.args.resume = path;
        assert_int_equal(child_run(load, &run), 0);
        free(good);
        run_free(&run);
    }
}

/* After a power loss the length may be right, but the end or some page is zeros. */
static void test_holes(void **state)
{
    (void)state;
    Run run;
    size_t bytes;
    char *good = save_good(&run, "cnn", &bytes), *holey = malloc(bytes);
    for (size_t at = 0; at + 4096 <= bytes; at += bytes / 8) {
        memcpy(holey, good, bytes);
        memset(holey + at, 0, 4096);
        file_put(path, holey, bytes);
        assert_refused_both(&run, "");
        memset(holey + at, 0, bytes - at);
        file_put(path, holey, bytes);
        assert_refused_both(&run, "");
    }
    free(holey);
    free(good);
    run_free(&run);
}

static void test_no_file(void **state)
{
    (void)state;
    Run run;
    size_t bytes;
    free(save_good(&run, "linear", &bytes));
    unlink(path);
    assert_refused_both(&run, "No such file or directory: name another file with --resume");
    assert_int_equal(mkdir(path, 0700), 0); // as tools/export creates it
    assert_refused_both(&run, "/model.safetensors: No such file or directory");
    char name[PATH_MAX];
    for (int more = 0; more < 2; more++) { // too long for a file in it: then it is the file
        Safetensors file;
        memset(name, '/', sizeof name);
        memcpy(name, path, strlen(path));
        name[PATH_MAX - sizeof "/model.safetensors" + (size_t)more] = '\0';
        assert_false(checkpoint_open(&file, name));
        assert_has(file.error, more ? "is no regular file" : "No such file or directory");
        safetensors_free(&file);
    }
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused_both(&run, "is no regular file");
    unlink(path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_refused_both(&run, "is no regular file");
    unlink(path);
    assert_int_equal(symlink(path, path), 0);
    assert_refused_both(&run, "Too many levels of symbolic links");
    unlink(path);
    run_free(&run);
}

static void load_as_nobody(const void *run)
{
    if (getuid() == 0 && setuid(65534) != 0) // because root can read everything
        _exit(99);
    load(run);
}

static void test_no_permission(void **state)
{
    (void)state;
    Run run;
    size_t bytes;
    free(save_good(&run, "linear", &bytes));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(path, 0), 0);
    run.args.resume = path;
    assert_dies_saying(load_as_nobody, &run, 2, path, "Permission denied");
    assert_int_equal(chmod(path, 0600), 0);
    run_free(&run);
}

/* Writes a header, where ' stands for ", before 8 bytes of zeros. */
static void put_header(const char *header)
{
    const uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&length, 1, 8, file);
    for (const char *c = header; *c != '\0'; c++)
        fputc(*c == '\'' ? '"' : *c, file);
    fwrite("\0\0\0\0\0\0\0", 1, 8, file);
    fclose(file);
}

static void test_hostile_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header, *reason;
    } cases[] = {
        { "{'a\\u0000b':{'dtype':'F64','shape':[1],'data_offsets':[0,8]}}", "header is not valid" },
        { "{'__metadata__':{'a':'\\u0000'}}", "header is not valid" },
        { "{'\xc0\x80':{'dtype':'F64','shape':[1],'data_offsets':[0,8]}}", "header is not valid" },
        { "{'\\ud800':{'dtype':'F64','shape':[1],'data_offsets':[0,8]}}", "header is not valid" },
        { "{'a':{'dtype':'F64','shape':[1e999],'data_offsets':[0,8]}}", "header is not valid" },
        { "{'a':{'dtype':'F64','shape':[NaN],'data_offsets':[0,8]}}", "header is not valid" },
        { "{'a':{'dtype':'F64','shape':[99999999999999999999],'data_offsets':[0,8]}}",
          "header is not valid" },
        { "{'a':{'dtype':'F64','shape':[1],'data_offsets':[0,8]},}", "header is not valid" },
        { "{'__metadata__':{},'__metadata__':{},'a':{}}", "duplicate" },
        { "{'__metadata__':{'ddp_c_version':'1','checksum':'zzz'},"
          "'a':{'dtype':'F64','shape':[1],'data_offsets':[0,8]}}",
          "is damaged: its tensors do not have the checksum" },
        { "{'a':{'dtype':'F64','shape':[1],'data_offsets':[0,8]}}", "" },
    };
    Run run;
    size_t bytes;
    free(save_good(&run, "linear", &bytes));
    for (size_t i = 0; i < LENGTH(cases); i++) {
        put_header(cases[i].header);
        assert_refused_both(&run, cases[i].reason);
    }
    run_free(&run);
}

/* Many tensors are read, but do not match the model. Ten thousand dimensions are not read. */
static void test_many(void **state)
{
    (void)state;
    Run run;
    size_t bytes, length = 0;
    free(save_good(&run, "linear", &bytes));
    char *header = malloc(MANY_TENSORS * 80);
    for (int i = 0; i < MANY_TENSORS; i++)
        length += (size_t)sprintf(header + length,
                                  "%c'%d':{'dtype':'U8','shape':[0],'data_offsets':[8,8]}",
                                  i == 0 ? '{' : ',', i);
    strcpy(header + length, ",'x':{'dtype':'F64','shape':[],'data_offsets':[0,8]}}");
    put_header(header);
    run.args.init_from = path;
    assert_dies_saying(load, &run, 2, path, "has no tensor \"weight\"");

    length = (size_t)sprintf(header, "{'weight':{'dtype':'F32','data_offsets':[0,8],'shape':[2");
    for (int i = 1; i < 10000; i++)
        length += (size_t)sprintf(header + length, ",1");
    strcpy(header + length, "]}}");
    put_header(header);
    assert_dies_saying(load, &run, 2, path, "\"weight\" has shape [2, 1, 1, 1, 1, 1, 1, 1, ...]");
    free(header);
    run_free(&run);
}

/* Saves the file again with its tensors in the reverse order, and one renamed unless that is NULL.
 */
static void reverse_tensors(const char *renamed)
{
    Safetensors from, to;
    const char *key;
    assert_true(safetensors_open(&from, path, WITH_DATA));
    safetensors_create(&to, path);
    for (int i = 0; (key = safetensors_metadata_key(&from, i)) != NULL; i++)
        safetensors_add_metadata(&to, key, "%s", safetensors_metadata(&from, key));
    for (int i = from.num_tensors; i-- > 0;) {
        const StoredTensor *tensor = &from.tensor[i];
        const bool is_other = renamed != NULL && strcmp(tensor->name, renamed) == 0;
        safetensors_add(&to, is_other ? "other" : tensor->name, tensor->type, tensor->ndim,
                        tensor->shape, tensor->data);
    }
    if (renamed != NULL)
        checkpoint_add_checksums(&to);
    assert_true(safetensors_commit(&to));
    safetensors_free(&to);
    safetensors_free(&from);
}

/* Tensors in another order, as safetensors' own save_file sorts them, are no damage; nor is the
 * checksum of version 1.0.0, which depends on the order. A changed bit is, in both. */
static void test_other_order(void **state)
{
    (void)state;
    char old[2048];
    Run run;
    size_t bytes;
    for (int is_old = 0; is_old < 2; is_old++) {
        free(save_good(&run, "linear", &bytes));
        if (is_old) {
            bytes = file_get("tests/golden/checkpoint_1.0.0.safetensors", old, sizeof old);
            assert_in_range(bytes, 1000, sizeof old - 1);
            file_put(path, old, bytes);
        } else
            reverse_tensors(NULL);
        run.args.resume = path;
        assert_int_equal(child_run(load, &run), 0);
        char *changed = get_file(path, &bytes);
        changed[bytes - 30] ^= 1;
        file_put(path, changed, bytes);
        assert_refused_both(&run, "is damaged: its tensors do not have the checksum it names");
        free(changed);
        run_free(&run);
    }
}

static void test_other_names(void **state)
{
    (void)state;
    static const char *const names[] = { "weight", "bias", "optimizer.bias.momentum_buffer" };
    char reason[128];
    for (size_t i = 0; i < LENGTH(names); i++) {
        Run run;
        size_t bytes;
        free(save_good(&run, "linear", &bytes));
        reverse_tensors(names[i]);
        run.args.resume = path;
        snprintf(reason, sizeof reason, "has no tensor \"%s\", which model linear needs", names[i]);
        assert_refused(&run, reason);
        run_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),       cmocka_unit_test(test_holes),
        cmocka_unit_test(test_no_file),         cmocka_unit_test(test_no_permission),
        cmocka_unit_test(test_hostile_headers), cmocka_unit_test(test_many),
        cmocka_unit_test(test_other_order),     cmocka_unit_test(test_other_names),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
