/*
 * --cuda-graph: a training step is captured once and replayed from then on. Its fifty kernels then
 * cost the host one call, without gaps between them on the GPU: at small batches those are most of
 * a step's time.
 *
 * The recording holds every pointer and every number that the kernels were given. So what changes
 * from step to step is read from device memory, from a message copied there before each step: the
 * batch's rows of the data set, and step_offset, how many steps later than the recorded one this
 * is. Kernels that depend on the step number (it keys dropout masks and Adam's bias correction) add
 * it to the recorded number. Without a graph it is 0.
 *
 * The first steps run eagerly, since first calls allocate: cuBLAS loads its kernels, NCCL connects
 * the ranks, the data set is copied. Batches of another size, such as the last of an epoch, are not
 * recorded; nor are evaluations. Collectives are recorded with the rest: the communication stream
 * waits for an event of this one, which makes it part of the capture, and must be joined before the
 * step ends. So ranks must record and replay the same steps; they do, since their batches have
 * equal sizes. Source: CUDA C++ Programming Guide, "CUDA Graphs"; NCCL User Guide, "Using NCCL with
 * CUDA Graphs".
 */
#include <stddef.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/nn/cuda/cuda_state.h"

enum { WARM_UP = 3 };

/* A recorded training step. */
typedef struct CudaGraph {
    DeviceOps ops; // the device's table with the entries below
    const DeviceOps *inner; // the device's own table
    cudaGraphExec_t exec; // NULL if there is none yet
    bool recording;
    bool gathered; // whether its batch was gathered while recording
    const Dataset *dataset; // the data set of its batches, and of the warm-up's
    int batch_size;
    int warm_up; // number of steps with such batches so far
    uint64_t step; // the recorded one; a later one's step_offset is the difference
} CudaGraph;

static CudaGraph *graph_of(const Device *device)
{
    return cuda_state(device)->graph;
}

static bool is_recorded_size(const CudaGraph *graph, const Batch *batch)
{
    return graph->dataset == batch->dataset && graph->batch_size == batch->size;
}

static void check_only_pass(bool is_first)
{
    CHECK(is_first, "--cuda-graph on records steps of one forward pass, and this one has a second: "
                    "leave it out");
}

/* Replays the step; an entry of the table, so that extras/watch sees it. */
static void replay(Device *device)
{
    CUDA_CHECK(cudaGraphLaunch(graph_of(device)->exec, cuda_state(device)->stream));
}

static void begin_step(Device *device, const Batch *batch, uint64_t step)
{
    CudaGraph *graph = graph_of(device);
    check_only_pass(!graph->recording && !device->replaying);
    if (graph->exec != NULL) {
        device->replaying = is_recorded_size(graph, batch);
        if (device->replaying) {
            cuda_feed_send(device, batch, step - graph->step);
            device->ops->replay(device);
        }
        return;
    }
    if (!is_recorded_size(graph, batch)) {
        graph->dataset = batch->dataset;
        graph->batch_size = batch->size;
        graph->warm_up = 0;
    }
    if (graph->warm_up++ < WARM_UP)
        return;

    cuda_feed_send(device, batch, 0);
    graph->step = step;
    graph->recording = true;
    // Other threads, such as one that watches NCCL, may go on calling CUDA.
    CUDA_CHECK(
        cudaStreamBeginCapture(cuda_state(device)->stream, cudaStreamCaptureModeThreadLocal));
}

static void gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                   float *targets)
{
    CudaGraph *graph = graph_of(device);
    check_only_pass(!graph->gathered);
    graph->gathered = graph->recording;
    graph->inner->gather(device, batch, inputs, labels, targets);
}

static void end_step(Device *device)
{
    CudaGraph *graph = graph_of(device);
    device->replaying = false;
    if (!graph->recording)
        return;
    graph->recording = graph->gathered = false;
    cudaGraph_t recorded;
    CUDA_CHECK(cudaStreamEndCapture(cuda_state(device)->stream, &recorded));
    CUDA_CHECK(cudaGraphInstantiate(&graph->exec, recorded, 0));
    CUDA_CHECK(cudaGraphDestroy(recorded));
    device->ops->replay(device); // capturing did not run it
}

/* Drops the graph. Later steps run eagerly, and are recorded anew after the warm-up. */
static void drop(Device *device)
{
    CudaGraph *graph = graph_of(device);
    if (graph->exec == NULL)
        return;
    graph->inner->synchronize(device); // the graph may be running
    CUDA_CHECK(cudaGraphExecDestroy(graph->exec));
    graph->exec = NULL;
    graph->warm_up = 0;
}

/* Implements MemoryLocation.drop_graph. */
static void drop_of(const bool *replaying)
{
    drop((Device *)((const char *)replaying - offsetof(Device, replaying)));
}

/* Reserves memory. A larger model or batch than before allocates it anew; a recorded step would use
 * the old memory, so it is dropped. */
static void gather_reserve(Device *device, int max_batch, int features)
{
    const CudaFeed *feed = &cuda_state(device)->feed;
    if (max_batch > feed->max_batch || features > feed->features)
        drop(device);
    graph_of(device)->inner->gather_reserve(device, max_batch, features);
}

static void drop_if_grown(Device *device, size_t scratch_bytes)
{
    if (cuda_state(device)->scratch_bytes != scratch_bytes)
        drop(device); // cudaFree has waited for the graph's work
}

static void conv_reserve(Device *device, ConvShape shape)
{
    const size_t bytes = cuda_state(device)->scratch_bytes;
    graph_of(device)->inner->conv_reserve(device, shape);
    drop_if_grown(device, bytes);
}

static void linear_reserve(Device *device, int max_batch, int in, int out)
{
    const size_t bytes = cuda_state(device)->scratch_bytes;
    graph_of(device)->inner->linear_reserve(device, max_batch, in, out);
    drop_if_grown(device, bytes);
}

static void graph_free(Device *device)
{
    CudaGraph *graph = graph_of(device);
    drop(device);
    graph->inner->free(device);
    free(graph);
}

void cuda_graph_init(Device *device)
{
    CudaGraph *graph = cuda_state(device)->graph = mem_calloc(1, sizeof *graph);
    graph->inner = device->ops;
    graph->ops = *device->ops;
    graph->ops.begin_step = begin_step;
    graph->ops.end_step = end_step;
    graph->ops.replay = replay;
    graph->ops.gather = gather;
    graph->ops.gather_reserve = gather_reserve;
    graph->ops.conv_reserve = conv_reserve;
    graph->ops.linear_reserve = linear_reserve;
    graph->ops.free = graph_free;
    device->ops = &graph->ops;
    device->place.drop_graph = drop_of;
}
