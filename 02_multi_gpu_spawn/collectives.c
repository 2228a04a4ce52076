/*
 * 02_multi_gpu_spawn, an aside - every collective that moves data, on four ranks, before and after.
 *
 * Rank 0 has 1 2 3 4, rank 1 has 10 20 30 40, and so on: a sum shows which ranks are in it. Each
 * rank writes its numbers to boards in shared memory, which are printed when all ranks are done.
 *
 *     make 02 && ./02_multi_gpu_spawn/collectives
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/words.h"
#include "common/comm/process_group.h"
#include "common/comm/store/net.h"

enum { RANKS = 4, NOTHING = 0, ROOT = 0 };
static const int32_t unit[RANKS] = { 1, 10, 100, 1000 };
enum {
    BROADCAST,
    REDUCE,
    ALL_REDUCE,
    SCATTER,
    GATHER,
    ALL_GATHER,
    REDUCE_SCATTER,
    NUM_COLLECTIVES
};

typedef struct {
    int32_t before[RANKS][RANKS], after[RANKS][RANKS]; // [rank][place]
} Board;

static const struct {
    const char *name, *meaning;
    int count; // numbers that a rank passes in
    bool only_root; // only the root passes them in
} collective[NUM_COLLECTIVES] = {
    [BROADCAST] = { "broadcast", "the root's numbers to all", RANKS, true },
    [REDUCE] = { "reduce", "the sum to the root", RANKS, false },
    [ALL_REDUCE] = { "all_reduce", "the sum to all", RANKS, false },
    [SCATTER] = { "scatter", "a share of the root's numbers to each", RANKS, true },
    [GATHER] = { "gather", "a number of each to the root", 1, false },
    [ALL_GATHER] = { "all_gather", "a number of each to all", 1, false },
    [REDUCE_SCATTER] = { "reduce_scatter", "a share of the sum to each", RANKS, false },
};

/* in: this rank's numbers; out: the result, copied there if the call works in place. */
static void call(ProcessGroup *pg, int which, int32_t *in, int32_t *out)
{
    const bool in_place = which <= ALL_REDUCE;
    switch (which) {
    case BROADCAST:
        broadcast(pg, in, RANKS, INT32, ROOT);
        break;
    case REDUCE:
        reduce(pg, in, RANKS, INT32, REDUCE_SUM, ROOT);
        break;
    case ALL_REDUCE:
        all_reduce(pg, in, RANKS, INT32, REDUCE_SUM);
        break;
    case SCATTER:
        scatter(pg, in, out, 1, INT32, ROOT);
        break;
    case GATHER:
        gather(pg, in, out, 1, INT32, ROOT);
        break;
    case ALL_GATHER:
        all_gather(pg, in, out, 1, INT32);
        break;
    case REDUCE_SCATTER:
        reduce_scatter(pg, in, out, 1, INT32, REDUCE_SUM);
        break;
    }
    memcpy(out, in_place ? in : out, in_place ? RANKS * sizeof *out : 0);
}

static void write_row(char *text, size_t bytes, const int32_t *numbers)
{
    text[0] = '\0';
    for (int i = 0; i < RANKS; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", numbers[i]);
        const size_t length = strlen(text);
        snprintf(text + length, bytes - length, "%6s", numbers[i] != NOTHING ? number : ".");
    }
}

static void print_board(const Board *board, int which)
{
    log_print("%s: %s", collective[which].name, collective[which].meaning);
    for (int rank = 0; rank < RANKS; rank++) {
        char before[64], after[64];
        write_row(before, sizeof before, board->before[rank]);
        write_row(after, sizeof after, board->after[rank]);
        log_print("  rank %d %s   -> %s", rank, before, after);
    }
}

static void run_rank(int rank, int master_port, Board *boards)
{
    log_set_rank(rank, RANKS);
    Args args;
    args_defaults(&args, "linear");
    ProcessGroup pg;
    process_group_init(&pg, &args, "localhost", master_port, rank, RANKS, (MemoryLocation){ 0 });
    for (int which = 0; which < NUM_COLLECTIVES; which++) {
        int32_t in[RANKS] = { NOTHING }, out[RANKS] = { NOTHING };
        const bool brings = rank == ROOT || !collective[which].only_root;
        for (int k = 0; brings && k < collective[which].count; k++)
            in[k] = unit[rank] * (k + 1);
        memcpy(boards[which].before[rank], in, sizeof in);
        call(&pg, which, in, out);
        memcpy(boards[which].after[rank], out, sizeof out);
    }
    process_group_destroy(&pg);
}

int main(int argc, char **argv)
{
    words_check(
        argc, argv, 0,
        "Usage: 02_multi_gpu_spawn/collectives\n\n"
        "Prints what four ranks have before and after each collective. It has no options.\n");
    Board *boards = mmap(NULL, NUM_COLLECTIVES * sizeof *boards, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(boards != MAP_FAILED, "out of memory");
    const int master_port = net_free_port();
    secret_make();
    int failed = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        const pid_t parent = getpid(), pid = fork();
        SYS_CHECK(pid);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                run_rank(rank, master_port, boards);
            return 0;
        }
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    for (int which = 0; !failed && which < NUM_COLLECTIVES; which++)
        print_board(&boards[which], which);
    return failed;
}
