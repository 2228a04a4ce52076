/* ddp_training.h - for the Reducer's tests: parameters, gradients and ranks, but no model. */
#ifndef TESTS_COMMON_COMM_DDP_TRAINING_H
#define TESTS_COMMON_COMM_DDP_TRAINING_H

#include "common/comm/ddp.h"
#include "tests/helpers/ranks.h"

#define MAX_PARAMETERS 32
#define NUM_PARAMETERS 9 // parameters of a Training

/* Parameters one after the other, like a model's. */
typedef struct {
    Tensor parameter[MAX_PARAMETERS];
    int num_parameters;
    size_t numel;
} Parameters;

/* A group, parameters and their gradients, and a reducer over them. */
typedef struct {
    ProcessGroup pg;
    Parameters p;
    float *grads;
    Reducer reducer;
} Training;

Parameters parameters_of(const size_t *sizes, int num_sizes);
Parameters training_parameters(void); // NUM_PARAMETERS parameters, p0 to p8

/* Places every two ranks on one node if --all-reduce is hierarchical. */
void training_init(Training *t, Rank *rank, double cap_mb);
void training_free(Training *t);

/* Returns what rank adds to gradient k in a pass: integers, whose sums are exact. */
float gradient(int rank, int pass, size_t k);

/* Adds this rank's gradients of parameter i, and marks it ready in the reducer. */
void backward_parameter(Training *t, int pass, int i);

/* Makes all parameters ready, in an order that differs between passes and ranks. */
void backward(Training *t, int pass);

void zero_grad(Training *t);

/* Checks that parameter i holds the mean over ranks of the sum over passes first..last. */
void expect_mean(const Training *t, int i, int first, int last);

/* Runs three passes with different gradients; after each, all parameters must hold the mean. */
void expect_means(Training *t);

#endif
