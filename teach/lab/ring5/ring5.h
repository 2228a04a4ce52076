/* ring5.h - rung 5 of lab-ring: the ring inside the tcp backend, in place of ours.
 *
 * exchange (tcp_mesh.h) sends a message and receives one at the same time, and adds what arrives.
 * A thread calls the ring while the training computes, so it overlaps with the backward pass.
 */
#ifndef TEACH_LAB_RING5_H
#define TEACH_LAB_RING5_H

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"

void lab_ring(Mesh *mesh, const Collective *collective); // an all_reduce of any length

#endif
