/*
 * One step of the power iteration, with a message for each half:
 *
 *     hook, while the backward pass still runs    M += error; Q orthogonal; P = M Q
 *                                                 all_reduce(P)
 *     decompress, after it                        P orthogonal; Q = M^T P
 *                                                 all_reduce(Q)
 *                                                 gradient = P Q^T; error = M - gradient
 *
 * P and Q are means over the ranks, so all compute the same gradient; M and the error are each
 * rank's own. Q stays for the next step (warm start): the gradients of two steps are alike, and
 * the iteration goes on. Biases and small matrices travel whole, in the message with P.
 */
#include "beyond/comm_hooks/power_sgd.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/rng.h"

#define LEAST_SAVING 2 // numbers before / after, below which a matrix is not compressed

/* ---- arithmetic; P and Q are stored column by column, M row by row ---- */

static float dot(const float *a, const float *b, int count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* a += factor * b */
static void add_scaled(float *a, float factor, const float *b, int count)
{
    for (int i = 0; i < count; i++)
        a[i] += factor * b[i];
}

/* Makes the columns orthonormal (Gram-Schmidt). Twice, because the first time leaves only rounding
 * errors of a column that lies in the span of those before it. A column of zeros, as of a layer
 * without gradient, becomes a unit vector, so that it does not stay zero in all later steps. */
static void orthogonalize(float *columns, int rows, int rank)
{
    for (int c = 0; c < rank; c++) {
        float *column = columns + c * rows;
        for (int time = 0; time < 2; time++) {
            for (const float *before = columns; before < column; before += rows)
                add_scaled(column, -dot(before, column, rows), before, rows);
            const float length = sqrtf(dot(column, column, rows));
            for (int i = 0; length > 0 && i < rows; i++)
                column[i] /= length;
            if (length == 0)
                column[c] = 1;
        }
    }
}

/* P = M Q */
static void times(const Factors *f, const float *matrix, const float *q, float *p)
{
    for (int i = 0; i < f->n; i++)
        for (int c = 0; c < f->rank; c++)
            p[c * f->n + i] = dot(matrix + (size_t)i * f->m, q + c * f->m, f->m);
}

/* Q = M^T P */
static void transposed_times(const Factors *f, const float *matrix, const float *p, float *q)
{
    memset(q, 0, (size_t)(f->m * f->rank) * sizeof *q);
    for (int i = 0; i < f->n; i++)
        for (int c = 0; c < f->rank; c++)
            add_scaled(q + c * f->m, p[c * f->n + i], matrix + (size_t)i * f->m, f->m);
}

/* Replaces M by P Q^T, and keeps the difference. */
static void approximate(const Factors *f, float *matrix, float *error, const float *p,
                        const float *q)
{
    const size_t numel = (size_t)f->n * f->m;
    memcpy(error, matrix, numel * sizeof *error);
    memset(matrix, 0, numel * sizeof *matrix);
    for (int i = 0; i < f->n; i++)
        for (int c = 0; c < f->rank; c++)
            add_scaled(matrix + (size_t)i * f->m, p[c * f->n + i], q + c * f->m, f->m);
    for (size_t k = 0; k < numel; k++)
        error[k] -= matrix[k];
}

/* ---- the two halves ---- */

/* Return the elements of a parameter in the first message, and in the second. */
static size_t message_numel(const PowerSgd *power, int i)
{
    const Factors *f = &power->factors[i];
    return f->rank > 0 ? (size_t)(f->n * f->rank) : power->reducer->parameter[i].numel;
}

static size_t q_numel(const PowerSgd *power, int i)
{
    return (size_t)(power->factors[i].m * power->factors[i].rank);
}

/* The CommHook: the first half. */
static Work compress(void *state, float *grads, size_t numel)
{
    PowerSgd *power = state;
    Reducer *reducer = power->reducer;
    if (power->step < power->start)
        return all_reduce_async(reducer->pg, grads, numel, FLOAT32, REDUCE_MEAN);
    const Bucket *bucket = reducer->bucket;
    while (reducer->grads + bucket->offset != grads)
        bucket++;
    const int first = bucket->first_parameter, end = first + bucket->num_parameters;
    size_t count = 0;
    for (int i = first; i < end; i++) {
        const Factors *f = &power->factors[i];
        const Tensor *p = &reducer->parameter[i];
        float *matrix = reducer->grads + p->offset, *message = power->message + f->message;
        for (size_t k = 0; k < p->numel; k++)
            matrix[k] += power->error[p->offset + k];
        orthogonalize(power->q + f->q, f->m, f->rank);
        if (f->rank > 0)
            times(f, matrix, power->q + f->q, message);
        else
            memcpy(message, matrix, p->numel * sizeof *message);
        count += message_numel(power, i);
    }
    return all_reduce_async(reducer->pg, power->message + power->factors[first].message, count,
                            FLOAT32, REDUCE_MEAN);
}

/* Starts the second half of a bucket, up to its message. */
static Work send_q(PowerSgd *power, const Bucket *bucket)
{
    const int first = bucket->first_parameter, end = first + bucket->num_parameters;
    size_t count = 0;
    for (int i = first; i < end; i++) {
        const Factors *f = &power->factors[i];
        float *p = power->message + f->message;
        orthogonalize(p, f->n, f->rank);
        transposed_times(f, power->reducer->grads + power->reducer->parameter[i].offset, p,
                         power->q + f->q);
        count += q_numel(power, i);
    }
    return all_reduce_async(power->reducer->pg, power->q + power->factors[first].q, count, FLOAT32,
                            REDUCE_MEAN);
}

void power_sgd_decompress(PowerSgd *power)
{
    Reducer *reducer = power->reducer;
    if (!reducer->sync || power->step++ < power->start)
        return;
    for (int b = 0; b < reducer->num_buckets; b++)
        reducer->bucket[b].work = send_q(power, &reducer->bucket[b]);
    for (int b = 0; b < reducer->num_buckets; b++) {
        const Bucket *bucket = &reducer->bucket[b];
        work_wait(bucket->work);
        for (int k = 0; k < bucket->num_parameters; k++) {
            const int i = bucket->first_parameter + k;
            const Factors *f = &power->factors[i];
            const Tensor *p = &reducer->parameter[i];
            float *grads = reducer->grads + p->offset, *message = power->message + f->message;
            if (f->rank > 0)
                approximate(f, grads, power->error + p->offset, message, power->q + f->q);
            else
                memcpy(grads, message, p->numel * sizeof *grads);
        }
    }
}

/* ---- set-up ---- */

/* Chooses how parameter p is sent, by PyTorch's rule. */
static Factors factors_of(const Tensor *p, int rank)
{
    Factors f = { .n = (int)p->shape[0], .m = (int)(p->numel / p->shape[0]) };
    f.rank = rank < f.n ? rank : f.n;
    f.rank = f.rank < f.m ? f.rank : f.m;
    if ((size_t)LEAST_SAVING * (f.n + f.m) * f.rank >= p->numel)
        f.rank = 0;
    return f;
}

void power_sgd_init(PowerSgd *power, Reducer *reducer, int rank, uint64_t start)
{
    if (reducer->pg->place.on_gpu)
        usage_error("this hook is for --device cpu: it multiplies gradients in host memory");
    const Tensor *last = &reducer->parameter[reducer->num_parameters - 1];
    const size_t numel = last->offset + last->numel;
    *power = (PowerSgd){ .reducer = reducer, .start = start };
    power->factors = mem_calloc((size_t)reducer->num_parameters, sizeof *power->factors);
    power->error = mem_calloc(numel, sizeof *power->error);
    power->message = mem_calloc(numel, sizeof *power->message);
    power->q = mem_calloc(numel, sizeof *power->q);
    size_t num_message = 0, num_q = 0;
    for (int i = 0; i < reducer->num_parameters; i++) {
        power->factors[i] = factors_of(&reducer->parameter[i], rank);
        power->factors[i].message = num_message;
        power->factors[i].q = num_q;
        num_message += message_numel(power, i);
        num_q += q_numel(power, i);
    }
    Rng rng; // any seed will do, but it must be the same on all ranks
    rng_seed(&rng, 0);
    for (size_t k = 0; k < num_q; k++)
        power->q[k] = rng_uniform_between(&rng, -1, 1);
    reducer_register_comm_hook(reducer, compress, power);
}

void power_sgd_free(PowerSgd *power)
{
    free(power->q);
    free(power->message);
    free(power->error);
    free(power->factors);
}
