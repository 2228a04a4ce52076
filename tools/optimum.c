/*
 * optimum - the smallest loss that the linear model can reach, without any training.
 *
 *     tools/optimum --seed 1 --dataset-size 4096        # 0.0825520127
 *
 * The mean squared error of a linear layer is a parabola in its weights, so its lowest point is
 * where all its slopes are zero: the normal equations (X^T X) w = X^T y, in which each row of X is
 * a row of the data set with a 1 for the bias. Training goes there in many small steps; `make plot`
 * draws the line. Options are those of step 01.
 */
#include <math.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/data/dataset.h"

enum { MAX_COLUMNS = 64 };

/* Solves A w = b, A symmetric and positive, by Cholesky's factors A = L L^T, which replace A. */
static void solve(int n, double a[][MAX_COLUMNS], double *b)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            a[j][j] -= a[j][k] * a[j][k];
        CHECK(a[j][j] > 1e-9, "column %d of the data depends on the others: too few rows?", j);
        a[j][j] = sqrt(a[j][j]);
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++)
                a[i][j] -= a[i][k] * a[j][k];
            a[i][j] /= a[j][j];
        }
    }
    for (int i = 0; i < n; i++) { // L z = b
        for (int k = 0; k < i; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = n - 1; i >= 0; i--) { // L^T w = z
        for (int k = i + 1; k < n; k++)
            b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
}

/* Returns column j of a row of X. */
static double entry(const Dataset *dataset, size_t row, int j)
{
    const int features = (int)dataset->features;
    return j < features ? (double)dataset->floats[row * dataset->features + j] : 1;
}

static double smallest_loss(const Dataset *dataset)
{
    static double a[MAX_COLUMNS][MAX_COLUMNS];
    double w[MAX_COLUMNS] = { 0 };
    const int n = (int)dataset->features + 1;
    for (size_t row = 0; row < dataset->size; row++)
        for (int i = 0; i < n; i++) {
            for (int j = 0; j <= i; j++)
                a[i][j] += entry(dataset, row, i) * entry(dataset, row, j);
            w[i] += entry(dataset, row, i) * (double)dataset->targets[row];
        }
    solve(n, a, w);

    double loss = 0;
    for (size_t row = 0; row < dataset->size; row++) {
        double error = -(double)dataset->targets[row];
        for (int j = 0; j < n; j++)
            error += w[j] * entry(dataset, row, j);
        loss += error * error;
    }
    return loss / (double)dataset->size;
}

int main(int argc, char **argv)
{
    char *linear[argc + 2]; // --model linear comes first: an option after it may only repeat it
    linear[0] = argv[0];
    linear[1] = "--model=linear";
    for (int i = 1; i <= argc; i++)
        linear[i + 1] = argv[i];

    Args args;
    args_parse(&args, STEP_SINGLE, argc + 1, linear);
    Rng rng;
    rng_seed(&rng, args.seed);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    if (dataset.targets == NULL || dataset.features >= MAX_COLUMNS)
        usage_error("the linear model has an optimum to compute on --dataset random only");
    printf("%.9g\n", smallest_loss(&dataset));
    dataset_free(&dataset);
    streams_exit();
}
