/* Errors that the stand-in of CUDA detects: accesses out of bounds, barriers that not all threads
 * reach, GPUs after a fork. */
#include "tests/cuda/stand_in_case.h"

#include <nccl.h>
#include <pthread.h>

#include "tests/cuda_stand_in/counts.h"

static void host_reads(const void *context)
{
    (void)context;
    printf("%g\n", *numbers_on_device(1));
}

static void freed_memory(const void *context)
{
    (void)context;
    float *x = numbers_on_device(N), *y = device_floats(N);
    CUDA_CHECK(cudaFree(x));
    launch_read_at(y, x - y, y, new_stream()); // an address where x was
    CUDA_CHECK(cudaDeviceSynchronize());
}

static void read_behind(const void *context)
{
    (void)context;
    float *x = numbers_on_device(1024);
    launch_read_at(x, 1024, x, new_stream());
    CUDA_CHECK(cudaDeviceSynchronize());
}

static void write_behind(const void *context)
{
    (void)context;
    launch_write_at(device_floats(3), 3, new_stream()); // still inside the array's last page
    CUDA_CHECK(cudaDeviceSynchronize());
}

static void write_before(const void *context)
{
    (void)context;
    launch_write_at(device_floats(3), -1, new_stream());
    CUDA_CHECK(cudaDeviceSynchronize());
}

static void host_argument(const void *context)
{
    (void)context;
    float host[4];
    launch_write_at(host, 0, new_stream());
}

static void other_gpu(const void *context)
{
    (void)context;
    setenv("CUDA_STAND_IN_DEVICES", "2", 1);
    float *x = device_floats(1);
    CUDA_CHECK(cudaSetDevice(1));
    launch_write_at(x, 0, new_stream());
}

static void wrong_kind(const void *context)
{
    (void)context;
    float host[4];
    cudaMemcpy(host, device_floats(4), sizeof host, cudaMemcpyHostToDevice);
}

static void too_long_a_copy(const void *context)
{
    (void)context;
    float host[8];
    cudaMemcpy(host, device_floats(4), sizeof host, cudaMemcpyDeviceToHost);
}

static void large_block(const void *context)
{
    (void)context;
    launch_saxpy(N, 1, device_floats(N), device_floats(N), 1025, new_stream());
}

static void half_barrier(const void *context)
{
    (void)context;
    launch_half_barrier(device_floats(THREADS), new_stream());
    cudaDeviceSynchronize();
}

static void two_barriers(const void *context)
{
    (void)context;
    launch_two_barriers(device_floats(THREADS), new_stream());
    cudaDeviceSynchronize();
}

static void odd_vector(const void *context)
{
    (void)context;
    float *x = numbers_on_device(16);
    launch_read_four_at(x, 4, x, new_stream()); // aligned
    launch_read_four_at(x, 6, x, new_stream());
    cudaDeviceSynchronize();
}

static void index_overflow(const void *context)
{
    (void)context;
    float *x = numbers_on_device(16);
    launch_read_product(x, 1 << 16, 1 << 16, x, new_stream()); // 0 because an int wraps around
    cudaDeviceSynchronize();
}

static void half_mma(const void *context)
{
    (void)context;
    launch_half_mma(numbers_on_device(4 * THREADS), new_stream());
    cudaDeviceSynchronize();
}

static void part_of_a_warp(const void *context)
{
    (void)context;
    float *x = numbers_on_device(16 * 8);
    launch_mma(16, 8, false, (unsigned *)x, (unsigned *)x, x, new_stream());
    cudaDeviceSynchronize();
}

static void wrong_operands(const void *context)
{
    (void)context;
    launch_wrong_mma(true, numbers_on_device(4), new_stream());
    cudaDeviceSynchronize();
}

static void unknown_instruction(const void *context)
{
    (void)context;
    launch_wrong_mma(false, numbers_on_device(4), new_stream());
    cudaDeviceSynchronize();
}

static void test_tensor_cores(void **state)
{
    (void)state;
    assert_aborts(half_mma, "half_mma: of a block, thread");
    assert_aborts(part_of_a_warp, "mma: 16 threads wait at");
    assert_aborts(wrong_operands, "wrong_mma: operands of another number or type than this wants");
    assert_aborts(unknown_instruction, "wrong_mma: no instruction that the stand-in knows: ex2");
}

static ncclComm_t lone_rank(int blocking)
{
    ncclComm_t comm;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    ncclGetUniqueId(&id);
    ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    return comm;
}

static void *ask_for_errors(void *comm)
{
    ncclResult_t state;
    for (;;)
        ncclCommGetAsyncError(comm, &state);
    return NULL;
}

static void two_threads(const void *context)
{
    (void)context;
    pthread_t thread;
    ncclComm_t comm = lone_rank(1);
    CHECK(pthread_create(&thread, NULL, ask_for_errors, comm) == 0, "no thread");
    ask_for_errors(comm);
}

static void threads_of_nccl(const void *context)
{
    (void)context;
    lone_rank(1);
    CHECK(stand_in_counts().nccl_threads == 0, "a call that blocks needs a thread");
    ncclComm_t comm = lone_rank(0);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
        CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess, "no state");
    CHECK(state == ncclSuccess, "state %d", state);
    CHECK(stand_in_counts().nccl_threads == 1, "a call that does not block needs none");
}

static void test_communicators(void **state)
{
    (void)state;
    assert_aborts(two_threads, "NCCL: two threads use one communicator at the same time");
    assert_right(threads_of_nccl);
}

static void test_misuse(void **state)
{
    (void)state;
    assert_aborts(host_reads, "the host touches device memory at byte 0 of an array of 4");
    assert_aborts(freed_memory, "byte 0 of an array of 4000, which was freed");
    assert_aborts(read_behind, "read_at on device 0 touches device memory at byte 4096");
    assert_aborts(write_behind, "write_at wrote to byte 12 of an array of 12");
    assert_aborts(write_before, "write_at wrote to byte -");
    assert_aborts(host_argument, "write_at: argument 1 points to no device memory");
    assert_aborts(other_gpu, "write_at on device 1: argument 1 points to memory of device 0");
    assert_aborts(wrong_kind, "a copy of 16 bytes from device to host is called");
    assert_aborts(too_long_a_copy, "a copy: bytes 0 to 32 of an array of 16");
    assert_aborts(large_block, "saxpy: a block of 1025 x 1 x 1 threads");
    assert_aborts(odd_vector, "read_four_at: a vector that is not aligned, or an index out of its");
    assert_aborts(index_overflow, "read_product: a vector that is not aligned, or an index out of");
    assert_aborts(half_barrier, "half_barrier: of a block, thread");
    assert_aborts(two_barriers, "two_barriers: of a block, thread");
}

static void after_fork(const void *context)
{
    (void)context;
    int count;
    CUDA_CHECK(cudaGetDeviceCount(&count));
    const pid_t child = fork();
    if (child == 0)
        _exit(cudaSetDevice(0) == cudaErrorInitializationError ? 0 : 1);
    CHECK(child_wait(child) == 0, "the child had a GPU");
}

static void visible_devices(const void *context)
{
    (void)context;
    setenv("CUDA_STAND_IN_DEVICES", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,1,7,0", 1);
    int count;
    struct cudaDeviceProp first, second;
    CUDA_CHECK(cudaGetDeviceCount(&count));
    CHECK(count == 2, "%d devices", count);
    CUDA_CHECK(cudaGetDeviceProperties(&first, 0));
    CUDA_CHECK(cudaGetDeviceProperties(&second, 1));
    CHECK(memcmp(&first.uuid, &second.uuid, sizeof first.uuid) != 0, "one uuid");
    CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice, "a third");
}

static void no_device(const void *context)
{
    (void)context;
    setenv("CUDA_STAND_IN_DEVICES", "0", 1);
    int count = 7;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0, "%d devices", count);
}

static void test_devices(void **state)
{
    (void)state;
    assert_right(after_fork);
    assert_right(visible_devices);
    assert_right(no_device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_tensor_cores),
        cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
