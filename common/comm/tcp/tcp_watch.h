/* tcp_watch.h - waiting in the tcp backend, with a deadline and an eye on every peer. */
#ifndef COMMON_COMM_TCP_TCP_WATCH_H
#define COMMON_COMM_TCP_TCP_WATCH_H

#include <stdnoreturn.h>

#include "common/comm/tcp/tcp_mesh.h"

/* Begins a collective, which must end within the group's timeout. */
void mesh_begin(Mesh *mesh, const Collective *collective);

/* Waits until data can be sent to `to` or received from `from` (each may be NOBODY). Ends the
 * process when a peer is gone or sends an abort, and when the time is over. */
void mesh_wait(Mesh *mesh, int to, int from);

/* The connection to a peer is closed: ends the process with the peer's last message, if any. */
noreturn void mesh_lost(Mesh *mesh, int peer);

/* Ends the process because a peer makes another call than we do. */
noreturn void mesh_mismatch(Mesh *mesh, int peer, const Call *theirs);

/* Ends the group: tells all peers, then dies with the same line. */
noreturn void mesh_abort(Mesh *mesh, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sends to one peer without blocking: a peer that does not read notices gets no more. */
void notice_send(Mesh *mesh, int peer, const Notice *notice);

#endif
