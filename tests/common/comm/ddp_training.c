/* Every rank can compute all the others' gradients, and so the expected mean. */
#include "tests/common/comm/ddp_training.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"

Parameters parameters_of(const size_t *sizes, int num_sizes)
{
    static const char *const names[] = { "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7",
                                         "p8", "p9", "pa", "pb", "pc", "pd", "pe", "pf" };
    Parameters p = { .num_parameters = num_sizes };
    for (int i = 0; i < num_sizes; i++) {
        p.parameter[i] = (Tensor){ .name = names[i % 16], .offset = p.numel, .numel = sizes[i] };
        p.numel += sizes[i];
    }
    return p;
}

Parameters training_parameters(void)
{
    static const size_t sizes[NUM_PARAMETERS] = { 9, 1, 300, 7, 20000, 128, 64, 10, 1 };
    return parameters_of(sizes, NUM_PARAMETERS);
}

void training_init(Training *t, Rank *rank, double cap_mb)
{
    rank_join(rank, &t->pg);
    if (rank->args.all_reduce == ALL_REDUCE_HIERARCHICAL)
        process_group_set_nodes(&t->pg, &rank->args, rank->rank / 2);
    t->p = training_parameters();
    t->grads = mem_calloc(t->p.numel, sizeof *t->grads);
    rank->args.bucket_cap_mb = cap_mb;
    reducer_init(&t->reducer, &rank->args, &t->pg, t->grads, t->p.parameter, NUM_PARAMETERS);
}

void training_free(Training *t)
{
    reducer_free(&t->reducer);
    free(t->grads);
    process_group_destroy(&t->pg);
}

float gradient(int rank, int pass, size_t k)
{
    return (float)((k * 3 + (size_t)rank * 5 + (size_t)pass * 7) % 16);
}

void backward_parameter(Training *t, int pass, int i)
{
    const Tensor *p = &t->p.parameter[i];
    for (size_t k = p->offset; k < p->offset + p->numel; k++)
        t->grads[k] += gradient(t->pg.rank, pass, k);
    reducer_mark_ready(&t->reducer, i);
}

void zero_grad(Training *t)
{
    memset(t->grads, 0, t->p.numel * sizeof *t->grads);
}

void backward(Training *t, int pass)
{
    Rng rng;
    size_t order[NUM_PARAMETERS];
    rng_seed(&rng, (uint64_t)(pass * 10 + t->pg.rank));
    rng_permutation(&rng, order, NUM_PARAMETERS);
    for (int i = 0; i < NUM_PARAMETERS; i++)
        backward_parameter(t, pass, (int)order[i]);
}

void expect_mean(const Training *t, int i, int first, int last)
{
    const Tensor *p = &t->p.parameter[i];
    for (size_t k = p->offset; k < p->offset + p->numel; k++) {
        float sum = 0;
        for (int rank = 0; rank < t->pg.world_size; rank++)
            for (int pass = first; pass <= last; pass++)
                sum += gradient(rank, pass, k);
        const float mean = sum / (float)t->pg.world_size;
        CHECK(t->grads[k] == mean, "gradient %zu of %s is %.9g, not %.9g", k, p->name, t->grads[k],
              mean);
    }
}

void expect_means(Training *t)
{
    for (int pass = 0; pass < 3; pass++) {
        zero_grad(t);
        backward(t, pass);
        reducer_finalize(&t->reducer);
        for (int i = 0; i < NUM_PARAMETERS; i++)
            expect_mean(t, i, pass, pass);
    }
}
