/* Stands in for the mpi backend in builds without MPI. */
#include "common/dist/backend.h"

const Backend backend_mpi = { .name = "mpi" };
