s/^#define TENSOR_RANKS 2/#define TENSOR_RANKS 4/
