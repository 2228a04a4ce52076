/*
 * conv_net.h - the network of train_batch_norm.c: two blocks of convolution, batch norm and relu,
 * then a linear layer.
 *
 *     nn.Sequential(OrderedDict(
 *         conv1=nn.Conv2d(1, 8, 3, stride=2, bias=False), bn1=nn.BatchNorm2d(8), relu1=nn.ReLU(),
 *         conv2=nn.Conv2d(8, 16, 3, stride=2, bias=False), bn2=nn.BatchNorm2d(16),
 *         relu2=nn.ReLU(), flatten=nn.Flatten(), fc=nn.Linear(576, 10),
 *         log_softmax=nn.LogSoftmax(1)))
 *
 * The models of common/nn have no buffers, so this one has a file of its own, all of it in
 * PyTorch's layout. Parameters form one flat array, as do gradients, momentum and buffers.
 */
#ifndef BEYOND_CONV_NET_H
#define BEYOND_CONV_NET_H

#include "beyond/batch_norm/batch_norm.h"
#include "common/base/rng.h"
#include "common/comm/ddp.h"
#include "common/nn/device.h"

enum { NET_BLOCKS = 2, NET_PARAMETERS = 3 * NET_BLOCKS + 2, NET_BUFFERS = 2 * NET_BLOCKS };

/* Convolution (3 x 3, stride 2, no bias), batch norm, relu. */
typedef struct {
    Conv conv; // weight and dweight are slices of params and grads
    BatchNorm norm;
    float *convolved, *output, *doutput; // [rows][channels][size][size]
} Block;

typedef struct {
    Device *device;
    Tensor parameter[NET_PARAMETERS]; // in the order of the forward pass, with PyTorch's names
    float *params, *grads, *momentum_buffer; // numel floats each
    size_t numel;
    Tensor buffer[NET_BUFFERS]; // running_mean and running_var of each block
    float *buffers; // buffers_numel floats
    size_t buffers_numel;
    int64_t *num_batches_tracked; // [NET_BLOCKS], the buffers that are not floats
    uint64_t step; // optimizer steps taken
    bool training; // batch norm uses the batch, and moves the running averages

    Block block[NET_BLOCKS];
    const float *fc_weight, *fc_bias;
    float *dfc_weight, *dfc_bias;
    int max_batch, batch_size; // most rows of a batch; rows of the last one
    int32_t *labels;
    float *inputs, *logits, *dlogits, *log_probs, *stats;
    Divergence *divergence;
} ConvNet;

/* args_parse for a program with this network: --help begins with the options that it refuses, which
 * are usage errors. */
void conv_net_parse_args(Args *args, int argc, char **argv);

/* Draws the weights from rng as PyTorch's default initialisation does. Local. */
void conv_net_init(ConvNet *net, const Args *args, int max_batch, Rng *rng, Device *device);
void conv_net_free(ConvNet *net);

/* torch.nn.SyncBatchNorm.convert_sync_batchnorm: from here on, mean and variance are those of the
 * batch of all ranks. Then training passes are collective. */
void conv_net_convert_sync_batch_norm(ConvNet *net, ProcessGroup *pg);

/* Copies rank 0's buffers to all ranks, as DDP does before a forward pass (broadcast_buffers=True).
 * Collective. */
void conv_net_broadcast_buffers(ConvNet *net, ProcessGroup *pg);

/* Returns the largest difference between the ranks' running averages. Collective. */
double conv_net_buffer_spread(const ConvNet *net, ProcessGroup *pg);

void conv_net_forward(ConvNet *net, const Batch *batch); // fetches the rows, computes the loss
void conv_net_backward(ConvNet *net, Reducer *reducer); // notifies it as each gradient gets ready
void conv_net_step(ConvNet *net, const Args *args); // SGD; counts net->step

/* Results of the last forward pass. */
float conv_net_loss(const ConvNet *net); // mean over the batch
int conv_net_correct(const ConvNet *net); // rows classified correctly
Divergence conv_net_divergence(const ConvNet *net); // since the beginning

#endif
