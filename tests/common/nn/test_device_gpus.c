/* Which device is opened with so many GPUs, and how many ranks start: with GPUs that are not there.
 */
#include <stdlib.h>

#include "common/base/host.h"
#include "common/nn/device.h"
#include "tests/helpers/unit.h"

static int gpus, opened;

int __wrap_gpus_visible(void), __wrap_gpus_count(void);
void __wrap_device_cuda_init(Device *device, const Args *args);

int __wrap_gpus_visible(void)
{
    return gpus;
}

int __wrap_gpus_count(void)
{
    return gpus;
}

void __wrap_device_cuda_init(Device *device, const Args *args)
{
    (void)args;
    assert_int_equal(device->threads, 1);
    assert_int_equal(device->local_rank, 3);
    opened++;
}

static void test_gpus(void **state)
{
    (void)state;
    static const struct {
        DeviceKind kind;
        int gpus, nproc;
        bool on_gpu;
        int ranks;
    } cases[] = {
        { DEVICE_AUTO, 0, 1, false, 2 }, { DEVICE_AUTO, 1, 1, true, 1 },
        { DEVICE_AUTO, 1, 2, true, 1 }, // the launcher shows each rank its own
        { DEVICE_AUTO, 2, 2, true, 2 },  { DEVICE_AUTO, 2, 3, false, 2 },
        { DEVICE_AUTO, 4, 3, true, 4 },  { DEVICE_CUDA, 4, 5, true, 4 },
        { DEVICE_CPU, 4, 1, false, 2 },  { DEVICE_PLAIN, 4, 1, false, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int fixed = 0; fixed < 2; fixed++) { // a GPU does not add in a fixed order
            const Args args = { .device = cases[i].kind,
                                .nproc = cases[i].nproc,
                                .threads = 1,
                                .reduce_order = fixed ? ORDER_FIXED : ORDER_ANY };
            Device device;
            gpus = cases[i].gpus;
            opened = 0;
            device_init(&device, &args, 3);
            const bool on_gpu = cases[i].on_gpu && (!fixed || args.device == DEVICE_CUDA);
            assert_int_equal(opened, on_gpu);
            if (opened == 0)
                device_free(&device);
            assert_int_equal(device_count(&args), cases[i].ranks);
        }
}

int main(void)
{
    unsetenv("LOCAL_WORLD_SIZE");
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpus) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
