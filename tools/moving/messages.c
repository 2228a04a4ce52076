/*
 * messages - records the messages of an all-reduce on N ranks, for docs/moving/ring.html.
 *
 *     make moving        # builds it, runs it, and puts what it prints into the page
 *
 * The linker puts the functions __wrap_... in the places of exchange, message_send and
 * message_receive (common/comm/tcp/tcp_exchange.c), so the library's own algorithms run, with real
 * messages between processes. Prints a line for each call of exchange: rank, receiver, sender (-1
 * if none), first element and number of elements sent, first element received (-1 if outside the
 * array), whether the rank adds what arrives; and when the call began and ended, in microseconds
 * since the first one.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/words.h"
#include "common/comm/process_group.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_mesh.h"

enum { MAX_RANKS = 8, MAX_CALLS = 4 * MAX_RANKS };

typedef struct {
    int to, from;
    long sent, count, received; // elements
    bool adds;
    double began, ended;
} Call;

static struct Board {
    Call call[MAX_RANKS][MAX_CALLS];
    int num_calls[MAX_RANKS];
} * board; // in memory that all ranks share

static const float *array; // the array of the recorded all-reduce; NULL if none yet
static long elements;
static int own_rank;

void __real_exchange(Mesh *mesh, Outgoing sent, Incoming received);
void __wrap_exchange(Mesh *mesh, Outgoing sent, Incoming received);
void __wrap_message_send(Mesh *mesh, int to, const void *data, size_t bytes);
void __wrap_message_receive(Mesh *mesh, int from, void *data, size_t bytes);

static long place_of(const void *data)
{
    const float *at = data;
    return at >= array && at < array + elements ? at - array : -1;
}

void __wrap_exchange(Mesh *mesh, Outgoing sent, Incoming received)
{
    const double began = seconds_now();
    __real_exchange(mesh, sent, received);
    if (array == NULL)
        return;
    const int number = board->num_calls[own_rank]++;
    CHECK(number < MAX_CALLS, "more than %d calls of exchange", MAX_CALLS);
    const long place = received.from == NOBODY ? -1 : place_of(received.data);
    board->call[own_rank][number] =
        (Call){ .to = sent.to,
                .from = received.from,
                .sent = sent.to == NOBODY ? -1 : place_of(sent.data),
                .count = (long)(sent.to == NOBODY ? 0 : sent.bytes / sizeof *array),
                .received = place,
                .adds = received.from != NOBODY && (place < 0 || received.addend != NULL),
                .began = began,
                .ended = seconds_now() };
}

void __wrap_message_send(Mesh *mesh, int to, const void *data, size_t bytes)
{
    __wrap_exchange(mesh, (Outgoing){ to, data, bytes }, (Incoming){ .from = NOBODY });
}

void __wrap_message_receive(Mesh *mesh, int from, void *data, size_t bytes)
{
    __wrap_exchange(mesh, (Outgoing){ .to = NOBODY }, (Incoming){ from, data, bytes, NULL });
}

/* Reduces without an algorithm: rank 0 gets all arrays, adds them, and sends the result to all. */
static void star_all_reduce(Mesh *mesh, const Collective *collective)
{
    Collective part = *collective;
    part.kind = REDUCE;
    part.root = 0;
    direct_collective(mesh, &part);
    const size_t bytes = collective->count * dtype_size(collective->type);
    if (own_rank > 0)
        message_receive(mesh, 0, collective->out, bytes);
    for (int rank = 1; own_rank == 0 && rank < collective->pg->world_size; rank++)
        message_send(mesh, rank, collective->out, bytes);
}

static Algorithm *algorithm_of(const char *name)
{
    return strcmp(name, "ring") == 0       ? ring_all_reduce
           : strcmp(name, "doubling") == 0 ? doubling_all_reduce
           : strcmp(name, "star") == 0     ? star_all_reduce
                                           : NULL;
}

static void run_rank(int rank, int num_ranks, int port, Algorithm *algorithm)
{
    own_rank = rank;
    log_set_rank(rank, num_ranks);
    Args args;
    args_defaults(&args, "linear");
    ProcessGroup pg;
    process_group_init(&pg, &args, "localhost", port, rank, num_ranks, (MemoryLocation){ 0 });
    float *data = mem_calloc((size_t)elements, sizeof *data);
    for (long i = 0; i < elements; i++)
        data[i] = (float)(1 << rank);
    pg.tcp_all_reduce = algorithm;
    array = data;
    all_reduce(&pg, data, (size_t)elements, FLOAT32, REDUCE_SUM);
    array = NULL;
    for (long i = 0; i < elements; i++)
        CHECK(data[i] == (float)((1 << num_ranks) - 1), "element %ld is %g", i, (double)data[i]);
    pg.tcp_all_reduce = NULL;
    process_group_destroy(&pg);
    free(data);
}

static void print_calls(int num_ranks)
{
    double start = board->call[0][0].began;
    for (int rank = 1; rank < num_ranks; rank++)
        start = board->call[rank][0].began < start ? board->call[rank][0].began : start;
    for (int rank = 0; rank < num_ranks; rank++)
        for (int i = 0; i < board->num_calls[rank]; i++) {
            const Call *call = &board->call[rank][i];
            printf("%d %d %d %ld %ld %ld %d %.0f %.0f\n", rank, call->to, call->from, call->sent,
                   call->count, call->received, call->adds, 1e6 * (call->began - start),
                   1e6 * (call->ended - start));
        }
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 3,
                "Usage: build/tools/moving/messages ALGORITHM RANKS ELEMENTS\n\n"
                "Prints the messages of an all-reduce. ALGORITHM: ring, doubling or star; RANKS: 2 "
                "to 8.\n");
    Algorithm *algorithm = argc == 4 ? algorithm_of(argv[1]) : NULL;
    const int num_ranks = argc == 4 ? atoi(argv[2]) : 0;
    elements = argc == 4 ? atol(argv[3]) : 0;
    if (algorithm == NULL || num_ranks < 2 || num_ranks > MAX_RANKS || elements < num_ranks)
        usage_error("needs ring, doubling or star, 2 to 8 ranks, and as many elements at least");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED, "out of memory");
    const int port = net_free_port();
    secret_make();
    int failed = 0;
    for (int rank = 0; rank < num_ranks; rank++) {
        const pid_t parent = getpid(), pid = fork();
        SYS_CHECK(pid);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                run_rank(rank, num_ranks, port, algorithm);
            return 0;
        }
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    if (!failed)
        print_calls(num_ranks);
    return failed;
}
