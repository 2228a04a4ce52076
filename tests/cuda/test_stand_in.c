/*
 * The stand-in of CUDA itself: right programs give right numbers in any order of their work, and
 * programs that forget to wait fail in some order.
 */
#include "tests/cuda/stand_in_case.h"

static void saxpy(const void *context)
{
    (void)context;
    float *x = numbers_on_device(N), *y = numbers_on_device(N), host[N];
    const cudaStream_t stream = new_stream();
    launch_saxpy(N, 2, x, y, 96, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    fetch(host, y, N);
    for (int i = 0; i < N; i++)
        CHECK(host[i] == 3 * (i * i % 31), "%d: %g", i, host[i]);
}

static void transpose(const void *context)
{
    (void)context;
    enum { ROWS = 37, COLUMNS = 20 };
    float *x = numbers_on_device(ROWS * COLUMNS), *y = device_floats(ROWS * COLUMNS);
    float host[ROWS * COLUMNS];
    const cudaStream_t stream = new_stream();
    launch_transpose(ROWS, COLUMNS, x, y, stream);
    CUDA_CHECK(cudaDeviceSynchronize());
    fetch(host, y, ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const int from = i % ROWS * COLUMNS + i / ROWS;
        CHECK(host[i] == from * from % 31, "%d: %g", i, host[i]);
    }
}

typedef void LaunchSum(int blocks, const float *x, float *sums, cudaStream_t stream);

static void check_sum(LaunchSum *launch)
{
    enum { BLOCKS = 5 };
    float *x = numbers_on_device(BLOCKS * THREADS), *sums = device_floats(BLOCKS), host[BLOCKS];
    launch(BLOCKS, x, sums, new_stream());
    CUDA_CHECK(cudaDeviceSynchronize());
    fetch(host, sums, BLOCKS);
    for (int block = 0; block < BLOCKS; block++) {
        float sum = 0;
        for (int i = block * THREADS; i < (block + 1) * THREADS; i++)
            sum += (float)(i * i % 31);
        CHECK(host[block] == sum, "block %d: %g, not %g", block, host[block], sum);
    }
}

static void sum(const void *context)
{
    (void)context;
    check_sum(launch_sum);
}

static void sum_without_barrier(const void *context)
{
    (void)context;
    check_sum(launch_sum_without_barrier);
}

static void check_rounds(bool barrier_after_read)
{
    float *x = numbers_on_device(THREADS), *y = device_floats(THREADS), host[THREADS];
    float expected[2][THREADS];
    fetch(expected[0], x, THREADS);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < THREADS; i++) {
            const float *from = expected[round % 2];
            expected[(round + 1) % 2][i] =
                from[i] + from[(i + 1) % THREADS] + from[(i + THREADS - 1) % THREADS];
        }
    launch_rounds(x, y, barrier_after_read, new_stream());
    CUDA_CHECK(cudaDeviceSynchronize());
    fetch(host, y, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(host[i] == expected[ROUNDS % 2][i], "%d: %g", i, host[i]);
}

static void rounds(const void *context)
{
    (void)context;
    check_rounds(true);
}

static void rounds_without_barrier(const void *context)
{
    (void)context;
    check_rounds(false);
}

static void test_kernels(void **state)
{
    (void)state;
    assert_right(saxpy);
    assert_right(transpose);
    assert_right(sum);
    assert_right(rounds);
    assert_found(sum_without_barrier);
    assert_found(rounds_without_barrier);
}

/* Copies small integers, exact in fp16 and bf16, two per word. */
static unsigned *pairs_on_device(const int *numbers, int count, bool bf16)
{
    unsigned host[512], *memory;
    for (int i = 0; i < count; i++) {
        const float value = (float)numbers[i];
        const _Float16 half = (_Float16)value;
        uint16_t *to = (uint16_t *)host + i;
        memcpy(to, bf16 ? (const char *)&value + 2 : (const char *)&half, 2);
    }
    CUDA_CHECK(cudaMalloc((void **)&memory, count * 2));
    CUDA_CHECK(cudaMemcpy(memory, host, count * 2, cudaMemcpyHostToDevice));
    return memory;
}

static void check_mma(int depth, bool bf16)
{
    enum { WARPS = 2, ROWS = 16, COLUMNS = 8, MOST = 16, RESULTS = WARPS * ROWS * COLUMNS };
    int a[WARPS * ROWS * MOST], b[WARPS * COLUMNS * MOST];
    for (int i = 0; i < WARPS * ROWS * depth; i++)
        a[i] = i * i % 23 - 11;
    for (int i = 0; i < WARPS * COLUMNS * depth; i++)
        b[i] = i * i % 29 - 14;
    float *c = numbers_on_device(RESULTS), host[RESULTS];
    launch_mma(WARPS * 32, depth, bf16, pairs_on_device(a, WARPS * ROWS * depth, bf16),
               pairs_on_device(b, WARPS * COLUMNS * depth, bf16), c, new_stream());
    CUDA_CHECK(cudaDeviceSynchronize());
    fetch(host, c, RESULTS);
    for (int i = 0; i < RESULTS; i++) {
        const int row = i / COLUMNS, column = i / (ROWS * COLUMNS) * COLUMNS + i % COLUMNS;
        int sum = i * i % 31;
        for (int k = 0; k < depth; k++)
            sum += a[row * depth + k] * b[column * depth + k];
        CHECK(host[i] == (float)sum, "depth %d, bf16 %d, number %d: %g, not %d", depth, bf16, i,
              host[i], sum);
    }
}

static void mma(const void *context)
{
    (void)context;
    for (int depth = 8; depth <= 16; depth += 8)
        for (int bf16 = 0; bf16 < 2; bf16++)
            check_mma(depth, bf16);
}

static void mma_in_turn(const void *context)
{
    (void)context;
    float *sums = device_floats(THREADS), host[THREADS];
    launch_mma_in_turn(sums, new_stream());
    CUDA_CHECK(cudaDeviceSynchronize());
    fetch(host, sums, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(host[i] == (float)(8 * ((i / 32 + 1) % 4 + 1)), "%d: %g", i, host[i]);
}

static void test_tensor_cores(void **state)
{
    (void)state;
    assert_right(mma);
    assert_right(mma_in_turn);
}

/* Fills y on one stream and reads it on another. */
static void check_two_streams(bool waits)
{
    const cudaStream_t first = new_stream(), second = new_stream();
    float *x = numbers_on_device(N), *y = device_floats(N), *z = device_floats(N), host[N];
    CUDA_CHECK(cudaMemsetAsync(y, 0, N * sizeof *y, first));
    launch_saxpy(N, 1, x, y, 64, first);
    const cudaEvent_t filled = recorded(first);
    if (waits)
        CUDA_CHECK(cudaStreamWaitEvent(second, filled, 0));
    CUDA_CHECK(cudaMemcpyAsync(z, y, N * sizeof *y, cudaMemcpyDeviceToDevice, second));
    CUDA_CHECK(cudaStreamSynchronize(second));
    fetch(host, z, N);
    for (int i = 0; i < N; i++)
        CHECK(host[i] == (float)(i * i % 31), "%d: %g", i, host[i]);
}

static void two_streams(const void *context)
{
    (void)context;
    check_two_streams(true);
}

static void two_streams_without_event(const void *context)
{
    (void)context;
    check_two_streams(false);
}

static void check_pinned(bool waits_before_reuse, bool waits_for_result)
{
    const cudaStream_t stream = new_stream();
    float *from = pinned_floats(N, 3), *to = pinned_floats(N, 0), *y = device_floats(N);
    CUDA_CHECK(cudaMemcpyAsync(y, from, N * sizeof *y, cudaMemcpyHostToDevice, stream));
    if (waits_before_reuse)
        CUDA_CHECK(cudaEventSynchronize(recorded(stream)));
    from[7] = 4;
    CUDA_CHECK(cudaMemcpyAsync(to, y, N * sizeof *y, cudaMemcpyDeviceToHost, stream));
    if (waits_for_result)
        CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(to[7] == 3, "it is %g", to[7]);
    CUDA_CHECK(cudaDeviceSynchronize());
}

static void pinned(const void *context)
{
    (void)context;
    check_pinned(true, true);
}

static void pinned_reused_early(const void *context)
{
    (void)context;
    check_pinned(false, true);
}

static void pinned_read_early(const void *context)
{
    (void)context;
    check_pinned(true, false);
}

/* Memory that is not pinned may be reused at once. */
static void pageable(const void *context)
{
    (void)context;
    float from[2] = { 3, 3 }, to[2] = { 0 }, *y = device_floats(2);
    const cudaStream_t stream = new_stream();
    CUDA_CHECK(cudaMemcpyAsync(y, from, sizeof from, cudaMemcpyHostToDevice, stream));
    from[1] = 4;
    CUDA_CHECK(cudaMemcpyAsync(to, y, sizeof to, cudaMemcpyDeviceToHost, stream));
    CHECK(to[1] == 3, "it is %g", to[1]);
}

/* The default stream waits for blocking streams, not for those of new_stream. */
static void check_default_stream(unsigned flags)
{
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, flags));
    float *y = device_floats(N), host[N];
    CUDA_CHECK(cudaMemset(y, 0, N * sizeof *y));
    launch_saxpy(N, 1, numbers_on_device(N), y, 64, stream);
    fetch(host, y, N);
    for (int i = 0; i < N; i++)
        CHECK(host[i] == (float)(i * i % 31), "%d: %g", i, host[i]);
}

static void blocking_stream(const void *context)
{
    (void)context;
    check_default_stream(cudaStreamDefault);
}

static void nonblocking_stream(const void *context)
{
    (void)context;
    check_default_stream(cudaStreamNonBlocking);
}

static void test_streams(void **state)
{
    (void)state;
    assert_right(two_streams);
    assert_right(pinned);
    assert_right(pageable);
    assert_right(blocking_stream);
    assert_found(two_streams_without_event);
    assert_found(pinned_reused_early);
    assert_found(pinned_read_early);
    assert_found(nonblocking_stream);
}

/* Forks to a second stream and joins; argument values are recorded, but not their targets. */
static void graph(const void *context)
{
    (void)context;
    const cudaStream_t first = new_stream(), second = new_stream();
    float *x = numbers_on_device(N), *y = device_floats(N), *z = device_floats(N), host[N];
    CUDA_CHECK(cudaMemset(z, 0, N * sizeof *z));
    CUDA_CHECK(cudaDeviceSynchronize());
    cudaGraph_t recording;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    CUDA_CHECK(cudaMemsetAsync(y, 0, N * sizeof *y, first));
    launch_saxpy(N, 2, x, y, 64, first);
    CUDA_CHECK(cudaStreamWaitEvent(second, recorded(first), 0));
    launch_saxpy(N, 1, y, z, 64, second);
    CHECK(cudaMalloc((void **)&x, 4) == cudaErrorStreamCaptureUnsupported, "malloc");
    CHECK(cudaStreamSynchronize(first) == cudaErrorStreamCaptureUnsupported, "synchronize");
    CHECK(cudaStreamWaitEvent(second, recorded(new_stream()), 0) == cudaErrorStreamCaptureIsolation,
          "a wait for what is not captured");
    CUDA_CHECK(cudaStreamWaitEvent(first, recorded(second), 0));
    CUDA_CHECK(cudaStreamEndCapture(first, &recording));
    CUDA_CHECK(cudaGraphInstantiate(&exec, recording, 0));
    CUDA_CHECK(cudaGraphDestroy(recording));
    for (int launch = 0; launch < 3; launch++)
        CUDA_CHECK(cudaGraphLaunch(exec, first));
    CUDA_CHECK(cudaStreamSynchronize(first));
    fetch(host, z, N);
    for (int i = 0; i < N; i++)
        CHECK(host[i] == 6 * (float)(i * i % 31), "%d: %g", i, host[i]);
    CUDA_CHECK(cudaGraphExecDestroy(exec));
}

static void unjoined_graph(const void *context)
{
    (void)context;
    const cudaStream_t first = new_stream(), second = new_stream();
    float *y = device_floats(N);
    cudaGraph_t recording;
    CUDA_CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    CUDA_CHECK(cudaStreamWaitEvent(second, recorded(first), 0));
    CUDA_CHECK(cudaMemsetAsync(y, 0, N * sizeof *y, second));
    CHECK(cudaStreamEndCapture(first, &recording) == cudaErrorStreamCaptureUnjoined, "unjoined");
    CUDA_CHECK(cudaStreamSynchronize(first)); // as if there had been no error
}

/* "When an invalid operation is attempted during stream capture, any associated capture graphs are
 * invalidated" (CUDA C++ Programming Guide): by another thread, too. */
static void queried_graph(const void *context)
{
    (void)context;
    const cudaStream_t stream = new_stream();
    cudaGraph_t recording;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventQuery(recorded(stream)) == cudaErrorCapturedEvent, "query");
    CHECK(cudaStreamEndCapture(stream, &recording) == cudaErrorStreamCaptureInvalidated, "capture");
}

static void test_graphs(void **state)
{
    (void)state;
    assert_right(graph);
    assert_right(unjoined_graph);
    assert_right(queried_graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_tensor_cores),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
