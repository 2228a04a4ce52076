#!/usr/bin/env python3
"""Usage: bench/gpu_model.py [L2 [BATCH...]]      How many kernels a step of the CNN launches on a GPU, and how many
bytes they read and write, by formula: nothing here was measured. A line for each batch (32 512 4096) and precision, with
--conv im2col and cudnn, on a GPU with an L2 cache of this many MiB (50: an H100's).

A product counts as one launch that reads each operand and writes its result once; cuDNN's may be several. What stays in
the L2 cache between two kernels is counted, too. tests/cuda/launches.bats counts the launches on the stand-in.
"""
import sys

L2 = int(sys.argv[1]) if len(sys.argv) > 1 else 50
CHUNK = max(L2 << 19, 8 << 20)  # bytes of windows, or with cuDNN of results, that are computed at once (device_cuda.c)
X, Z, POOLED, PIXELS = 26 * 26 * 32, 24 * 24 * 64, 12 * 12 * 64, 28 * 28  # numbers of an image
WINDOWS, FILTERS, HIDDEN, CLASSES, PARAMETERS = 24 * 24 * 288, 64 * 288, 128, 10, 1199882


class Step:
    """Counts the kernels of one step; `short` is the size of a number in a product."""

    def __init__(self, n, short):
        self.n, self.short, self.launches, self.bytes = n, short, 0, 0
        self.between = 4  # bytes of a number that passes from layer to layer

    def kernel(self, *byte_counts):
        self.launches += 1
        self.bytes += sum(byte_counts)

    def rounded(self, numbers):
        """An operand of a product, which --amp rounds first."""
        if self.short < 4:
            self.kernel((4 + self.short) * numbers)

    def chunks(self, bytes_per_image):
        return -(-self.n // (CHUNK // bytes_per_image))

    def sum_rows(self, rows, columns, with_relu, size):
        """The parts' sums, if there are several: in 16 bits there always are."""
        self.kernel(size * rows * columns * (3 if with_relu else 1))
        if rows > 128 or size < 4:
            self.kernel(0)

    def spread(self, count, *byte_counts):
        """One kernel for each chunk; the bytes are those of all."""
        self.launches += count - 1
        self.kernel(*byte_counts)


def conv2_im2col(step):
    n, s = step.n, step.short
    c = step.chunks(WINDOWS * s)
    step.rounded(FILTERS)
    step.spread(c, n * (4 * X + s * WINDOWS))  # im2col
    step.spread(c, n * (s * WINDOWS + 4 * Z))  # product
    step.spread(c, n * (4 * Z + 5 * POOLED))  # bias, relu, pooling
    step.sum_rows(n * 144, 64, True, step.between)
    step.rounded(FILTERS)
    step.spread(c, n * (5 * POOLED + s * Z))  # unpool
    step.spread(c, n * (4 * X + s * WINDOWS))  # im2col again
    step.spread(c, n * (s * Z + s * WINDOWS))  # weights' gradient
    step.spread(c, n * (s * Z + s * WINDOWS))  # windows' gradient
    step.spread(c, n * (s * WINDOWS + 4 * X))  # col2im


def conv2_cudnn(step):
    n, s = step.n, step.short
    c = step.chunks(Z * s)
    for _ in range(2):  # forward and backward
        step.rounded(FILTERS)
    step.spread(c, n * s * (X + Z))  # convolution
    step.spread(c, n * (s * Z + (s + 1) * POOLED))  # bias, relu, pooling
    step.sum_rows(n * 144, 64, True, step.between)
    step.spread(c, n * ((s + 1) * POOLED + s * Z))  # unpool
    step.spread(c, n * s * (X + Z))  # weights' gradient
    step.spread(c, n * s * (X + Z))  # input's gradient
    if s < 4:
        step.spread(c, c * 10 * FILTERS)  # added to the float32 one


def linear(step, inputs, outputs):
    n = step.n
    s = step.short if outputs >= 32 or step.between < 4 else 4
    product = s * (n * inputs + inputs * outputs + n * outputs)
    operands = [n * inputs, inputs * outputs, n * outputs, n * inputs, n * outputs, inputs * outputs]
    is_last = outputs == CLASSES  # its outputs and their gradient are in float32
    for numbers in operands:
        if s < 4 and (step.between == 4 or numbers == inputs * outputs):
            step.rounded(numbers)
    if s < 4 and step.between < 4 and is_last:
        step.rounded(n * outputs)
        step.rounded(n * outputs)
    for _ in range(3):
        step.kernel(product)
    step.kernel(8 * n * outputs)  # bias
    step.sum_rows(n, outputs, False, 4 if is_last else step.between)


def step_of(n, short, conv2):
    step = Step(n, short)
    if conv2 == conv2_cudnn:
        step.between = short
    a = step.between
    step.kernel(4 * PARAMETERS)  # gradients to zero
    step.kernel(5 * n * PIXELS)  # gather
    step.kernel(n * (4 * PIXELS + a * X))  # conv1
    step.kernel(n * (4 * PIXELS + 2 * a * X))  # its gradient, in parts
    if a == 4:
        step.kernel(0)  # their sums
    else:
        parts = min(-(-n * 26 // 8), 1024)
        step.sum_rows(parts, 32 * 9, False, 4)
        step.sum_rows(parts, 32, False, 4)
    conv2(step)
    step.kernel(2 * a * n * POOLED)  # dropout
    linear(step, POOLED, HIDDEN)
    step.kernel(2 * a * n * HIDDEN)  # dropout
    step.kernel(3 * a * n * HIDDEN)  # relu's gradient
    linear(step, HIDDEN, CLASSES)
    step.kernel(8 * n * CLASSES)  # loss: a block for each 128 rows, and if there are several one that adds
    if n > 128:
        step.kernel(0)
    step.kernel(8 * n * CLASSES)  # its gradient
    step.kernel(5 * 4 * PARAMETERS)  # sgd with momentum
    return step


if __name__ == "__main__":
    print("batch  precision   launches: im2col  cudnn     MB: im2col    cudnn")
    for batch in [int(word) for word in sys.argv[2:]] or [32, 512, 4096]:
        for precision, size in ("fp32", 4), ("bf16", 2):
            ways = [step_of(batch, size, conv2) for conv2 in (conv2_im2col, conv2_cudnn)]
            print(f"{batch:5}  {precision}{ways[0].launches:24}{ways[1].launches:7}"
                  f"{ways[0].bytes / 1e6:15,.0f}{ways[1].bytes / 1e6:9,.0f}")
