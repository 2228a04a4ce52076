/* cuda_tree.h - sums over the threads of a block, in a fixed order. */
#ifndef COMMON_NN_CUDA_CUDA_TREE_H
#define COMMON_NN_CUDA_CUDA_TREE_H

/* The sum of `value` over the block's `SIZE` threads (a power of two), returned to all of them. In
 * the shared memory `tree`, halves are added to halves: it needs log2(SIZE) rounds. */
template <typename T, int SIZE> static inline __device__ T block_sum(T value, T *tree, int thread)
{
    __syncthreads(); // others may still read the previous sum
    tree[thread] = value;
    for (int half = SIZE / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            tree[thread] += tree[thread + half];
    }
    __syncthreads();
    return tree[0];
}

#endif
