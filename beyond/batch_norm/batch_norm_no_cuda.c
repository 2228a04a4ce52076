/* Stands in for layers_cuda.cu where there is no CUDA; then no device is a GPU. */
#include "beyond/batch_norm/layers.h"

const LayerOps layers_cuda;
