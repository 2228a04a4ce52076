/*
 * The tcp backend: what Gloo is to PyTorch, but small enough to read.
 *
 * Collectives are queued and executed one after the other: all ranks make the same calls in the
 * same order. The thread that executes one is the driver and owns the connections. A thread that
 * waits for a call drives, so a blocking call needs no other thread and no wake-up. While no thread
 * waits, the progress thread drives: that is how communication overlaps the backward pass. The
 * files below it, from the bottom up: tcp_mesh.c connects the ranks, tcp_watch.c waits and finds
 * the rank that is missing, tcp_exchange.c moves messages, tcp_ring.c and tcp_trees.c are the
 * algorithms.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/tcp/tcp_mesh.h"

#define SHORT_BYTES ((size_t)32 * 1024) // up to here latency dominates
#define MAX_QUEUED 256

/* Ticket t is in slot t % MAX_QUEUED until it is finished. The mutex guards all but the mesh, which
 * belongs to the driver. */
typedef struct {
    Mesh mesh;
    pthread_t thread; // drives while nobody waits
    pthread_mutex_t mutex;
    pthread_cond_t work; // the thread may have something to do
    pthread_cond_t done; // a ticket is finished, and there is no driver
    Collective queue[MAX_QUEUED];
    long queued, finished; // tickets handed out, tickets done
    bool running; // is a thread executing ticket `finished`?
    bool closing;
} Tcp;

static void execute(Mesh *mesh, const Collective *collective)
{
    const size_t bytes = collective->count * dtype_size(collective->type);
    mesh_begin(mesh, collective);
    switch (collective->kind) {
    case ALL_REDUCE:
    case BARRIER: // an empty all-reduce: completes once every rank has entered
        if (collective->pg->tcp_all_reduce != NULL)
            collective->pg->tcp_all_reduce(mesh, collective);
        else
            (bytes <= SHORT_BYTES ? doubling_all_reduce : ring_all_reduce)(mesh, collective);
        break;
    case BROADCAST:
        (bytes <= SHORT_BYTES ? tree_broadcast : chain_broadcast)(mesh, collective);
        break;
    case REDUCE:
    case GATHER:
    case SCATTER:
        direct_collective(mesh, collective);
        break;
    case ALL_GATHER:
        ring_all_gather(mesh, collective);
        break;
    case REDUCE_SCATTER:
        ring_reduce_scatter(mesh, collective);
        break;
    case SEND:
        message_send(mesh, collective->root, collective->in, bytes);
        break;
    case RECV:
        message_receive(mesh, collective->root, collective->out, bytes);
        break;
    }
}

/* Executes the first call in the queue. The mutex is held before and after, not meanwhile. */
static void run_next(Tcp *tcp)
{
    const Collective *collective = &tcp->queue[tcp->finished % MAX_QUEUED];
    tcp->running = true;
    pthread_mutex_unlock(&tcp->mutex);
    collective_report(collective, COLLECTIVE_STARTED);
    execute(&tcp->mesh, collective);
    collective_report(collective, COLLECTIVE_COMPLETED);
    pthread_mutex_lock(&tcp->mutex);
    tcp->running = false;
    tcp->finished++;
    pthread_cond_broadcast(&tcp->done);
}

/* How the progress thread shares a core with computing threads (sched(7)). A message over the
 * network needs the core rarely, but at once: with a short time slice the thread runs as soon as it
 * is woken (from Linux 6.12 on). A message through shared memory keeps the core busy all the time:
 * with SCHED_BATCH the thread does not preempt a thread that computes. */
static void schedule_progress(const Mesh *mesh)
{
    const int next = (mesh->rank + 1) % mesh->world_size;
    const struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice, deadline, period; // nanoseconds
    } short_slice = { .size = sizeof short_slice, .policy = SCHED_OTHER, .slice = 100 * 1000 };

    if (mesh->peer[next].pipe != NULL)
        pthread_setschedparam(pthread_self(), SCHED_BATCH, &(struct sched_param){ 0 });
    else
        syscall(SYS_sched_setattr, 0, &short_slice, 0);
}

static void *progress_loop(void *argument)
{
    Tcp *tcp = argument;
    schedule_progress(&tcp->mesh);
    pthread_mutex_lock(&tcp->mutex);
    while (!tcp->closing)
        if (tcp->finished == tcp->queued || tcp->mesh.wait.num_threads > 0)
            pthread_cond_wait(&tcp->work, &tcp->mutex);
        else
            run_next(tcp);
    pthread_mutex_unlock(&tcp->mutex);
    return NULL;
}

/* Returns when the ticket is finished. The mutex is held. Needs no deadline of its own: the driver
 * ends the process when a call takes too long. */
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
    mesh_init(&tcp->mesh, pg);
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
    if (!tcp->running && seconds_now() >= tcp->mesh.wait.next_notice_time)
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

void tcp_payload_bytes(const ProcessGroup *pg, uint64_t *sent, uint64_t *received)
{
    const Tcp *tcp = pg->backend == &backend_tcp ? process_group_root(pg)->state : NULL;
    *sent = tcp == NULL ? 0 : tcp->mesh.moved.sent_bytes;
    *received = tcp == NULL ? 0 : tcp->mesh.moved.received_bytes;
}

const Backend backend_tcp = { .name = "tcp",
                              .init = tcp_init,
                              .start = tcp_start,
                              .wait = tcp_wait,
                              .keep_alive = tcp_keep_alive,
                              .destroy = tcp_destroy };
