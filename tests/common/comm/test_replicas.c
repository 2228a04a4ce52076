/* Data parallel training: replicas stay identical, and buckets are sent during backward. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/ddp.h"
#include "common/comm/store/net.h"
#include "common/data/dataloader.h"
#include "common/nn/optim.h"
#include "tests/helpers/unit.h"

enum { BATCH_SIZE = 32, MAX_EVENTS = 64 };

/* One rank's trainer. */
typedef struct {
    Args args;
    Device device;
    Dataset train_set;
    Sampler sampler;
    DataLoader loader;
    Model model;
    Optimizer optim;
    ProcessGroup pg;
    Reducer reducer;
} Trainer;

static void trainer_init(Trainer *t, const char *model, int rank, int world_size, int port)
{
    args_defaults(&t->args, model);
    t->args.num_samples = 256;
    t->args.threads = 1;
    t->args.timeout = 600;
    log_set_rank(rank, world_size);
    device_init(&t->device, &t->args, rank);
    process_group_init(&t->pg, &t->args, "localhost", port, rank, world_size, t->device.place);

    Rng rng;
    rng_seed(&rng, 0);
    dataset_init(&t->train_set, &t->args, TRAIN, &rng);
    distributed_sampler_init(&t->sampler, t->train_set.size, rank, world_size, true, false, 0);
    dataloader_init(&t->loader, &t->train_set, &t->sampler, BATCH_SIZE);
    rng_seed(&rng, (uint64_t)rank); // different until rank 0's weights are broadcast
    model_init(&t->model, &t->args, BATCH_SIZE, &rng, &t->device);
    optim_init(&t->optim, &t->args, &t->model, 1);
    broadcast(&t->pg, t->model.params, t->model.numel, FLOAT32, 0);
    reducer_init(&t->reducer, &t->args, &t->pg, t->model.grads, t->model.parameter,
                 t->model.num_parameters);
    model_set_grad_hook(&t->model, reducer_mark_ready, &t->reducer);
}

static void trainer_free(Trainer *t)
{
    reducer_free(&t->reducer);
    process_group_destroy(&t->pg);
    optim_free(&t->optim);
    model_free(&t->model);
    dataloader_free(&t->loader);
    sampler_free(&t->sampler);
    dataset_free(&t->train_set);
    device_free(&t->device);
}

/* Checks that the parameters are bitwise equal on all ranks: their maximum is the minimum. */
static void check_identical(Trainer *t, int epoch)
{
    const size_t bytes = t->model.numel * sizeof(float);
    int32_t *largest = mem_calloc(1, bytes);
    int32_t *smallest = mem_calloc(1, bytes);
    memcpy(largest, t->model.params, bytes);
    memcpy(smallest, t->model.params, bytes);
    all_reduce(&t->pg, largest, t->model.numel, INT32, REDUCE_MAX);
    all_reduce(&t->pg, smallest, t->model.numel, INT32, REDUCE_MIN);
    CHECK(memcmp(largest, smallest, bytes) == 0, "replicas differ after epoch %d", epoch);
    free(largest);
    free(smallest);
}

static void train_and_compare(Trainer *t)
{
    for (int epoch = 0; epoch < 2; epoch++) {
        check_identical(t, epoch);
        sampler_set_epoch(&t->sampler, epoch);
        for (const Batch *batch; (batch = dataloader_next(&t->loader)) != NULL;) {
            model_zero_grad(&t->model);
            model_forward(&t->model, batch);
            model_backward(&t->model);
            reducer_finalize(&t->reducer);
            optim_step(&t->optim);
        }
    }
    check_identical(t, 2);
}

/* The number of buckets sent after each hook. */
typedef struct {
    Reducer *reducer;
    int parameter[MAX_EVENTS], sent[MAX_EVENTS], num_events;
} Log;

static void logging_hook(void *context, int i)
{
    Log *log = context;
    reducer_mark_ready(log->reducer, i);
    log->parameter[log->num_events] = i;
    log->sent[log->num_events++] = log->reducer->next;
}

/* Checks that the linear layers' bucket is sent before the convolutions have gradients. */
static void observe_overlap(Trainer *t)
{
    Log log = { .reducer = &t->reducer };
    model_set_grad_hook(&t->model, logging_hook, &log);
    model_forward(&t->model, dataloader_next(&t->loader));
    model_backward(&t->model);
    reducer_finalize(&t->reducer);

    CHECK(log.num_events == 8 && t->reducer.num_buckets == 2, "%d hooks, %d buckets",
          log.num_events, t->reducer.num_buckets);
    int sent_before_conv = 0;
    for (int event = 0; event < log.num_events && log.parameter[event] >= 4; event++)
        sent_before_conv = log.sent[event];
    CHECK(sent_before_conv == 1, "%d buckets sent before conv2 was reached", sent_before_conv);
    CHECK(log.sent[log.num_events - 1] == 2, "the last bucket did not leave");
}

/* Runs a check in world_size forked ranks; each must end with status 0. */
static void run_ranks(const char *model, int world_size, void (*check)(Trainer *))
{
    const int port = net_free_port();
    for (int rank = 0; rank < world_size; rank++) {
        const pid_t pid = fork();
        SYS_CHECK(pid);
        if (pid == 0) {
            alarm(900);
            static Trainer trainer;
            trainer_init(&trainer, model, rank, world_size, port);
            check(&trainer);
            trainer_free(&trainer);
            _exit(EXIT_SUCCESS);
        }
    }
    int failed = 0;
    for (int status; wait(&status) > 0;)
        failed += status != 0;
    assert_int_equal(failed, 0);
}

static void replicas_of_the_cnn_stay_identical(void **state)
{
    (void)state;
    run_ranks("cnn", 2, train_and_compare);
    run_ranks("cnn", 3, train_and_compare);
}

static void replicas_of_the_linear_model_stay_identical(void **state)
{
    (void)state;
    run_ranks("linear", 4, train_and_compare);
}

static void reducer_sends_while_backward_still_runs(void **state)
{
    (void)state;
    run_ranks("cnn", 2, observe_overlap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_of_the_cnn_stay_identical),
        cmocka_unit_test(replicas_of_the_linear_model_stay_identical),
        cmocka_unit_test(reducer_sends_while_backward_still_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
