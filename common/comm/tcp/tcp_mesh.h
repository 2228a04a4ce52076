/* tcp_mesh.h - the tcp backend's connections: two from every rank to every other. */
#ifndef COMMON_COMM_TCP_TCP_MESH_H
#define COMMON_COMM_TCP_TCP_MESH_H

#include <poll.h>
#include <stdatomic.h>

#include "common/comm/backend.h"
#include "common/comm/hierarchy.h"

#define NOBODY (-1) // in place of a rank
#define NUM_RECENT_CALLS 64
#define CHUNK_BYTES ((size_t)256 * 1024)

/* A Collective on the wire: what all ranks must agree on. */
typedef struct {
    uint64_t sequence, count;
    int32_t kind, type, op, root;
    char group[GROUP_NAME_BYTES]; // its name, zero-padded
} Call;

/* What ranks send each other besides data. */
typedef enum { NOTICE_WAITING, NOTICE_ABORT, NOTICE_GOODBYE } NoticeKind;

typedef struct {
    int32_t kind;
    int32_t waits_for; // the rank whose message is missing, or NOBODY ...
    Call call; // ... and in which call
    char text[512]; // of NOTICE_ABORT: why the group ends
} Notice;

/* Data and notices have connections of their own: a notice must not wait behind unread data, and
 * may arrive in the middle of a message. */
typedef struct {
    int data, notices; // descriptors; -1 for ourselves
    struct Pipe *pipe; // carries the data, the connection only wake-ups; NULL: another machine
    Notice last; // the last NOTICE_WAITING ...
    double heard_at; // ... and when it came
    bool deaf; // it does not read notices: half of one is stuck
} Peer;

typedef struct {
    int rank, world_size;
    double timeout;
    Peer *peer; // by rank
    struct pollfd *watched; // every peer's notices, then data to send, data to receive

    const ProcessGroup *pg; // group or subgroup of the call in progress
    Traffic *traffic; // counts what is sent for that call; or NULL
    Call call; // in progress
    uint64_t op_id; // of that call, for observers
    Call recent[NUM_RECENT_CALLS]; // the latest, send and recv excluded
    uint64_t num_calls; // of those, so far
    double deadline; // of the call
    bool has_core; // this machine has a core for each of its ranks
    atomic_int waiting; // threads that wait for a call
    double idle_since; // nothing was sent or received since; 0: just now
    double look_at; // when to read notices next, even without waiting
    double tell_at, tell_interval; // when to send the next NOTICE_WAITING

    _Alignas(64) char chunk[CHUNK_BYTES]; // received, not yet added
    void *scratch; // see mesh_scratch
    size_t scratch_bytes;
    uint64_t sent_bytes, received_bytes; // of payload, since mesh_init
    uint64_t sent_messages;
} Mesh;

/* Connects this rank to all others; they find each other in the store. Collective. */
void mesh_init(Mesh *mesh, const ProcessGroup *pg);

/* Says goodbye, waits until all others have said it, and closes. Collective. */
void mesh_free(Mesh *mesh);

/* Memory of at least so many bytes, valid until the next call. It grows and never shrinks. */
void *mesh_scratch(Mesh *mesh, size_t bytes);

#endif
