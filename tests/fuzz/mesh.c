/*
 * Forming a process group: a rank of three, whose store sends anything, as do its peers or other
 * programs that answer and connect in their place.
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
    if (rank < 2) // whose memory would stay mapped if the run exits early
        world_set_env("DDP_SHM_DISABLE=1");

    Mesh *mesh = mem_calloc(1, sizeof *mesh);
    mesh_init(mesh, &pg);
    world_passed();
    mesh_free(mesh);
    free(mesh);
    close(store.fd);
}
