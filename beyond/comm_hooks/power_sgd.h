/*
 * power_sgd.h - sends matrices of gradients as products of two thin ones: PyTorch's powerSGD_hook.
 *
 *      M   is about   P  Q^T          n x m numbers become (n + m) r
 *
 *     +---------+    +-+ +---------+
 *   n |         |  n | | |         | r        r: the rank of the approximation, 1 to 4
 *     |         |    | | +---------+
 *     +---------+    +-+      m
 *          m          r
 *
 * - Call power_sgd_init after reducer_init: it registers the hook.
 * - After reducer_finalize call power_sgd_decompress.
 *
 * Vogels, Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019. What a step leaves out is kept on this
 * rank and added to its next gradient (error feedback), so nothing is lost, only delayed.
 */
#ifndef BEYOND_COMM_HOOKS_POWER_SGD_H
#define BEYOND_COMM_HOOKS_POWER_SGD_H

#include "common/comm/ddp.h"

/* How one parameter travels: as a matrix with a row for each output channel. */
typedef struct {
    int n, m; // rows and columns
    int rank; // columns of P and Q; 0 if sent whole, since it would save less than half
    size_t message; // offset in PowerSgd.message of its P or gradients
    size_t q; // offset in PowerSgd.q
} Factors;

typedef struct {
    Reducer *reducer;
    uint64_t step, start; // steps before `start` send all gradients whole
    Factors *factors; // by parameter
    float *error; // what earlier steps left out on this rank, as long as the gradients
    float *message, *q; // first and second messages of all buckets, in their order
} PowerSgd;

/* Sends at most `rank` columns. In the first `start` steps, whose gradients matter most, nothing is
 * compressed (start_powerSGD_iter). Usage error if the gradients are on a GPU. Local. */
void power_sgd_init(PowerSgd *power, Reducer *reducer, int rank, uint64_t start);

/* Sends the second messages, waits for them and computes the gradients. Collective. */
void power_sgd_decompress(PowerSgd *power);

void power_sgd_free(PowerSgd *power);

#endif
