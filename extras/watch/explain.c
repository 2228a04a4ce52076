/* Sentences for the first two steps; the second one shows what repeats. */
#include "extras/watch/explain.h"

#include <stdlib.h>

#include "extras/watch/peers.h"
#include "extras/watch/span.h"

enum { EXPLAINED_STEPS = 2 };

static const Model *explained_model; // the model whose steps are explained; NULL if none
static uint64_t last_step;
static size_t bytes_waited_for;

static bool alone(void)
{
    return peers.world_size == 1;
}

/* Counts the weights and biases of the layer whose weight has this name. */
static size_t layer_numel(const char *name)
{
    for (int i = 0; i + 1 < explained_model->num_parameters; i += 2)
        if (strcmp(explained_model->parameter[i].name, name) == 0)
            return explained_model->parameter[i].numel + explained_model->parameter[i + 1].numel;
    return 0;
}

static void explain_data(const Span *span, int layer_chars, double ms)
{
    (void)span, (void)layer_chars;
    log_info("data: the rows of this batch are copied side by side, their pixels normalised "
             "(%.2f ms)",
             ms);
}

static void explain_forward(const Span *span, int layer_chars, double ms)
{
    if (strcmp(span->name, "loss") == 0)
        log_info("forward: the loss says how wrong the outputs are: %.4f",
                 (double)model_loss(explained_model));
    else
        log_info("forward: layer %.*s, %zu parameters, turns its inputs into outputs (%.2f ms)",
                 layer_chars, span->name, layer_numel(span->name), ms);
}

static void explain_backward(const Span *span, int layer_chars, double ms)
{
    if (strcmp(span->name, "loss") == 0)
        log_info("backward: from the loss back to the first layer, each in turn");
    else
        log_info("backward: layer %.*s knows its gradient: how the loss changes with each of its "
                 "parameters (%.2f ms)",
                 layer_chars, span->name, ms);
}

static void explain_wait(const Span *span, int layer_chars, double ms)
{
    (void)span, (void)layer_chars;
    if (bytes_waited_for > 0)
        log_info("wait: %.2f ms until the bucket that left first is back; it holds the mean of all "
                 "ranks' gradients now, the same on every rank",
                 ms);
    bytes_waited_for = 0;
}

static void explain_optimizer(const Span *span, int layer_chars, double ms)
{
    (void)layer_chars;
    if (strcmp(span->name, "zero_grad") == 0) {
        log_info("data: this rank takes its next rows of the epoch's order%s",
                 alone() ? "" : "; the others take theirs");
        log_info(
            "step %llu begins: gradients are set to zero, since the backward pass adds to them",
            (unsigned long long)explained_model->step + 1);
        return;
    }
    log_info("optimizer: every parameter takes a small step against its gradient (%.2f ms)%s", ms,
             alone() ? "" : ". Gradients were the same on all ranks, so weights still are");
    if (explained_model->step < last_step)
        return;
    log_info("and so on. DDP_EXPLAIN=1 tells of %d steps only", EXPLAINED_STEPS);
    span_listener = NULL;
    explained_model = NULL;
}

static void on_span(const Span *span)
{
    static void (*const explain[NUM_SPAN_KINDS])(const Span *, int, double) = {
        explain_data, explain_forward, explain_backward, explain_wait, explain_optimizer, NULL
    };
    if (explain[span->kind] != NULL)
        explain[span->kind](span, (int)strcspn(span->name, "."), 1e3 * (span->end - span->begin));
}

void explain_bucket(size_t bytes)
{
    if (explained_model == NULL)
        return;
    bytes_waited_for += bytes;
    log_info(
        "bucket: %.3f MiB of gradients leave now, to be averaged with the other ranks'; what is "
        "left of the backward pass goes on meanwhile",
        (double)bytes / (1 << 20));
}

bool explain_enabled(int rank)
{
    const char *value = getenv("DDP_EXPLAIN");
    return value != NULL && strcmp(value, "1") == 0 && rank == 0;
}

void explain_start(const Model *model, int rank)
{
    if (!explain_enabled(rank))
        return;
    if (span_listener != NULL) {
        log_warning("DDP_EXPLAIN=1 tells nothing beside --trace or --profile: leave these out");
        return;
    }
    explained_model = model;
    last_step = model->step + EXPLAINED_STEPS;
    span_listener = on_span;
}
