# The answer to lab-capstone's programs: our steps, whose evaluation also says which class is recognised worst.
/^.. Prints loss and accuracy/i\
enum { CLASSES = 10 };\
\
/* Counts the rows of each class, and those that are classified correctly. */\
static void count_classes(const Model *model, const Batch *batch, double rows[2][CLASSES])\
{\
    for (int i = 0; i < batch->size; i++) {\
        float log_probs[CLASSES];\
        device_copy(model->device, log_probs, model->log_probs + i * CLASSES, sizeof log_probs,\
                    COPY_TO_HOST);\
        int best = 0;\
        for (int c = 1; c < CLASSES; c++)\
            if (log_probs[c] > log_probs[best])\
                best = c;\
        const int label = batch->dataset->labels[batch->index[i]];\
        rows[0][label]++;\
        rows[1][label] += best == label;\
    }\
}\
\
static void print_worst(double rows[2][CLASSES])\
{\
    int worst = 0;\
    for (int c = 1; c < CLASSES; c++)\
        if (rows[1][c] * rows[0][worst] < rows[1][worst] * rows[0][c])\
            worst = c;\
    log_print("Worst class: %d %.2f%% (%.0f/%.0f)", worst, 100 * rows[1][worst] / rows[0][worst],\
              rows[1][worst], rows[0][worst]);\
}\

s/^    double loss = 0, correct = 0;$/&\
    double rows[2][CLASSES] = { { 0 } }; \/\/ of each class: all of them, and the correct ones/
s/^        correct += model_correct(model);$/&\
        count_classes(model, batch, rows);/
s/^    metrics_test(.*/&\
    print_worst(rows);/
s/^    correct = all_reduce_scalar.*/&\
    all_reduce(pg, rows, 2 * CLASSES, FLOAT64, REDUCE_SUM); \/\/ counts, not percentages/
s/^    if (pg->rank == 0)$/& {/
s/^        metrics_test(.*/&\
        print_worst(rows);\
    }/
