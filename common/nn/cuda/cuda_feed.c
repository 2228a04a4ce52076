/* How batches get to the device. A data set is copied there whole, once, at its first batch; from
 * then on a batch is a list of row numbers. If a set is too large for that (or may change: one made
 * by hand), the host gathers the rows of each batch in pinned memory, from which copies run
 * asynchronously; there are two such stages, so that one can be filled while the other is copied.
 *
 * An asynchronous copy reads pinned memory when its turn comes, not when it is called. So that
 * memory may be overwritten only after an event says that the copy is done: a ring of buffers lets
 * the host run a few steps ahead before it has to wait for one (CudaUpload). */
#include <limits.h>

#include "common/nn/cuda/cuda_state.h"

enum { MESSAGES = 8, STAGES = 2 }; // buffers in each ring
enum { SHARE = 4 }; // a set may take a quarter of the free memory, because ranks may share a GPU

static void upload_init(Device *device, CudaUpload *upload, int num_buffers, size_t bytes)
{
    *upload = (CudaUpload){ .num_buffers = num_buffers };
    for (int i = 0; i < num_buffers; i++) {
        CUDA_CHECK(cudaEventCreateWithFlags(&upload->copied[i], cudaEventDisableTiming));
        CUDA_CHECK(cudaHostAlloc((void **)&upload->buffer[i], bytes, cudaHostAllocDefault));
    }
    upload->memory = device_malloc(device, bytes);
}

static void upload_free(CudaUpload *upload)
{
    for (int i = 0; i < upload->num_buffers; i++) {
        CUDA_CHECK(cudaFreeHost(upload->buffer[i]));
        CUDA_CHECK(cudaEventDestroy(upload->copied[i]));
    }
    CUDA_CHECK(cudaFree(upload->memory));
    *upload = (CudaUpload){ 0 };
}

/* Returns a buffer to fill for upload_send. */
static void *upload_next(CudaUpload *upload)
{
    upload->next = (upload->next + 1) % upload->num_buffers;
    CUDA_CHECK(cudaEventSynchronize(upload->copied[upload->next]));
    return upload->buffer[upload->next];
}

static void upload_send(CudaUpload *upload, size_t bytes, cudaStream_t stream)
{
    CUDA_CHECK(cudaMemcpyAsync(upload->memory, upload->buffer[upload->next], bytes,
                               cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaEventRecord(upload->copied[upload->next], stream));
}

void cuda_feed_reserve(Device *device, int max_batch, int features)
{
    CudaFeed *feed = &cuda_state(device)->feed;
    if (feed->message.memory != NULL && max_batch <= feed->max_batch && features <= feed->features)
        return;
    device->ops->synchronize(device);
    upload_free(&feed->message);
    upload_free(&feed->staged);
    feed->max_batch = max_batch > feed->max_batch ? max_batch : feed->max_batch;
    feed->features = features > feed->features ? features : feed->features;
    upload_init(device, &feed->message, MESSAGES, (1 + (size_t)feed->max_batch) * sizeof(int32_t));
}

void cuda_feed_free(Device *device)
{
    CudaFeed *feed = &cuda_state(device)->feed;
    upload_free(&feed->message);
    upload_free(&feed->staged);
    for (int i = 0; i < feed->num_sets; i++) {
        const CudaRows *rows = &feed->set[i].rows;
        CUDA_CHECK(cudaFree((void *)rows->bytes));
        CUDA_CHECK(cudaFree((void *)rows->floats));
        CUDA_CHECK(cudaFree((void *)rows->normalised));
        CUDA_CHECK(cudaFree((void *)rows->words));
    }
}

const int32_t *cuda_step_offset(const Device *device)
{
    return (const int32_t *)cuda_state(device)->feed.message.memory;
}

static void *copy_of(Device *device, const void *host, size_t bytes)
{
    if (host == NULL)
        return NULL;
    void *memory = device_malloc(device, bytes);
    device_copy(device, memory, host, bytes, COPY_TO_DEVICE);
    return memory;
}

/* Returns a label or a target for each row: a 32-bit word for the kernel. */
static const void *words_of(const Dataset *dataset)
{
    return dataset->labels != NULL ? (const void *)dataset->labels : dataset->targets;
}

static size_t row_bytes(const Dataset *dataset)
{
    return dataset->features * (dataset->bytes != NULL ? 1 : sizeof(float));
}

/* Copies the set to the device; returns NULLs if it is too large. */
static CudaRows copy_of_set(Device *device, const Dataset *dataset)
{
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    const size_t size = dataset->size, bytes = size * (row_bytes(dataset) + sizeof(uint32_t));
    if (bytes > free_bytes / SHARE)
        return (CudaRows){ 0 };
    return (CudaRows){
        .bytes = copy_of(device, dataset->bytes, size * row_bytes(dataset)),
        .floats = copy_of(device, dataset->floats, size * row_bytes(dataset)),
        .normalised = copy_of(device, dataset->normalised, sizeof dataset->normalised),
        .words = copy_of(device, words_of(dataset), size * sizeof(uint32_t)),
    };
}

/* Returns whether the set is on the device, which is decided once, at its first batch, since a
 * graph records one way to get batches, and other processes may free memory at any time. */
static bool is_resident(Device *device, const Dataset *dataset)
{
    CudaFeed *feed = &cuda_state(device)->feed;
    int i = 0;
    while (i < feed->num_sets && feed->set[i].id != dataset->id)
        i++;
    if (dataset->id == 0 || i == CUDA_SETS)
        return false;
    if (i == feed->num_sets) {
        feed->set[i].id = dataset->id;
        feed->set[feed->num_sets++].rows = copy_of_set(device, dataset);
    }
    if (feed->set[i].rows.words == NULL)
        return false;
    feed->rows = feed->set[i].rows;
    return true;
}

/* Layout of a stage: the table of normalised values, then inputs, at most floats, then words. */
enum { TABLE_BYTES = 256 * sizeof(float) };

/* Gathers the rows of the batch on the host; returns where their words begin. */
static size_t fill_stage(const Batch *batch, char *to)
{
    const Dataset *dataset = batch->dataset;
    const size_t bytes = row_bytes(dataset), n = (size_t)batch->size;
    const size_t words = TABLE_BYTES + (n * bytes + 3) / 4 * 4;
    const char *inputs =
        dataset->bytes != NULL ? (const char *)dataset->bytes : (const char *)dataset->floats;
    const uint32_t *word = words_of(dataset);
    memcpy(to, dataset->normalised, TABLE_BYTES);
    for (size_t row = 0; row < n; row++) {
        memcpy(to + TABLE_BYTES + row * bytes, inputs + batch->index[row] * bytes, bytes);
        memcpy(to + words + row * sizeof *word, word + batch->index[row], sizeof *word);
    }
    return words;
}

static void stage(Device *device, const Batch *batch)
{
    CudaState *state = cuda_state(device);
    CudaFeed *feed = &state->feed;
    if (feed->staged.memory == NULL) {
        const size_t row = feed->features * sizeof(float) + sizeof(uint32_t);
        upload_init(device, &feed->staged, STAGES, TABLE_BYTES + feed->max_batch * row);
    }
    const size_t words = fill_stage(batch, upload_next(&feed->staged));
    upload_send(&feed->staged, words + batch->size * sizeof(uint32_t), state->stream);

    const char *staged = feed->staged.memory, *inputs = staged + TABLE_BYTES;
    feed->rows = (CudaRows){ .normalised = (const float *)staged,
                             .words = (const uint32_t *)(staged + words) };
    if (batch->dataset->bytes != NULL)
        feed->rows.bytes = (const uint8_t *)inputs;
    else
        feed->rows.floats = (const float *)inputs;
}

void cuda_feed_send(Device *device, const Batch *batch, uint64_t step_offset)
{
    CudaState *state = cuda_state(device);
    CudaFeed *feed = &state->feed;
    CHECK(batch->size <= feed->max_batch && batch->dataset->features <= (size_t)feed->features,
          "a batch of %d rows of %zu numbers, and the device has set aside room for %d of %d",
          batch->size, batch->dataset->features, feed->max_batch, feed->features);
    CHECK(batch->dataset->size <= INT_MAX && step_offset <= INT_MAX,
          "too many rows or steps for a GPU");
    const bool resident = is_resident(device, batch->dataset);
    if (!resident)
        stage(device, batch);

    int32_t *message = upload_next(&feed->message);
    message[0] = (int32_t)step_offset;
    for (int row = 0; row < batch->size; row++)
        message[1 + row] = resident ? (int32_t)batch->index[row] : row;
    upload_send(&feed->message, (1 + (size_t)batch->size) * sizeof *message, state->stream);
}

void cuda_feed_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                      float *targets)
{
    const CudaState *state = cuda_state(device);
    if (!cuda_is_captured(state->stream)) // else extras/cuda_graph has sent it
        cuda_feed_send(device, batch, 0);
    uint32_t *words = batch->dataset->labels != NULL ? (uint32_t *)labels : (uint32_t *)targets;
    cuda_gather(batch->size, (int)batch->dataset->features, state->feed.rows,
                cuda_step_offset(device) + 1, inputs, words, state->stream);
    if (cuda_is_captured(state->stream))
        CUDA_CHECK(cudaEventRecord(state->fork, state->stream));
}
