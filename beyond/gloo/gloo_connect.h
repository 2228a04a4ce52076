/*
 * gloo_connect.h - the ranks find each other in the store, and each pair connects.
 */
#ifndef BEYOND_GLOO_GLOO_CONNECT_H
#define BEYOND_GLOO_GLOO_CONNECT_H

#include "common/comm/tcp/tcp_mesh.h"

#define GLOO_TRIED "this was tried with PyTorch 2.5.1 and 2.15" // for messages

/* Sets `data` of all other ranks. Dies at mesh->deadline with the ranks that are missing. */
void gloo_connect(Mesh *mesh, const ProcessGroup *pg);

#endif
