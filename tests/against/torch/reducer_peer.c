/*
 * Our side of the Reducer, for reducer.py to compare with PyTorch's DDP. Forks the ranks; rank 0
 * writes raw floats to standard output.
 *
 *     reducer_peer uses WORLD STEPS          trains a network with a tied and a frozen matrix by
 *                                            SGD: the weights after each step
 *     reducer_peer bf16 WORLD STEPS          what the hook returns for drawn gradients, each step
 *     reducer_peer power WORLD STEPS RANK    the same; powers from step START on
 *
 * The hooks' second output, on standard error: the bytes that rank 0 has sent in each step.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beyond/comm_hooks/bf16_hook.h"
#include "beyond/comm_hooks/power_sgd.h"
#include "beyond/usage.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/comm/backend.h"
#include "common/comm/store/net.h"

enum { WIDTH = 12, MATRICES = 4, LAYERS = 5, ROWS = 4, START = 2 };

static const char *mode;
static int world_size, steps, hook_rank;

static void put(const float *values, size_t count)
{
    CHECK(fwrite(values, sizeof *values, count, stdout) == count, "cannot write");
}

/* ---- tied and frozen: tanh(A x), tanh(B x), tanh(B x), tanh(C x), tanh(D x); C is frozen ---- */

static const int matrix_of[LAYERS] = { 0, 1, 1, 2, 3 }, uses[MATRICES] = { 1, 2, 0, 1 };
static float weights[MATRICES][WIDTH][WIDTH], grads[MATRICES][WIDTH][WIDTH];

static float input(int step, int rank, int row, int i)
{
    return cosf((float)(1 + 7 * step + 3 * rank + 5 * row + 2 * i));
}

/* The loss is the mean of (output - input)^2. */
static void forward_backward(Reducer *reducer, int step, int rank)
{
    float x[ROWS][LAYERS + 1][WIDTH] = { 0 }, d[ROWS][WIDTH];
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < WIDTH; i++)
            x[row][0][i] = input(step, rank, row, i);
        for (int l = 0; l < LAYERS; l++)
            for (int o = 0; o < WIDTH; o++) {
                for (int i = 0; i < WIDTH; i++)
                    x[row][l + 1][o] += weights[matrix_of[l]][o][i] * x[row][l][i];
                x[row][l + 1][o] = tanhf(x[row][l + 1][o]);
            }
        for (int i = 0; i < WIDTH; i++)
            d[row][i] = 2 * (x[row][LAYERS][i] - x[row][0][i]) / (ROWS * WIDTH);
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        const int m = matrix_of[l];
        for (int row = 0; row < ROWS; row++) {
            float before[WIDTH] = { 0 };
            for (int o = 0; o < WIDTH; o++) {
                const float y = x[row][l + 1][o], dz = d[row][o] * (1 - y * y);
                for (int i = 0; i < WIDTH; i++) {
                    grads[m][o][i] += uses[m] > 0 ? dz * x[row][l][i] : 0;
                    before[i] += dz * weights[m][o][i];
                }
            }
            memcpy(d[row], before, sizeof before);
        }
        if (uses[m] > 0)
            reducer_mark_ready(reducer, m);
    }
}

static void train_uses(ProcessGroup *pg, const Args *args)
{
    Tensor parameter[MATRICES];
    for (int m = 0; m < MATRICES; m++)
        parameter[m] = (Tensor){ .name = "w",
                                 .offset = (size_t)m * WIDTH * WIDTH,
                                 .numel = (size_t)WIDTH * WIDTH };
    float *w = &weights[0][0][0], *g = &grads[0][0][0];
    const size_t numel = sizeof weights / sizeof *w;
    for (size_t k = 0; k < numel; k++)
        w[k] = sinf((float)(k + 1)) / 2;
    Reducer reducer;
    reducer_init(&reducer, args, pg, g, parameter, MATRICES);
    reducer_set_uses(&reducer, uses);
    for (int step = 0; step < steps; step++) {
        memset(grads, 0, sizeof grads);
        forward_backward(&reducer, step, pg->rank);
        reducer_finalize(&reducer);
        for (size_t k = 0; k < numel; k++)
            w[k] -= 0.5F * g[k];
        if (pg->rank == 0)
            put(w, numel);
    }
    reducer_free(&reducer);
}

/* ---- hooks ---- */

static void run_hook(ProcessGroup *pg, const Args *args)
{
    static const size_t shapes[][4] = { { 24, 40 }, { 24 },     { 16, 3, 3, 3 }, { 16 },
                                        { 4, 4 },   { 10, 64 }, { 10 } };
    enum { COUNT = sizeof shapes / sizeof *shapes };
    Tensor parameter[COUNT] = { 0 };
    size_t numel = 0;
    for (int i = 0; i < COUNT; i++) {
        Tensor *p = &parameter[i];
        *p = (Tensor){ .name = "p", .offset = numel, .numel = 1 };
        for (; p->ndim < 4 && shapes[i][p->ndim] > 0; p->ndim++)
            p->numel *= p->shape[p->ndim] = shapes[i][p->ndim];
        numel += p->numel;
    }
    float *g = mem_calloc(numel, sizeof *g);
    Reducer reducer;
    reducer_init(&reducer, args, pg, g, parameter, COUNT);
    const bool is_bf16 = strcmp(mode, "bf16") == 0;
    Bf16Hook bf16;
    PowerSgd power;
    if (is_bf16)
        bf16_hook_init(&bf16, &reducer);
    else
        power_sgd_init(&power, &reducer, hook_rank, START);
    for (int step = 0; step < steps; step++) {
        Rng rng;
        rng_seed(&rng, (uint64_t)(1000 * step + pg->rank));
        for (size_t k = 0; k < numel; k++)
            g[k] = rng_uniform_between(&rng, -1, 1);
        uint64_t before, after, received;
        tcp_payload_bytes(pg, &before, &received);
        for (int i = COUNT - 1; i >= 0; i--)
            reducer_mark_ready(&reducer, i);
        reducer_finalize(&reducer);
        if (is_bf16)
            bf16_hook_decompress(&bf16);
        else
            power_sgd_decompress(&power);
        tcp_payload_bytes(pg, &after, &received);
        if (pg->rank == 0) {
            put(g, numel);
            fprintf(stderr, "%d\n", (int)(after - before));
        }
    }
    if (is_bf16)
        bf16_hook_free(&bf16);
    else
        power_sgd_free(&power);
    reducer_free(&reducer);
    free(g);
}

static void run_rank(int rank, int port)
{
    Args args;
    args_defaults(&args, "linear");
    args.backend = BACKEND_TCP;
    args.bucket_cap_mb = strcmp(mode, "uses") == 0 ? 1e-9 : 3e-3; // several buckets
    ProcessGroup pg;
    process_group_init(&pg, &args, "localhost", port, rank, world_size, (MemoryLocation){ 0 });
    (strcmp(mode, "uses") == 0 ? train_uses : run_hook)(&pg, &args);
    process_group_destroy(&pg);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4, "reducer_peer uses|bf16|power WORLD STEPS [RANK]");
    mode = argv[1];
    world_size = atoi(argv[2]);
    steps = atoi(argv[3]);
    hook_rank = argc > 4 ? atoi(argv[4]) : 1;
    const int port = net_free_port();
    secret_make();
    int failed = 0;
    for (int rank = 0; rank < world_size; rank++) {
        const pid_t pid = fork();
        SYS_CHECK(pid);
        if (pid == 0) {
            run_rank(rank, port);
            return 0;
        }
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}
