/* Stands in for the mpi backend in builds without MPI. */
#include "common/comm/backend.h"

const Backend backend_mpi = { "mpi", "install Open MPI (apt-get install libopenmpi-dev) and run "
                                     "make again" };
