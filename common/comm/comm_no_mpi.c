/* Stands in for the mpi backend in builds without MPI. */
#include "common/comm/backend.h"

const Backend backend_mpi = {
    .name = "mpi", .remedy = "install Open MPI (apt-get install libopenmpi-dev) and run make again"
};
