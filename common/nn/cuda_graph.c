/*
 * --cuda-graph: a training step is recorded once and replayed from then on. Its fifty kernels then
 * cost the host one call, and the GPU no pause between them: at small batches that is most of the
 * time of a step.
 *
 * The recording holds every pointer and every number that the kernels were given. What changes from
 * step to step is therefore not given but looked up, in the message that each batch sends ahead:
 * the rows of the data set, and the step's age, by how many steps it is later than the recorded
 * one. The kernels that depend on the number of the step add the age to the number they were
 * recorded with: it keys the masks of dropout and corrects the bias of Adam. Without a graph it is
 * 0.
 *
 * The first steps run as they are called, since a first time allocates: cuBLAS loads its kernels,
 * NCCL connects the ranks, the data set is brought here. Batches of another size, the last of an
 * epoch, are not recorded; nor is an evaluation, which is no step. Collectives are recorded with
 * the rest: the communication stream waits for an event of this one, which makes it part of the
 * recording, and has to be waited for before the step ends. So ranks record and replay the same
 * steps; they do, since their batches have equal sizes. Source: CUDA C++ Programming Guide, "CUDA
 * Graphs"; NCCL User Guide, "Using NCCL with CUDA Graphs".
 */
#include "common/base/gpu_marks.h"
#include "common/base/span.h"
#include "common/nn/cuda_state.h"

enum { WARM_UP = 3 };

static bool is_recorded_size(const CudaGraph *graph, const Batch *batch)
{
    return graph->dataset == batch->dataset && graph->batch_size == batch->size;
}

/* To whoever looks on, a step of which only the launch is seen is one piece. */
static void launch(const CudaState *state)
{
    Span span = span_begin(SPAN_GRAPH, "step (graph)");
    CUDA_CHECK(cudaGraphLaunch(state->graph.exec, state->stream));
    span_end(&span);
}

void cuda_begin_step(Device *device, const Batch *batch, uint64_t step)
{
    CudaState *state = cuda_state(device);
    CudaGraph *graph = &state->graph;
    if (graph->exec != NULL) {
        device->replaying = is_recorded_size(graph, batch);
        if (device->replaying) {
            cuda_feed_send(device, batch, step - graph->step);
            launch(state);
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
    gpu_marks_pause(true);
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
    gpu_marks_pause(false);
    launch(state); // recorded is not yet computed
}

void cuda_graph_free(Device *device)
{
    CudaGraph *graph = &cuda_state(device)->graph;
    if (graph->exec != NULL)
        CUDA_CHECK(cudaGraphExecDestroy(graph->exec));
}
