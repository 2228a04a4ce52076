/*
 * Forming a process group: a rank of three, whose store says anything, and whose peers, or whoever
 * answers and calls in their place, do so too.
 */
#include "common/comm/tcp/tcp_mesh.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/fuzz/targets.h"

void fuzz_mesh(Input input)
{
    const int rank = input_byte(&input) % 3;
    Store store = { .fd = world_connect(input_part(&input)), .timeout = 1, .host = "hostile" };
    ProcessGroup pg = { .rank = rank, .world_size = 3, .store = &store, .timeout = 1 };
    world_set_peers(input);
    if (rank < 2) // whose own memory nobody would unmap where the run ends halfway
        world_set_env("DDP_SHM_DISABLE=1");

    Mesh *mesh = mem_calloc(1, sizeof *mesh);
    mesh_init(mesh, &pg);
    mesh_free(mesh);
    free(mesh);
    close(store.fd);
}
