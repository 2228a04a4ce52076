/* DiLoCo's ranks wait while all of the model is sent. Here they never wait for a whole model: a
 * part of it leaves at a time, and they go on computing until it has come. */
#include "beyond/local_sgd/streaming.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

/* Starts to average what this rank has changed in a fragment since its last outer step. */
static void start(Streaming *streaming, Fragment *fragment)
{
    const float *params = streaming->model->params;
    for (size_t i = fragment->offset; i < fragment->offset + fragment->numel; i++)
        streaming->change[i] = streaming->begin[i] - params[i];
    fragment->work = all_reduce_async(streaming->pg, streaming->change + fragment->offset,
                                      fragment->numel, FLOAT32, REDUCE_MEAN);
    fragment->begun = streaming->steps;
}

/* Waits for the mean change, makes the outer step, and leaves `mix` of this rank's own weights. */
static void apply(Streaming *streaming, Fragment *fragment, float mix)
{
    float *params = streaming->model->params, *begin = streaming->begin;
    float *velocity = streaming->velocity;
    const float lr = streaming->options.lr, momentum = streaming->options.momentum;
    work_wait(fragment->work);
    for (size_t i = fragment->offset; i < fragment->offset + fragment->numel; i++) {
        const float change = streaming->change[i];
        velocity[i] = momentum * velocity[i] + change;
        begin[i] -= lr * (change + momentum * velocity[i]);
        params[i] = mix * params[i] + (1 - mix) * begin[i];
    }
    fragment->begun = 0;
}

void streaming_step(Streaming *streaming)
{
    const StreamingOptions *options = &streaming->options;
    streaming->steps++;
    for (int f = 0; f < options->fragments; f++) {
        Fragment *fragment = &streaming->fragment[f];
        if (streaming->steps % options->period == fragment->turn)
            start(streaming, fragment);
        if (fragment->begun > 0 && streaming->steps - fragment->begun == options->overlap)
            apply(streaming, fragment, options->overlap > 0 ? options->mix : 0);
    }
}

void streaming_end_round(Streaming *streaming)
{
    if (streaming->steps == streaming->ended)
        return;
    for (int f = 0; f < streaming->options.fragments; f++) {
        Fragment *fragment = &streaming->fragment[f];
        if (fragment->begun > 0)
            apply(streaming, fragment, streaming->options.mix);
        start(streaming, fragment); // for the steps since
        apply(streaming, fragment, 0);
    }
    streaming->ended = streaming->steps;
}

void streaming_init(Streaming *streaming, ProcessGroup *pg, Model *model, StreamingOptions options)
{
    if (pg->place.on_gpu)
        usage_error("this aside is for --device cpu: its outer optimizer works in host memory");
    CHECK(options.fragments >= 1 && options.fragments <= STREAMING_MAX_FRAGMENTS,
          "cannot cut the model into %d fragments: 1 to %d", options.fragments,
          STREAMING_MAX_FRAGMENTS);
    CHECK(options.overlap >= 0 && options.overlap < options.period,
          "an overlap of %d steps does not fit into a round of %d", options.overlap,
          options.period);
    *streaming = (Streaming){ .pg = pg, .model = model, .options = options };
    streaming->begin = mem_alloc(model->numel, sizeof *streaming->begin);
    streaming->change = mem_alloc(model->numel, sizeof *streaming->change);
    streaming->velocity = mem_calloc(model->numel, sizeof *streaming->velocity);
    memcpy(streaming->begin, model->params, model->numel * sizeof *streaming->begin);
    for (int f = 0; f < options.fragments; f++) {
        const size_t offset = model->numel * f / options.fragments;
        const size_t end = model->numel * (f + 1) / options.fragments;
        streaming->fragment[f] = (Fragment){
            .offset = offset,
            .numel = end - offset,
            .turn = (f + 1) * options.period / options.fragments % options.period,
        };
    }
}

void streaming_free(Streaming *streaming)
{
    free(streaming->velocity);
    free(streaming->change);
    free(streaming->begin);
}
