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
#include "common/nn/cuda/cuda_state.h"

enum { WARM_UP = 3 };

static bool is_recorded_size(const CudaGraph *graph, const Batch *batch)
{
    return graph->dataset == batch->dataset && graph->batch_size == batch->size;
}

void cuda_replay(Device *device)
{
    const CudaState *state = cuda_state(device);
    CUDA_CHECK(cudaGraphLaunch(state->graph.exec, state->stream));
}

void cuda_begin_step(Device *device, const Batch *batch, uint64_t step)
{
    CudaState *state = cuda_state(device);
    CudaGraph *graph = &state->graph;
    if (!device->use_cuda_graph)
        return;
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
    CUDA_CHECK(cudaStreamBeginCapture(state->stream, cudaStreamCaptureModeThreadLocal));
}

void cuda_end_step(Device *device)
{
    CudaState *state = cuda_state(device);
    CudaGraph *graph = &state->graph;
    device->replaying = false;
    if (!graph->recording)
        return;
    graph->recording = graph->gathered = false;
    cudaGraph_t recorded;
    CUDA_CHECK(cudaStreamEndCapture(state->stream, &recorded));
    CUDA_CHECK(cudaGraphInstantiate(&graph->exec, recorded, 0));
    CUDA_CHECK(cudaGraphDestroy(recorded));
    device->ops->replay(device); // capturing did not run it
}

void cuda_graph_free(Device *device)
{
    CudaGraph *graph = &cuda_state(device)->graph;
    if (graph->exec != NULL)
        CUDA_CHECK(cudaGraphExecDestroy(graph->exec));
}
