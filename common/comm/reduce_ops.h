/* reduce_ops.h - sum, mean, max and min of two arrays, element by element, for every type. */
#ifndef COMMON_COMM_REDUCE_OPS_H
#define COMMON_COMM_REDUCE_OPS_H

#include "common/comm/process_group.h"

/* out[i] = a[i] op b[i]; a mean is a sum until reduce_finish. out may equal a or b, but not overlap
 * them otherwise. Sums of integers wrap around. */
void reduce_elements(void *out, const void *a, const void *b, size_t count, DType type,
                     ReduceOp op);

/* The last step of a reduction over n ranks: where op is the mean, divides (integers are rounded
 * towards zero). */
void reduce_finish(void *data, size_t count, DType type, ReduceOp op, int n);

#endif
