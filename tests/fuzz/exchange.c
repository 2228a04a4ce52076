/*
 * Collectives of a rank of three, with peers that send anything: notices and data of one, then of
 * the other; or, in place of the data, memory that they share and write anything to. There are two
 * counts, because short and long messages take different paths.
 */
#include "common/base/comfort.h"
#include "common/comm/tcp/tcp_mesh.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "extras/shared_memory/pipe.h"
#include "tests/fuzz/targets.h"

enum { NUM_RANKS = 3, FEW = 3, MANY = 30 };

static void (*const algorithms[])(Mesh *mesh, const Collective *collective) = {
    ring_all_reduce, ring_reduce_scatter, ring_all_gather,   doubling_all_reduce, tree_broadcast,
    chain_broadcast, direct_collective,   direct_collective, direct_collective,
};
static const CollectiveKind kinds[] = {
    ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE, BROADCAST,
    BROADCAST,  REDUCE,         GATHER,     SCATTER,
};

/* Sets up shared memory: the first two numbers are the peer's indices, then whether it sleeps, and
 * the rest is in its ring; the connection carries the wake-ups. */
static void share_memory(Peer *peer, Pipe *pipe, PipeMemory *memory, Input input)
{
    uint64_t number[3] = { 0 };
    const size_t known = input.size < sizeof number ? input.size : sizeof number;
    PipeEnd *own = &memory->end[0], *theirs = &memory->end[1];
    memcpy(number, input.data, known);
    memset(own, 0, offsetof(PipeEnd, ring));
    memset(theirs->ring, 0, UINT16_MAX); // more than any input has written there
    memcpy(theirs->ring, input.data + known, input.size - known);
    theirs->written = number[0];
    theirs->read = number[1];
    theirs->asleep = (uint32_t)number[2];
    *pipe = (Pipe){ .memory = memory, .own = own, .theirs = theirs, .bell = peer->data };
    peer->pipe = pipe;
}

/* Makes a mesh without connecting, which mesh.c in this folder tests. */
static Mesh *make_mesh(const ProcessGroup *pg, bool shares, Input *input)
{
    static PipeMemory memory[NUM_RANKS];
    static Pipe pipe[NUM_RANKS];
    const int rank = pg->rank;
    Mesh *mesh = mem_calloc(1, sizeof *mesh);
    mesh->rank = rank;
    mesh->world_size = NUM_RANKS;
    mesh->timeout = 1;
    mesh->peer = mem_calloc(NUM_RANKS, sizeof *mesh->peer);
    mesh->watched = mem_calloc(NUM_RANKS + 2, sizeof *mesh->watched);
    for (int i = 0; i < NUM_RANKS; i++) {
        mesh->peer[i] = (Peer){ .data = -1, .notices = -1, .reported_at = -1e9 };
        if (i != rank) {
            mesh->peer[i].notices = world_connect(input_part(input));
            mesh->peer[i].data = world_connect(input_part(input));
            if (shares && has_extras)
                share_memory(&mesh->peer[i], &pipe[i], &memory[i], input_part(input));
        }
        mesh->watched[i] =
            (struct pollfd){ .fd = mesh->peer[i].notices, .events = POLLIN | POLLRDHUP };
    }
    return mesh;
}

void fuzz_exchange(Input input)
{
    static float in[NUM_RANKS * MANY], out[NUM_RANKS * MANY];
    const uint8_t what = input_byte(&input);
    const size_t which = what % (sizeof kinds / sizeof *kinds);
    const ProcessGroup pg = { .rank = input_byte(&input) % NUM_RANKS,
                              .world_size = NUM_RANKS,
                              .mean_ranks = NUM_RANKS,
                              .timeout = 1,
                              .calls.error_suffix = "" };
    Mesh *mesh = make_mesh(&pg, what & 64, &input);
    Collective collective = { .pg = &pg,
                              .sequence = 1,
                              .kind = kinds[which],
                              .type = what & 32 ? INT32 : FLOAT32,
                              .op = REDUCE_SUM,
                              .count = what & 16 ? MANY : FEW,
                              .root = 0,
                              .in = in,
                              .out = out };
    mesh_begin(mesh, &collective);
    algorithms[which](mesh, &collective);
    world_passed();
    for (int i = 0; i < NUM_RANKS; i++)
        mesh->peer[i].pipe = NULL; // because the mesh does not own it
    mesh_free(mesh);
    free(mesh);
}
