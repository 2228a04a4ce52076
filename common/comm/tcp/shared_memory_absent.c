/* Stands in for the extras that the tcp backend knows. */
#include "common/comm/tcp/tcp_mesh.h"

const PipeOps tcp_pipes = { .open = NULL }; // shared_memory: all data goes through sockets
const InterfaceChoice interface_choice = { NULL, "" }; // interface
double (*const network_arrival)(Mesh *mesh, int from, size_t bytes) = NULL; // simulated_network
const OnDemandOps on_demand = { .form = NULL }; // on_demand: all ranks are connected from the start
