/* conv_shape.h - the sizes of a convolution, for C and for kernels. */
#ifndef COMMON_NN_CONV_SHAPE_H
#define COMMON_NN_CONV_SHAPE_H

/* A convolution with a square kernel, stride 1, no padding: out = in - kernel + 1. */
typedef struct {
    int in_channels, in_size; // images of in_size x in_size
    int out_channels, kernel;
} ConvShape;

static inline int conv_out_size(ConvShape shape)
{
    return shape.in_size - shape.kernel + 1;
}

static inline int conv_filter_numel(ConvShape shape) // weights of one output channel
{
    return shape.kernel * shape.kernel * shape.in_channels;
}

#endif
