/*
 * beyond/unused, an aside - a model in which a step does not use every parameter.
 *
 * A trunk and three heads. Rank 0's rows go through head a, rank 1's through head b, and no rows go
 * through head c. There is no arithmetic here: a "backward pass" writes gradients that are easy to
 * recognise and marks them ready, as model_backward does. The program prints the gradients that
 * the Reducer returns.
 *
 *     make beyond && ./beyond/unused/branches on       # find_unused_parameters: on or off
 *     ./beyond/unused/branches price               # its cost where it is not needed
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beyond/unused/unused.h"
#include "common/base/log.h"
#include "common/base/words.h"
#include "common/comm/store/net.h"

enum { TRUNK, HEAD_A, HEAD_B, HEAD_C, NUM_PARAMETERS, NUMEL = 1000, PASSES = 200 };

/* Writes gradients: 10 + r on rank r; in the trunk, which every rank uses, 1 + r. */
static void backward(Unused *unused, int rank, bool all)
{
    Reducer *reducer = unused->reducer;
    for (int i = NUM_PARAMETERS - 1; i >= 0; i--) {
        const bool used = all || i == TRUNK || i == (rank == 0 ? HEAD_A : HEAD_B);
        if (!used)
            continue;
        const Tensor *p = &reducer->parameter[i];
        for (size_t k = 0; k < p->numel; k++)
            reducer->grads[p->offset + k] = (float)(rank + (i == TRUNK ? 1 : 10));
        unused_mark_ready(unused, i);
    }
}

/* Ends a backward pass, with find_unused_parameters or without. */
static void finalize(Unused *unused, bool on)
{
    if (on)
        unused_finalize(unused);
    else
        reducer_finalize(unused->reducer);
}

static void show_one_pass(Unused *unused, int rank, bool on)
{
    Reducer *reducer = unused->reducer;
    backward(unused, rank, false);
    finalize(unused, on);
    for (int i = 0; rank == 0 && i < NUM_PARAMETERS; i++)
        log_print("%-6s  %g", reducer->parameter[i].name,
                  (double)reducer->grads[reducer->parameter[i].offset]);
}

static void show_price(Unused *unused, int rank)
{
    const ProcessGroup *pg = unused->reducer->pg;
    for (int on = 0; on <= 1; on++) {
        const uint64_t before = pg->sequence;
        const double begin = seconds_now();
        for (int pass = 0; pass < PASSES; pass++) {
            backward(unused, rank, true);
            finalize(unused, on);
        }
        const double passes = PASSES, seconds = seconds_now() - begin;
        if (rank == 0)
            log_print("find_unused_parameters %s: %.1f collectives a pass, %.0f microseconds",
                      on ? "on" : "off", (double)(pg->sequence - before) / passes,
                      1e6 * seconds / passes);
    }
}

static void run_rank(int rank, int world_size, int master_port, const char *mode)
{
    log_set_rank(rank, world_size);
    Args args;
    args_defaults(&args, "linear");
    ProcessGroup pg;
    process_group_init(&pg, &args, "localhost", master_port, rank, world_size,
                       (MemoryLocation){ 0 });

    float grads[NUM_PARAMETERS * NUMEL] = { 0 };
    static const char *const names[] = { "trunk", "head_a", "head_b", "head_c" };
    Tensor parameter[NUM_PARAMETERS];
    for (int i = 0; i < NUM_PARAMETERS; i++)
        parameter[i] = (Tensor){
            .name = names[i], .shape = { NUMEL }, .ndim = 1, .offset = i * NUMEL, .numel = NUMEL
        };
    Reducer reducer;
    reducer_init(&reducer, &args, &pg, grads, parameter, NUM_PARAMETERS);
    Unused unused;
    unused_init(&unused, &reducer);
    if (strcmp(mode, "price") == 0)
        show_price(&unused, rank);
    else
        show_one_pass(&unused, rank, strcmp(mode, "on") == 0);
    unused_free(&unused);
    reducer_free(&reducer);
    process_group_destroy(&pg);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 1,
                "Usage: beyond/unused/branches on|off|price\n\n"
                "A step on two ranks that leaves parameters unused: with find_unused_parameters, "
                "without it,\n"
                "or what it costs where it is not needed.\n");
    const char *mode = argc == 2 ? argv[1] : "";
    if (strcmp(mode, "on") != 0 && strcmp(mode, "off") != 0 && strcmp(mode, "price") != 0)
        usage_error("type branches on, branches off or branches price");

    const int master_port = net_free_port();
    secret_make();
    int failed = 0;
    for (int rank = 0; rank < 2; rank++) {
        const pid_t parent = getpid(), pid = fork();
        SYS_CHECK(pid);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                run_rank(rank, 2, master_port, mode);
            return 0;
        }
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}
