/*
 * device_mesh.h - ranks in a grid, and a group for each of its lines (PyTorch's init_device_mesh).
 *
 *                tensor rank 0   tensor rank 1
 *     data 0     rank 0          rank 1          a row has the parts of one replica
 *     data 1     rank 2          rank 3          a column has replicas of the same part
 *
 * Ranks of a row are neighbours, since they send the most often: on several nodes a row should lie
 * inside one of them.
 */
#ifndef BEYOND_TENSOR_PARALLEL_DEVICE_MESH_H
#define BEYOND_TENSOR_PARALLEL_DEVICE_MESH_H

#include "common/comm/process_group.h"

typedef struct {
    ProcessGroup tensor; // this rank's row
    ProcessGroup data; // this rank's column
} DeviceMesh;

/* Cuts pg, which must outlive the mesh, into rows of tensor_ranks ranks each, or into one row if it
 * has fewer. Free the groups with device_mesh_free only. A rank's calls on pg and on
 * both groups are executed in the order of the calls. Usage error if the rows are not equally long,
 * or if the backend is not tcp. Collective on pg. */
void device_mesh_init(DeviceMesh *mesh, ProcessGroup *pg, int tensor_ranks);
void device_mesh_free(DeviceMesh *mesh);

#endif
