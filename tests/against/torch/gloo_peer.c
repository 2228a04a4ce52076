/*
 * A rank in C of the jobs of gloo.py; the environment says which, as for any rank.
 *
 *     gloo_peer collectives          all of them, on the numbers of gloo.py: a checksum of each
 * result gloo_peer train OPTIONS...     train_gloo, and the weights at the end to $WEIGHTS
 *     gloo_peer lost                 all-reduces without end, for a rank that dies or is missing
 *     gloo_peer odd|longer           makes another call than PyTorch's rank, or the same with fewer
 * numbers gloo_peer addresses ADDRESS    two all-reduces; ADDRESS is PyTorch's gloo_peer speed
 * BYTES          microseconds of each all-reduce, one when a line is read
 */
#include <stdio.h>
#include <stdlib.h>

#include "beyond/gloo/gloo.h"
#include "beyond/gloo/gloo_messages.h"
#include "common/base/log.h"

static void write_weights(const void *model);
/* The program itself, which leaves its weights here before it leaves the group. */
#define main train_main
#define process_group_destroy(pg) (write_weights(&model), process_group_destroy(pg))
#include "beyond/gloo/train_gloo.c"
#undef process_group_destroy
#undef main

static void write_weights(const void *context)
{
    const Model *model = context;
    FILE *file = fopen(getenv("WEIGHTS"), "wb");
    CHECK(file != NULL, "cannot write the weights");
    for (int i = 0; i < model->num_parameters; i++) {
        const size_t numel = model->parameter[i].numel;
        float *host = mem_alloc(numel, sizeof *host);
        model_export(model, i, model->params, host);
        fwrite(host, sizeof *host, numel, file);
        free(host);
    }
    fclose(file);
}

static ProcessGroup pg;

static uint32_t crc32_of(const void *data, size_t bytes)
{
    uint32_t c = 0xffffffffU;
    for (const unsigned char *p = data, *end = p + bytes; p < end; p++) {
        c ^= *p;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320U ^ c >> 1 : c >> 1;
    }
    return ~c;
}

static void show(const char *name, size_t count, DType type, int root, const void *data,
                 size_t shares)
{
    printf("%s %zu %s %d: %08x\n", name, count, dtype_name(type), root,
           crc32_of(data, count * shares * dtype_size(type)));
}

/* The same numbers as in gloo.py, by integers alone: fractions for floats, else small integers. */
static void *numbers(size_t count, int seed, DType type)
{
    char *data = mem_alloc(count + 1, dtype_size(type));
    for (size_t i = 0; i < count; i++) {
        int64_t x = ((int64_t)i * 1103515245 + (int64_t)seed * 7919 + 12345) % 2147483648;
        x = (x * 48271 + 11) % 2147483647;
        const double value = (double)x / 2147483647 - 0.5;
        const float rounded = (float)((double)(x % 512) / 256 - 1);
        switch (type) {
        case FLOAT32:
            ((float *)data)[i] = (float)value;
            break;
        case FLOAT64:
            ((double *)data)[i] = value;
            break;
        case BFLOAT16:
            memcpy(data + 2 * i, (const char *)&rounded + 2, 2);
            break;
        case INT32:
            ((int32_t *)data)[i] = (int32_t)(x % 100);
            break;
        case INT64:
            ((int64_t *)data)[i] = x % 100;
            break;
        default:
            ((uint8_t *)data)[i] = (uint8_t)(x % 100);
            break;
        }
    }
    return data;
}

static void all_reduces(void)
{
    static const size_t counts[] = { 0, 1, 2, 3, 5, 7, 1000, 100003 };
    static const char *const names[] = {
        [REDUCE_SUM] = "sum", [REDUCE_MAX] = "max", [REDUCE_MIN] = "min"
    };
    for (DType type = 0; type < NUM_DTYPES; type++)
        for (int op = REDUCE_SUM; op <= REDUCE_MIN; op += op == REDUCE_SUM ? 2 : 1)
            for (int k = 0; k < 8; k++) {
                void *t = numbers(counts[k], pg.rank, type);
                all_reduce(&pg, t, counts[k], type, (ReduceOp)op);
                show(names[op], counts[k], type, 0, t, 1);
                free(t);
            }
    static const size_t lengths[] = { 1199882, 3000001 };
    for (int k = 0; k < 2; k++) {
        void *t = numbers(lengths[k], pg.rank, FLOAT32);
        all_reduce(&pg, t, lengths[k], FLOAT32, REDUCE_SUM);
        show("sum", lengths[k], FLOAT32, 0, t, 1);
        free(t);
    }
    Work work[3];
    float *t[3];
    static const size_t async[] = { 1000000, 10, 500000 };
    for (int k = 0; k < 3; k++) {
        t[k] = numbers(async[k], pg.rank + 5, FLOAT32);
        work[k] = all_reduce_async(&pg, t[k], async[k], FLOAT32, REDUCE_SUM);
    }
    for (int k = 0; k < 3; k++) {
        work_wait(work[k]);
        show("async", async[k], FLOAT32, 0, t[k], 1);
        free(t[k]);
    }
}

static void rooted(size_t count, DType type, int root)
{
    const size_t n = (size_t)pg.world_size;
    char *out = mem_alloc(count * n + 1, dtype_size(type));
    void *t = numbers(count, pg.rank, type), *whole = numbers(count * n, 3, type);
    broadcast(&pg, t, count, type, root);
    show("broadcast", count, type, root, t, 1);
    free(t);
    t = numbers(count, pg.rank, type);
    gather(&pg, t, out, count, type, root);
    if (pg.rank == root)
        show("gather", count, type, root, out, n);
    reduce(&pg, t, count, type, REDUCE_SUM, root);
    if (pg.rank == root)
        show("reduce", count, type, root, t, 1);
    scatter(&pg, whole, out, count, type, root);
    show("scatter", count, type, root, out, 1);
    free(t), free(whole), free(out);
}

static void unrooted(size_t count, DType type)
{
    const size_t n = (size_t)pg.world_size;
    char *out = mem_alloc(count * n + 1, dtype_size(type));
    void *t = numbers(count, pg.rank, type), *whole = numbers(count * n, pg.rank, type);
    all_gather(&pg, t, out, count, type);
    show("all_gather", count, type, 0, out, n);
    reduce_scatter(&pg, whole, out, count, type, REDUCE_SUM);
    show("reduce_scatter", count, type, 0, out, 1);
    free(t), free(whole), free(out);
}

static void collectives(void)
{
    static const size_t counts[] = { 1, 3, 1000, 100003 };
    barrier(&pg);
    all_reduces();
    for (int k = 0; k < 4; k++)
        for (DType type = FLOAT32; type <= UINT8; type += UINT8 - FLOAT32) {
            for (int root = 0; root < pg.world_size; root++)
                rooted(counts[k], type, root);
            unrooted(counts[k], type);
        }
    rooted(3000001, FLOAT32, pg.world_size - 1);
    float *t = numbers(1000, pg.rank, FLOAT32), out[1000];
    const int next = (pg.rank + 1) % pg.world_size,
              last = (pg.rank + pg.world_size - 1) % pg.world_size;
    if (pg.rank == 0)
        pg_send(&pg, t, 1000, FLOAT32, next);
    pg_recv(&pg, out, 1000, FLOAT32, last);
    if (pg.rank > 0)
        pg_send(&pg, t, 1000, FLOAT32, next);
    show("recv", 1000, FLOAT32, 0, out, 1);
    free(t);
}

static void speed(size_t bytes)
{
    float *data = mem_calloc(bytes / sizeof(float), sizeof *data);
    for (char line[16]; fgets(line, sizeof line, stdin) != NULL;) {
        const double begun = seconds_now();
        all_reduce(&pg, data, bytes / sizeof(float), FLOAT32, REDUCE_SUM);
        log_print("%.1f", 1e6 * (seconds_now() - begun));
    }
    free(data);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2, "gloo_peer collectives|train|lost|odd|longer|addresses|speed");
    const char *mode = argv[1];
    if (strcmp(mode, "train") == 0)
        return train_main(argc - 1, argv + 1);
    Args args;
    args_defaults(&args, "linear");
    args.timeout = 200; // PyTorch may start slowly
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    log_set_rank(rank, world_size);
    gloo_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                    (MemoryLocation){ 0 });
    if (getenv("TIMEOUT") != NULL)
        ((Mesh *)pg.state)->timeout = atof(getenv("TIMEOUT"));
    float sum[100] = { 1 };
    if (strcmp(mode, "collectives") == 0)
        collectives();
    else if (strcmp(mode, "speed") == 0)
        speed((size_t)atol(argv[2]));
    else if (strcmp(mode, "odd") == 0 || strcmp(mode, "longer") == 0)
        all_reduce(&pg, sum, 100, FLOAT32, REDUCE_SUM);
    else if (strcmp(mode, "addresses") == 0)
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < 100; k++)
                sum[k] = 1;
            all_reduce(&pg, sum, 100, FLOAT32, REDUCE_SUM);
        }
    else
        for (log_print("joined");; poll(NULL, 0, 10))
            all_reduce(&pg, sum, 1, FLOAT32, REDUCE_SUM);
    process_group_destroy(&pg);
    return 0;
}
