/* The tcp backend where there is no tcp: every rank is a worker of a page, and posts its messages
 * to the others. It takes the place of all of common/comm/tcp but tcp_algorithms.c: the algorithms
 * are the library's, and so are the order of the sums and the bits.
 *
 * A worker has one thread: a call is executed when it is made, and overlaps nothing. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "extras/browser/page.h"

#define SHORT_BYTES ((size_t)32 * 1024) // as in backend_tcp.c for up to 8 ranks
#define REASON_BYTES 512

static char ours[DESCRIPTION_BYTES]; // the call in progress

void *mesh_scratch(Mesh *mesh, size_t bytes)
{
    free(mesh->scratch);
    return mesh->scratch = mem_alloc(bytes, 1);
}

void message_send(Mesh *mesh, int to, const void *data, size_t bytes)
{
    (void)mesh;
    page_send(to, ours, data, bytes);
}

/* Ends this rank, with the words of tcp_watch.c, if the peer is gone or makes another call. */
void message_receive(Mesh *mesh, int from, void *data, size_t bytes)
{
    char theirs[REASON_BYTES] = "";
    const PageReceived known = page_receive(from, theirs, sizeof theirs, data, bytes);
    CHECK(known != PAGE_GONE || theirs[0] == '\0', "%s", theirs);
    CHECK(known != PAGE_GONE, "rank %d is gone: connection closed during %s", from, ours);
    CHECK(known == PAGE_OK && strcmp(ours, theirs) == 0, "rank %d calls %s, rank %d calls %s",
          mesh->rank, ours, from, theirs);
}

void exchange(Mesh *mesh, Outgoing sent, Incoming received)
{
    if (sent.to != NOBODY)
        message_send(mesh, sent.to, sent.data, sent.bytes);
    if (received.from == NOBODY)
        return;
    if (received.addend == NULL) {
        message_receive(mesh, received.from, received.data, received.bytes);
        return;
    }
    void *arriving = mem_alloc(received.bytes, 1); // not yet added
    message_receive(mesh, received.from, arriving, received.bytes);
    const Collective *c = mesh->collective;
    reduce_elements(received.data, arriving, received.addend, received.bytes / dtype_size(c->type),
                    c->type, c->op);
    free(arriving);
}

/* As the table in backend_tcp.c. */
static Algorithm *choose(CollectiveKind kind, bool is_short)
{
    switch (kind) {
    case ALL_REDUCE:
    case BARRIER:
        return is_short ? doubling_all_reduce : ring_all_reduce;
    case BROADCAST:
        return is_short ? tree_broadcast : chain_broadcast;
    case ALL_GATHER:
        return ring_all_gather;
    case REDUCE_SCATTER:
        return ring_reduce_scatter;
    default:
        return direct_collective;
    }
}

static void *browser_init(ProcessGroup *pg)
{
    Mesh *mesh = mem_calloc(1, sizeof *mesh);
    mesh->rank = pg->rank;
    mesh->world_size = pg->world_size;
    return mesh;
}

/* A group that compares its options without a store needs none; here all get the same from the
 * page. */
static void browser_compare(const ProcessGroup *pg)
{
    (void)pg;
}

static long browser_start(void *state, const Collective *collective)
{
    Mesh *mesh = state;
    mesh->collective = collective;
    collective_describe(collective, ours);
    const bool is_short = collective->count * dtype_size(collective->type) <= SHORT_BYTES;
    choose(collective->kind, is_short)(mesh, collective);
    return (long)collective->op_id;
}

static void browser_wait(void *state, long ticket)
{
    (void)state, (void)ticket;
}

static void browser_destroy(void *state, ProcessGroup *pg)
{
    (void)pg;
    free(((Mesh *)state)->scratch);
    free(state);
}

const Backend backend_tcp = { .name = "tcp",
                              .compare = browser_compare,
                              .init = browser_init,
                              .start = browser_start,
                              .wait = browser_wait,
                              .destroy = browser_destroy };
