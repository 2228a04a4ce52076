/* A rank's device and threads, the conversion of weights, and the gathering of batches. */
#include <stdlib.h>

#include "common/base/host.h"
#include "common/nn/device.h"
#include "tests/common/nn/on_device.h"
#include "tests/helpers/child.h"

static int clear_environment(void **state)
{
    (void)state;
    unsetenv("OMP_NUM_THREADS");
    unsetenv("LOCAL_WORLD_SIZE");
    return 0;
}

static int threads_of(Args args)
{
    args.device = DEVICE_CPU;
    Device device;
    device_init(&device, &args, 0);
    const int threads = device.threads;
    device_free(&device);
    return threads;
}

static void test_threads(void **state)
{
    (void)state;
    const int cores = host_num_cores();
    assert_int_equal(threads_of((Args){ 0 }), cores);
    assert_int_equal(threads_of((Args){ .nproc = 2 }), cores / 2 > 0 ? cores / 2 : 1);
    assert_int_equal(threads_of((Args){ .nproc = 10 * cores }), 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1); // takes precedence over --nproc
    assert_int_equal(threads_of((Args){ .nproc = 2 }), cores);
    setenv("OMP_NUM_THREADS", "nonsense", 1);
    assert_int_equal(threads_of((Args){ 0 }), cores);
    for (const char *const *text =
             (const char *const[]){ "", "0", "-3", "1e99", "99999999999999999999", "3000000000",
                                    NULL };
         *text != NULL; text++) {
        setenv("OMP_NUM_THREADS", *text, 1);
        assert_in_range(threads_of((Args){ 0 }), 1, 1024);
    }
    setenv("OMP_NUM_THREADS", "1000000", 1);
    assert_int_equal(threads_of((Args){ 0 }), 1024);
    setenv("OMP_NUM_THREADS", "5", 1);
    assert_int_equal(threads_of((Args){ .nproc = 2 }), 5);
    assert_int_equal(threads_of((Args){ .threads = 3 }), 3);
    assert_int_equal(threads_of((Args){ .threads = 1 }), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    assert_int_equal(threads_of((Args){ 0 }), 1);
}

static void test_memory(void **state)
{
    (void)state;
    const Args args = { .device = test_device_kind() };
    Device device;
    device_init(&device, &args, 0);
    assert_string_equal(device.name, test_device());
    assert_string_equal(device.label, tests_a_cpu() ? "CPU" : "GPU");
    assert_int_equal(device.place.on_gpu, !tests_a_cpu());

    float *memory = device_malloc(&device, 100 * sizeof *memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    float *zeros = copied_from(&device, memory, 100 * sizeof *memory);
    for (int i = 0; i < 100; i++)
        assert_true(zeros[i] == 0);
    free(zeros);
    const float values[] = { 1, 2, 3 };
    float back[3];
    device_copy(&device, memory, values, sizeof values, COPY_TO_DEVICE);
    device_copy(&device, memory + 50, memory, sizeof values, COPY_ON_DEVICE);
    device_copy(&device, back, memory + 50, sizeof values, COPY_TO_HOST);
    if (device.ops->synchronize != NULL)
        device.ops->synchronize(&device);
    assert_memory_equal(back, values, sizeof values);
    device_release(&device, memory);
    device_free(&device);
}

static void test_count_without_gpus(void **state)
{
    (void)state;
    assert_int_equal(device_count(&(Args){ .device = DEVICE_CPU }), 2);
}

static void init_device(const void *args)
{
    Device device;
    device_init(&device, args, 0);
}

/* Without a GPU "auto" is the CPU, and asking for what only a GPU has ends with a usage error. */
static void test_no_gpu(void **state)
{
    (void)state;
    if (gpus_visible() > 0)
        return; // a GPU is present
    Args args = { .threads = 1 };
    Device device;
    device_init(&device, &args, 0);
    assert_string_equal(device.name, "cpu");
    device_free(&device);

    assert_dies_saying(init_device, &(Args){ .device = DEVICE_CUDA }, 2, "");
    assert_dies_saying(init_device, &(Args){ .tf32 = true }, 2, "--tf32 on: a CPU has no");
    assert_dies_saying(init_device, &(Args){ .cuda_graph = true }, 2, "--cuda-graph on: a CPU");
    assert_dies_saying(init_device, &(Args){ .conv = CONV_CUDNN }, 2, "--conv cudnn is for GPUs");
    assert_dies_saying(init_device, &(Args){ .conv = CONV_IM2COL }, 2, "--conv im2col is for");
    assert_dies_saying(init_device, &(Args){ .amp = AMP_FP16 }, 2, "--amp fp16 needs a GPU");
}

/* What gather copies to the device. */
typedef struct {
    float inputs[6], targets[3];
    int32_t labels[3];
} Gathered;

static Gathered gathered(Device *device, const Batch *batch)
{
    Gathered *memory = device_malloc(device, sizeof *memory), result;
    device->ops->gather(device, batch, memory->inputs, memory->labels, memory->targets);
    device_copy(device, &result, memory, sizeof result, COPY_TO_HOST);
    device_release(device, memory);
    return result;
}

/* A data set with an id may stay on the device; without an id each batch is sent. */
static void check_gather(unsigned id)
{
    const Args args = { .device = test_device_kind(), .threads = 2 };
    Device device;
    device_init(&device, &args, 0);
    if (device.ops->gather_reserve != NULL)
        device.ops->gather_reserve(&device, 3, 2);
    const size_t index[] = { 2, 0, 2 };

    uint8_t bytes[] = { 0, 1, 2, 3, 4, 255 };
    int32_t labels[] = { 7, 8, 9 };
    Dataset images = {
        .id = id, .size = 3, .features = 2, .num_classes = 10, .bytes = bytes, .labels = labels
    };
    for (int i = 0; i < 256; i++)
        images.normalised[i] = i / 2.0f;
    for (int pass = 0; pass < 3; pass++) {
        const Gathered batch =
            gathered(&device, &(Batch){ .dataset = &images, .index = index, .size = 3 });
        assert_memory_equal(batch.inputs, ((float[]){ 2, 127.5f, 0, 0.5f, 2, 127.5f }), 24);
        assert_memory_equal(batch.labels, ((int32_t[]){ 9, 7, 9 }), 12);
    }
    if (id == 0) { // like the classifier, which reuses its bytes for each image
        bytes[5] = 8;
        const Gathered changed =
            gathered(&device, &(Batch){ .dataset = &images, .index = index, .size = 3 });
        assert_memory_equal(changed.inputs, ((float[]){ 2, 4, 0, 0.5f, 2, 4 }), 24);
    }

    float floats[] = { 10, 11, 12, 13, 14, 15 }, numbers[] = { -1, -2, -3 };
    const Dataset rows = {
        .id = id + (id > 0), .size = 3, .features = 2, .floats = floats, .targets = numbers
    };
    const Gathered batch =
        gathered(&device, &(Batch){ .dataset = &rows, .index = index, .size = 2 });
    assert_memory_equal(batch.inputs, ((float[]){ 14, 15, 10, 11 }), 16);
    assert_memory_equal(batch.targets, ((float[]){ -3, -1 }), 8);
    device_free(&device);
}

static void test_gather(void **state)
{
    (void)state;
    check_gather(0);
    check_gather(1000);
}

/* Many batches are gathered before any is read, and none may have another's rows. */
static void test_gathers_in_a_row(void **state)
{
    (void)state;
    enum { BATCHES = 20, ROWS = 4 };
    const Args args = { .device = test_device_kind(), .threads = 2 };
    Device device;
    device_init(&device, &args, 0);
    if (device.ops->gather_reserve != NULL)
        device.ops->gather_reserve(&device, 1, 1);
    float floats[ROWS] = { 0, 1, 2, 3 }, numbers[ROWS] = { 0, -1, -2, -3 };
    for (unsigned id = 0; id <= 2000; id += 2000) {
        const Dataset rows = {
            .id = id, .size = ROWS, .features = 1, .floats = floats, .targets = numbers
        };
        float *inputs = device_malloc(&device, BATCHES * sizeof *inputs);
        float *targets = device_malloc(&device, BATCHES * sizeof *targets);
        for (int i = 0; i < BATCHES; i++) {
            const size_t index = i % 3; // not in step with any ring of buffers
            device.ops->gather(&device, &(Batch){ .dataset = &rows, .index = &index, .size = 1 },
                               inputs + i, NULL, targets + i);
        }
        float *got = copied_from(&device, inputs, BATCHES * sizeof *got);
        float *wanted = copied_from(&device, targets, BATCHES * sizeof *wanted);
        for (int i = 0; i < BATCHES; i++) {
            assert_true(got[i] == (float)(i % 3));
            assert_true(wanted[i] == -got[i]);
        }
        free(got);
        free(wanted);
        device_release(&device, inputs);
        device_release(&device, targets);
    }
    device_free(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_threads, clear_environment),
        cmocka_unit_test_setup(test_memory, clear_environment),
        cmocka_unit_test_setup(test_count_without_gpus, clear_environment),
        cmocka_unit_test_setup(test_no_gpu, clear_environment),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gathers_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
