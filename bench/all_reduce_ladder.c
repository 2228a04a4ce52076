/*
 * all_reduce_ladder - the rungs of extras/all_reduce_ladder on two GPUs: whether each gives the
 * sum on both, and how long it takes.
 *
 *     build/bench/all_reduce_ladder [floats [repeats]]
 *
 * It sums the CNN's gradients and then 64 MiB, or `floats` numbers, 50 times unless `repeats` is
 * given.
 * A process for each GPU, as in a training. The time is the mean of the repeats by the host's
 * clock, from a barrier until the slower GPU is done: a rung's own waiting counts. The status is 1
 * if a result is wrong. With fewer than two GPUs it prints that, and the status is 0.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cuda.h"
#include "common/base/host.h"
#include "common/base/words.h"
#include "common/comm/store/net.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

enum { MAX_FLOATS = 1 << 28, MAX_REPEATS = 100000 };
enum { GRADIENTS = 1199882, LARGE = 1 << 24 }; // floats: the CNN's gradients; 64 MiB
enum { ROUNDS = 3, SUMS = 3 }; // checks of a rung; sums before each check
enum { PERIOD = 1021 }; // period of the numbers

typedef struct {
    const PairRung *rung;
    bool needs_peer; // whether the GPUs must reach each other's memory
} Way;

static const Way ways[] = { { &rung_by_host, false },    { &rung_peer_copy, true },
                            { &rung_ring_kernel, true }, { &rung_nccl, false },
                            { &rung_symmetric, false },  { &rung_device_api, true } };
enum { NUM_WAYS = sizeof ways / sizeof ways[0] };

static size_t number(const char *text, long most)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > most)
        usage_error("all_reduce_ladder [floats [repeats]]: %s is not a number from 1 to %ld", text,
                    most);
    return (size_t)value;
}

/* Sums SUMS times in a row, without waiting between them, then overwrites the data, as a training
 * does, and returns this rank's largest error. All numbers are exact: the first sum is i + (i + 1),
 * and each later one doubles it. */
static double error_of(const PairRung *rung, Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    float *numbers = mem_alloc(pair->numel, sizeof *numbers);
    for (size_t i = 0; i < pair->numel; i++)
        numbers[i] = (float)(i % PERIOD) + (float)pair->rank;
    CUDA_CHECK(cudaMemcpyAsync(pair->data, numbers, bytes, cudaMemcpyHostToDevice, pair->stream));
    for (int i = 0; i < SUMS; i++)
        rung->run(pair);
    CUDA_CHECK(cudaMemcpyAsync(numbers, pair->data, bytes, cudaMemcpyDeviceToHost, pair->stream));
    CUDA_CHECK(cudaMemsetAsync(pair->data, 0xff, bytes, pair->stream)); // nan
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    double largest = 0;
    for (size_t i = 0; i < pair->numel; i++) {
        const double due = (double)(2 * (i % PERIOD) + 1) * (1 << (SUMS - 1));
        const double error = fabs((double)numbers[i] - due);
        largest = isnan(error) ? INFINITY : fmax(error, largest);
    }
    free(numbers);
    return largest;
}

static double seconds_of(const PairRung *rung, Pair *pair, size_t repeats)
{
    CUDA_CHECK(cudaMemsetAsync(pair->data, 0, pair->numel * sizeof(float), pair->stream));
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    barrier(pair->pg);
    const double begin = seconds_now();
    for (size_t i = 0; i < repeats; i++)
        rung->run(pair);
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    barrier(pair->pg);
    return (seconds_now() - begin) / (double)repeats;
}

/* Prints the rung's line on rank 0. Returns false if its result is wrong. */
static bool try_rung(const Way *way, Pair *pair, bool can_reach, size_t repeats)
{
    const PairRung *rung = way->rung;
    const char *missing = way->needs_peer && !can_reach
                              ? "these GPUs do not reach each other's memory"
                              : rung->open(pair);
    if (missing != NULL) {
        if (pair->rank == 0)
            log_print("%-16s %s", rung->name, missing);
        return true;
    }
    double error = 0;
    for (int i = 0; i < ROUNDS; i++)
        error = fmax(error, all_reduce_scalar(pair->pg, error_of(rung, pair), REDUCE_MAX));
    const double seconds = seconds_of(rung, pair, repeats);
    if (pair->rank == 0)
        log_print("%-16s %10.3f %9.2f %9.1e%s", rung->name, 1e3 * seconds,
                  1e-9 * (double)pair->numel * sizeof(float) / seconds, error,
                  error == 0 ? "" : "  WRONG");
    rung->close(pair);
    return error == 0;
}

static bool try_all(Pair *pair, size_t repeats)
{
    int can_reach;
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaDeviceCanAccessPeer(&can_reach, pair->rank, 1 - pair->rank));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, pair->rank));
    if (pair->rank == 0) {
        log_print("two of %s, %zu floats, mean of %zu", properties.name, pair->numel, repeats);
        log_print("%-16s %10s %9s %9s", "rung", "ms", "GB/s", "error");
    }
    bool right = true;
    for (int i = 0; i < NUM_WAYS; i++)
        right = try_rung(&ways[i], pair, can_reach != 0, repeats) && right;
    return right;
}

/* Tries all rungs with each of `sizes`, which ends with 0. Returns false if one is wrong. */
static bool rank_main(int rank, int port, float *host, const size_t *sizes, size_t repeats)
{
    Args args;
    args_defaults(&args, "cnn");
    args.backend = BACKEND_TCP; // for the barriers and scalars of the two processes
    log_set_rank(rank, 2);
    ProcessGroup pg;
    process_group_init(&pg, &args, "localhost", port, rank, 2, (MemoryLocation){ 0 });
    CUDA_CHECK(cudaSetDevice(rank));
    Pair pair = { .rank = rank, .pg = &pg };
    CUDA_CHECK(cudaStreamCreateWithFlags(&pair.stream, cudaStreamNonBlocking));
    bool right = true;
    for (; *sizes > 0; sizes++) {
        pair.numel = *sizes;
        for (int i = 0; i < 2; i++)
            pair.host[i] = host + (size_t)i * MAX_FLOATS;
        right = try_all(&pair, repeats) && right;
    }
    CUDA_CHECK(cudaStreamDestroy(pair.stream));
    process_group_destroy(&pg);
    return right;
}

/* Returns the status of the first process that failed, or 0. */
static int spawn(const size_t *sizes, size_t repeats)
{
    const int port = net_free_port();
    float *host = mmap(NULL, 2 * sizeof(float) * MAX_FLOATS, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(host != MAP_FAILED, "no memory that two processes share: %s", strerror(errno));
    secret_make();
    for (int rank = 0; rank < 2; rank++) {
        const pid_t parent = getpid(), pid = fork();
        SYS_CHECK(pid);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // kills this rank when the parent ends
            const bool right = getppid() == parent && rank_main(rank, port, host, sizes, repeats);
            exit(right ? EXIT_SUCCESS : EXIT_FAILURE);
        }
    }
    for (int status; wait(&status) > 0;)
        if (status != 0)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return 0;
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 2,
                "Usage: build/bench/all_reduce_ladder [floats [repeats]]\n\n"
                "Six ways to sum an array over two GPUs: whether each is right, and how long it "
                "takes.\n");
    const size_t numel = argc > 1 ? number(argv[1], MAX_FLOATS) : GRADIENTS;
    const size_t repeats = argc > 2 ? number(argv[2], MAX_REPEATS) : 50;
    const int count = gpus_count();
    if (count < 2) {
        log_print("six ways to sum over two GPUs are left out: this machine has %d", count);
        return 0;
    }
    return spawn((size_t[]){ numel, argc > 1 ? 0 : LARGE, 0 }, repeats);
}
