/*
 * Gloo's algorithms on a CPU, as PyTorch calls them: which rank sends what to which, and when.
 *
 * The bytes are those of a job of PyTorch alone, and so are the results, bit for bit. What differs
 * from tcp: the all-reduce's data goes to rank - 1, in segments of 1 MiB at most, two of them on
 * their way at a time; and there is no other algorithm for short messages.
 */
#include "beyond/gloo/gloo.h"

#include <stdlib.h>

#include "beyond/gloo/gloo_connect.h"
#include "beyond/gloo/gloo_messages.h"
#include "common/base/log.h"

#define MAX_SEGMENT ((size_t)1 << 20)

/* Gloo's numbers of the calls, as its slots have them; kind 0 is send and receive. */
static const uint64_t slot_kinds[] = {
    [GATHER] = 1,  [ALL_GATHER] = 2, [REDUCE] = 3,  [ALL_REDUCE] = 4, [REDUCE_SCATTER] = 4,
    [SCATTER] = 5, [BROADCAST] = 6,  [BARRIER] = 7, [SEND] = 0,       [RECV] = 0,
};

static size_t bytes_of(const Collective *collective)
{
    return collective->count * dtype_size(collective->type);
}

/* Returns the rank that comes `distance` after this one. */
static int rank_at(const Mesh *mesh, int distance)
{
    return (mesh->rank + distance + mesh->world_size) % mesh->world_size;
}

/* ---- the ring ---- */

/* An array in segments, `share` of them for each rank; the last are short, or empty. */
typedef struct {
    char *data;
    size_t bytes, segment, share;
} Ring;

/* A part of the array; data is NULL if it is empty. */
typedef struct {
    char *data;
    size_t bytes;
} Segment;

/* Returns segment i, counted from the first of this rank's block. */
static Segment segment_at(const Ring *ring, int rank, int n, size_t i)
{
    const size_t start =
        ((size_t)rank * ring->share + i) % ((size_t)n * ring->share) * ring->segment;
    if (start >= ring->bytes)
        return (Segment){ 0 };
    const size_t rest = ring->bytes - start;
    return (Segment){ ring->data + start, rest < ring->segment ? rest : ring->segment };
}

/* Makes `steps` steps, from the segments of two ranks' blocks on: each sends one to the rank before
 * and receives one from the next, two steps at a time. What arrives is added if `adds`. */
static void go_round(Mesh *mesh, const Ring *ring, int sent, int received, size_t steps, bool adds)
{
    const int n = mesh->world_size, to = rank_at(mesh, -1), from = rank_at(mesh, 1);
    GlooMessage *out[GLOO_WINDOW] = { NULL }, *in[GLOO_WINDOW] = { NULL };
    for (size_t i = 0; i < steps + GLOO_WINDOW; i++) {
        const size_t k = i % GLOO_WINDOW;
        gloo_await(mesh, in[k]);
        gloo_await(mesh, out[k]);
        in[k] = out[k] = NULL;
        if (i >= steps)
            continue;
        const Segment coming = segment_at(ring, received, n, i),
                      going = segment_at(ring, sent, n, i);
        if (coming.bytes > 0)
            in[k] =
                (adds ? gloo_receive_adding : gloo_receive)(mesh, from, coming.data, coming.bytes);
        if (going.bytes > 0)
            out[k] = gloo_send(mesh, to, going.data, going.bytes);
    }
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void ring_reduce_all(Mesh *mesh, const Collective *collective, void *data, size_t count)
{
    const size_t n = (size_t)mesh->world_size, element = dtype_size(collective->type);
    Ring ring = { .data = data, .bytes = count * element };
    if (count == 0 || n == 1)
        return;
    ring.share =
        divide_up(larger(divide_up(ring.bytes, MAX_SEGMENT / element * element), 2 * n), n);
    ring.segment = divide_up(divide_up(ring.bytes, ring.share * n), element) * element;
    const int rank = mesh->rank;
    const size_t steps = (n - 1) * ring.share;
    go_round(mesh, &ring, rank + 1, rank + 2, steps, true);
    go_round(mesh, &ring, rank, rank + 1, steps, false);
}

static void run_all_reduce(Mesh *mesh, const Collective *collective)
{
    ring_reduce_all(mesh, collective, collective->out, collective->count);
    reduce_finish(collective->out, collective->count, collective->type, collective->op,
                  collective->pg->mean_ranks);
}

/* Reduces the whole input on every rank, as PyTorch does over Gloo, and keeps a share. */
static void run_reduce_scatter(Mesh *mesh, const Collective *collective)
{
    const size_t bytes = bytes_of(collective), n = (size_t)mesh->world_size;
    char *sums = mem_alloc(n * bytes, 1);
    memcpy(sums, collective->in, n * bytes);
    ring_reduce_all(mesh, collective, sums, n * collective->count);
    memcpy(collective->out, sums + (size_t)mesh->rank * bytes, bytes);
    reduce_finish(collective->out, collective->count, collective->type, collective->op,
                  collective->pg->mean_ranks);
    free(sums);
}

/* Goes round once, then every rank sends the root its block. With more than two segments a rank
 * Gloo's ring goes on past the useful steps (it makes all but two of a whole round), so ours does,
 * too. That destroys the array, so other ranks than the root use a copy. */
static void run_reduce(Mesh *mesh, const Collective *collective)
{
    const size_t n = (size_t)mesh->world_size, element = dtype_size(collective->type);
    const int rank = mesh->rank, root = collective->root;
    Ring ring = { .data = collective->out, .bytes = bytes_of(collective) };
    if (ring.bytes > 0 && n > 1) {
        if (rank != root)
            ring.data = memcpy(mem_alloc(ring.bytes, 1), collective->in, ring.bytes);
        const size_t part = divide_up(ring.bytes, 2 * n), longest = MAX_SEGMENT / element * element;
        ring.segment = divide_up(part < longest ? part : longest, element) * element;
        ring.share = divide_up(larger(divide_up(ring.bytes, ring.segment), 2 * n), n);
        go_round(mesh, &ring, rank + 1, rank + 2, ring.share * n - 2, true);
        const size_t block = ring.share * ring.segment;
        for (size_t i = 0; i < n; i++) {
            const size_t start = i * block;
            if (start >= ring.bytes || (rank == root) == (i == (size_t)rank))
                continue;
            const size_t bytes = ring.bytes - start < block ? ring.bytes - start : block;
            if (rank == root)
                gloo_await(mesh, gloo_receive(mesh, (int)i, ring.data + start, bytes));
            else if (i == (size_t)rank)
                gloo_await(mesh, gloo_send(mesh, root, ring.data + start, bytes));
        }
        if (rank != root)
            free(ring.data);
    }
    if (rank == root)
        reduce_finish(collective->out, collective->count, collective->type, collective->op,
                      collective->pg->mean_ranks);
}

/* ---- the others ---- */

/* Sends each block in two halves of bytes, to rank + 1: the other way round than the all-reduce. */
static void run_all_gather(Mesh *mesh, const Collective *collective)
{
    const size_t bytes = bytes_of(collective), n = (size_t)mesh->world_size;
    char *data = collective->out, *own = data + (size_t)mesh->rank * bytes;
    if (collective->in != own && bytes > 0)
        memcpy(own, collective->in, bytes);
    if (bytes == 0)
        return;
    const size_t half[2] = { bytes / 2, bytes - bytes / 2 };
    GlooMessage *out[2] = { NULL }, *in[2] = { NULL };
    for (size_t i = 0; i < 2 * n; i++) {
        const size_t k = i % 2;
        gloo_await(mesh, out[k]);
        gloo_await(mesh, in[k]);
        if (i >= 2 * (n - 1))
            continue;
        const size_t skip = k * half[0];
        const size_t going = (size_t)rank_at(mesh, -(int)(i / 2)),
                     coming = (size_t)rank_at(mesh, -(int)(i / 2) - 1);
        out[k] = gloo_send(mesh, rank_at(mesh, 1), data + going * bytes + skip, half[k]);
        in[k] = gloo_receive(mesh, rank_at(mesh, -1), data + coming * bytes + skip, half[k]);
    }
}

/* In round k the ranks below 2^k, counted from the root, each serve the one 2^k above. */
static void run_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = mesh->world_size, place = (mesh->rank - collective->root + n) % n;
    const size_t bytes = bytes_of(collective);
    GlooMessage *sent[32];
    int num_sent = 0;
    for (int step = 1; step < n; step *= 2) {
        if (place < step && place + step < n)
            sent[num_sent++] = gloo_send(mesh, rank_at(mesh, step), collective->out, bytes);
        else if (place >= step && place < 2 * step)
            gloo_await(mesh, gloo_receive(mesh, rank_at(mesh, -step), collective->out, bytes));
    }
    while (num_sent > 0)
        gloo_await(mesh, sent[--num_sent]);
}

/* Dissemination: after step k each rank has heard, directly or not, of 2^(k + 1). */
static void run_barrier(Mesh *mesh, const Collective *collective)
{
    for (int distance = 1; distance < mesh->world_size; distance *= 2) {
        void *nothing = collective->out;
        GlooMessage *in = gloo_receive(mesh, rank_at(mesh, -distance), nothing, 0);
        GlooMessage *out = gloo_send(mesh, rank_at(mesh, distance), nothing, 0);
        gloo_await(mesh, in);
        gloo_await(mesh, out);
    }
}

/* Does gather and scatter: the root exchanges with all at the same time. And send and recv. */
static void run_direct(Mesh *mesh, const Collective *collective)
{
    const CollectiveKind kind = collective->kind;
    const int rank = mesh->rank, root = collective->root, n = mesh->world_size;
    const size_t bytes = bytes_of(collective);
    if (kind == RECV || (kind == SCATTER && rank != root))
        gloo_await(mesh, gloo_receive(mesh, root, collective->out, bytes));
    else if (kind == SEND || rank != root)
        gloo_await(mesh, gloo_send(mesh, root, collective->in, bytes));
    if (collective_is_point_to_point(kind) || rank != root)
        return;
    GlooMessage **message = mem_calloc((size_t)n, sizeof(GlooMessage *));
    for (int i = 0; i < n; i++) {
        const char *in = (const char *)collective->in + (kind == SCATTER ? (size_t)i * bytes : 0);
        char *out = (char *)collective->out + (kind == GATHER ? (size_t)i * bytes : 0);
        if (i == rank && bytes > 0)
            memmove(out, in, bytes);
        else if (i != rank)
            message[i] =
                kind == SCATTER ? gloo_send(mesh, i, in, bytes) : gloo_receive(mesh, i, out, bytes);
    }
    for (int i = 0; i < n; i++)
        gloo_await(mesh, message[i]);
    free(message);
}

static Algorithm *const algorithms[] = {
    [ALL_REDUCE] = run_all_reduce, [BROADCAST] = run_broadcast,           [REDUCE] = run_reduce,
    [GATHER] = run_direct,         [ALL_GATHER] = run_all_gather,         [SCATTER] = run_direct,
    [BARRIER] = run_barrier,       [REDUCE_SCATTER] = run_reduce_scatter, [SEND] = run_direct,
    [RECV] = run_direct,
};

/* A slot is the kind of a call and its number in the group; messages between two ranks have the
 * user's tag instead, which is 0 here, as by default in PyTorch. */
static void run(Mesh *mesh, const Collective *collective)
{
    const uint64_t kind = slot_kinds[collective->kind];
    const uint64_t bytes = mesh->moved.sent_bytes, messages = mesh->moved.sent_messages;
    char text[DESCRIPTION_BYTES];
    gloo_begin(mesh, kind == 0 ? 0 : kind << 56 | (collective->sequence & UINT32_MAX) << 24);
    algorithms[collective->kind](mesh, collective);
    log_detail(LOG_DISTRIBUTED, "%s: sent %llu bytes, with headers, in %llu messages of data",
               collective_describe(collective, text),
               (unsigned long long)(mesh->moved.sent_bytes - bytes),
               (unsigned long long)(mesh->moved.sent_messages - messages));
}

/* ---- forming a group ---- */

static void destroy(void *state, ProcessGroup *pg)
{
    Gloo *gloo = (Gloo *)pg->wire;
    backend_tcp.destroy(state, pg);
    free(gloo->peer);
    free(gloo->polled);
    free(gloo);
    pg->wire = NULL;
}

/* Dies if an option asks for calls of our own, which PyTorch's ranks do not make. */
static void check_options(const Args *args)
{
    static const char advice[] = "PyTorch's ranks do not make the calls that this needs: leave it "
                                 "out, or take --backend tcp";
    if (args->backend != BACKEND_AUTO && args->backend != BACKEND_GLOO)
        usage_error("--backend %s: this program has gloo and tcp",
                    args->backend == BACKEND_MPI ? "mpi" : "nccl");
    if (args->trace != NULL || args->profile != NULL)
        usage_error("--%s: %s", args->trace != NULL ? "trace" : "profile", advice);
    if (args->show_topology || args->check_collectives)
        usage_error("--%s: %s", args->show_topology ? "show-topology" : "check-collectives",
                    advice);
    const char *debug = getenv("TORCH_DISTRIBUTED_DEBUG");
    if (debug != NULL && strcmp(debug, "DETAIL") == 0)
        usage_error(
            "TORCH_DISTRIBUTED_DEBUG=DETAIL gives PyTorch's ranks a second group, and calls "
            "that this rank does not make: unset it, or take INFO");
}

void gloo_group_init(ProcessGroup *pg, const Args *args, const char *master_addr, int master_port,
                     int rank, int world_size, MemoryLocation place)
{
    static Backend backend_gloo;
    if (args->backend == BACKEND_TCP) {
        process_group_init(pg, args, master_addr, master_port, rank, world_size, place);
        return;
    }
    check_options(args);
    unsetenv(SECRET_VARIABLE); // PyTorch's ranks have none, so their keys are where all may look
    Args tcp = *args;
    tcp.backend = BACKEND_TCP;
    process_group_open(pg, &tcp, master_addr, master_port, rank, world_size, place);
    pg->store->prefix[0] = '\0';

    Gloo *gloo = mem_calloc(1, sizeof *gloo);
    *gloo = (Gloo){ .wire = { gloo_connect, run },
                    .peer = mem_calloc((size_t)world_size, sizeof *gloo->peer),
                    .polled = mem_calloc((size_t)world_size, sizeof *gloo->polled) };
    backend_gloo = backend_tcp; // its queue and threads
    backend_gloo.name = "gloo";
    backend_gloo.keep_alive = NULL;
    backend_gloo.destroy = destroy;
    pg->backend = &backend_gloo;
    pg->wire = &gloo->wire;
    process_group_connect(pg, args);
}
