/* Each rank can compute the ranks of its groups, so forming them sends nothing. A group shares the
 * connections of pg, and numbers its own ranks from 0. */
#include "beyond/tensor_parallel/device_mesh.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/backend.h"

/* Makes the group of `size` ranks: first, first + step, first + 2 step ... */
static void line_init(ProcessGroup *line, ProcessGroup *pg, const char *what, int first, int step,
                      int size)
{
    char name[GROUP_NAME_BYTES];
    int *ranks = mem_alloc((size_t)size, sizeof *ranks);
    for (int i = 0; i < size; i++)
        ranks[i] = first + i * step;
    snprintf(name, sizeof name, "%s group of rank %d", what, first);
    process_group_new(line, pg, ranks, size, name);
    free(ranks);
}

void device_mesh_init(DeviceMesh *mesh, ProcessGroup *pg, int tensor_ranks)
{
    const int ranks = pg->world_size, columns = ranks < tensor_ranks ? ranks : tensor_ranks;
    if (ranks % columns != 0 || pg->backend != &backend_tcp) {
        barrier(pg); // otherwise a rank that is still connecting reports that another is gone
        if (pg->backend != &backend_tcp)
            usage_error("this aside needs groups within a group, which only --backend tcp has");
        usage_error("--nproc %d: this aside divides each layer among %d ranks, so it needs a "
                    "multiple of %d",
                    ranks, columns, columns);
    }
    const int row = pg->rank / columns, column = pg->rank % columns;
    line_init(&mesh->tensor, pg, "tensor", row * columns, 1, columns);
    line_init(&mesh->data, pg, "data", column, columns, ranks / columns);
}

void device_mesh_free(DeviceMesh *mesh)
{
    subgroup_free(&mesh->tensor);
    subgroup_free(&mesh->data);
}
