/* The tcp backend: what Gloo is to PyTorch, but small enough to read. Collectives are executed one
 * after the other: all ranks make the same calls in the same order. The thread that executes one
 * is the driver and owns the connections. A thread that waits for a call drives, so a blocking call
 * needs no other thread and no wake-up. While no thread waits, the progress thread drives: that is
 * how communication overlaps the backward pass. The files below it, from the bottom up: tcp_mesh.c
 * connects the ranks, tcp_watch.c waits and finds the rank that is missing, tcp_exchange.c moves
 * messages, tcp_algorithms.c decides which. */
#include <pthread.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/tcp/tcp_mesh.h"

#define SHORT_BYTES ((size_t)32 * 1024) // up to here latency dominates,
#define SHORT_BLOCK ((size_t)4 * 1024) // and up to such blocks of a ring, as many ranks have
#define MAX_QUEUED 256

/* Ticket t is in slot t % MAX_QUEUED until it is finished. The mutex guards all but the mesh, which
 * belongs to the driver. */
typedef struct {
    Mesh mesh; // first: the state of a group by tcp is a Mesh, too (beyond/usage.c)
    pthread_t thread; // drives while no other thread waits
    pthread_mutex_t mutex;
    pthread_cond_t work; // the thread may have something to do
    pthread_cond_t done; // a ticket is finished, and there is no driver
    Collective queue[MAX_QUEUED];
    long queued, finished; // tickets handed out, tickets done
    bool running; // whether a thread is executing ticket `finished`
    bool closing;
} Tcp;

/* The algorithms of each kind, for short messages and for long ones. */
static const struct {
    Algorithm *brief, *lengthy;
} algorithms[] = {
    [ALL_REDUCE] = { doubling_all_reduce, ring_all_reduce },
    [BROADCAST] = { tree_broadcast, chain_broadcast },
    [REDUCE] = { direct_collective, direct_collective },
    [GATHER] = { direct_collective, direct_collective },
    [ALL_GATHER] = { ring_all_gather, ring_all_gather },
    [SCATTER] = { direct_collective, direct_collective },
    [REDUCE_SCATTER] = { ring_reduce_scatter, ring_reduce_scatter },
    [BARRIER] = { doubling_all_reduce, NULL }, // an empty one completes once every rank has entered
    [SEND] = { direct_collective, direct_collective },
    [RECV] = { direct_collective, direct_collective },
};

static void execute(Mesh *mesh, const Collective *collective)
{
    const CollectiveKind kind = collective->kind;
    const size_t bytes = collective->count * dtype_size(collective->type);
    const size_t block = bytes / (size_t)collective->pg->world_size;
    const bool is_short = bytes <= SHORT_BYTES || block < SHORT_BLOCK;
    Algorithm *run = is_short ? algorithms[kind].brief : algorithms[kind].lengthy;
    if ((kind == ALL_REDUCE || kind == BARRIER) && collective->pg->tcp_all_reduce != NULL)
        run = collective->pg->tcp_all_reduce;
    if (collective->pg->wire != NULL)
        run = collective->pg->wire->run;
    mesh_begin(mesh, collective);
    run(mesh, collective);
}

/* Executes a call. An error in a group that survives leads back here from any depth. */
static void attempt(Tcp *tcp, const Collective *collective)
{
    if (process_group_root(collective->pg)->revoked || setjmp(tcp->mesh.unwind) != 0)
        return;
    collective_report(collective, COLLECTIVE_STARTED);
    execute(&tcp->mesh, collective);
    collective_report(collective, COLLECTIVE_COMPLETED);
}

/* Executes the first call in the queue. The mutex is held before and after, not meanwhile. */
static void run_next(Tcp *tcp)
{
    const Collective *collective = &tcp->queue[tcp->finished % MAX_QUEUED];
    tcp->running = true;
    pthread_mutex_unlock(&tcp->mutex);
    attempt(tcp, collective);
    pthread_mutex_lock(&tcp->mutex);
    tcp->running = false;
    tcp->finished++;
    pthread_cond_broadcast(&tcp->done);
}

static void *progress_loop(void *argument)
{
    Tcp *tcp = argument;
    pipes_schedule(&tcp->mesh, false);
    pthread_mutex_lock(&tcp->mutex);
    while (!tcp->closing)
        if (tcp->finished == tcp->queued || tcp->mesh.wait.num_threads > 0)
            pthread_cond_wait(&tcp->work, &tcp->mutex);
        else
            run_next(tcp);
    pthread_mutex_unlock(&tcp->mutex);
    return NULL;
}

/* Returns when the ticket is finished. The mutex is held. Needs no deadline of its own, because the
 * driver ends the process when a call takes too long. */
static void finish(Tcp *tcp, long ticket)
{
    tcp->mesh.wait.num_threads++;
    while (tcp->finished <= ticket)
        if (tcp->running)
            pthread_cond_wait(&tcp->done, &tcp->mutex);
        else
            run_next(tcp);
    tcp->mesh.wait.num_threads--;
    if (tcp->finished < tcp->queued) // the rest is for the progress thread
        pthread_cond_signal(&tcp->work);
}

static void *tcp_init(ProcessGroup *pg)
{
    Tcp *tcp = mem_calloc(1, sizeof *tcp);
    tcp->mesh.survivor = pg->survivor != NULL ? pg : NULL;
    tcp->queued = tcp->finished = (long)pg->calls.count; // a ticket is the call's op_id
    if (setjmp(tcp->mesh.unwind) == 0)
        mesh_init(&tcp->mesh, pg);
    pipes_schedule(&tcp->mesh, true);
    pthread_mutex_init(&tcp->mutex, NULL);
    pthread_cond_init(&tcp->work, NULL);
    pthread_cond_init(&tcp->done, NULL);
    const int error = thread_start(&tcp->thread, progress_loop, tcp);
    CHECK(error == 0, "cannot start the tcp backend's thread: %s", strerror(error));
    return tcp;
}

static long tcp_start(void *state, const Collective *collective)
{
    Tcp *tcp = state;
    pthread_mutex_lock(&tcp->mutex);
    if (tcp->queued - tcp->finished == MAX_QUEUED)
        finish(tcp, tcp->finished);
    const long ticket = tcp->queued++;
    tcp->queue[ticket % MAX_QUEUED] = *collective;
    if (collective->async)
        pthread_cond_signal(&tcp->work);
    pthread_mutex_unlock(&tcp->mutex);
    return ticket;
}

static void tcp_wait(void *state, long ticket)
{
    Tcp *tcp = state;
    pthread_mutex_lock(&tcp->mutex);
    finish(tcp, ticket);
    pthread_mutex_unlock(&tcp->mutex);
}

static void tcp_keep_alive(void *state)
{
    Tcp *tcp = state;
    pthread_mutex_lock(&tcp->mutex);
    if (!tcp->running && seconds_awake() >= tcp->mesh.wait.next_notice_time)
        mesh_notify(&tcp->mesh, NOTICE_ALIVE, NOBODY);
    pthread_mutex_unlock(&tcp->mutex);
}

static void tcp_destroy(void *state, ProcessGroup *pg)
{
    (void)pg;
    Tcp *tcp = state;
    pthread_mutex_lock(&tcp->mutex);
    finish(tcp, tcp->queued - 1);
    tcp->closing = true;
    pthread_cond_signal(&tcp->work);
    pthread_mutex_unlock(&tcp->mutex);
    pthread_join(tcp->thread, NULL);

    mesh_free(&tcp->mesh);
    pthread_cond_destroy(&tcp->done);
    pthread_cond_destroy(&tcp->work);
    pthread_mutex_destroy(&tcp->mutex);
    free(tcp);
}

const Backend backend_tcp = { .name = "tcp",
                              .init = tcp_init,
                              .start = tcp_start,
                              .wait = tcp_wait,
                              .keep_alive = tcp_keep_alive,
                              .destroy = tcp_destroy };
