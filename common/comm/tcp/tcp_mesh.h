/* tcp_mesh.h - the tcp backend's connections, two between ranks that exchange messages.
 *
 *     data     | handshake | CollectiveId | magic | bytes | payload ... | CollectiveId | ...
 *     notices  | handshake | kind | waits_for | CollectiveId | text | kind | waits_for | ...
 *
 * Both carry messages in both directions, in host byte order. Ranks that share memory send data
 * through a pipe instead; then the connection only carries wake-ups.
 *
 * - To connect the ranks, call mesh_init on all of them; mesh_free sends NOTICE_CLOSE and closes.
 * - To make a collective, call mesh_begin and one of the algorithms (tcp_algorithms.c).
 * - An algorithm calls exchange, which sends a message and receives one (tcp_exchange.c). Where it
 *   can do neither, it calls mesh_wait, which reads the notices meanwhile (tcp_watch.c).
 * - Errors do not return: a rank that finds one notifies all others, and all die with one line. In
 *   a group that survives they jump to `unwind` instead: run_next then takes the call as done. */
#ifndef COMMON_COMM_TCP_TCP_MESH_H
#define COMMON_COMM_TCP_TCP_MESH_H

#include <poll.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdnoreturn.h>
#include <sys/uio.h>

#include "common/comm/backend.h"

#define NUM_CHANNELS 2 // data and notices
#define NOBODY (-1) // stands for "no rank" where a rank is expected
#define NUM_RECENT_CALLS 64
#define CHUNK_BYTES ((size_t)256 * 1024)

/* A Collective on the wire: what all ranks must agree on. */
typedef struct {
    uint64_t sequence, count;
    int32_t kind, type, op, root;
    char group[GROUP_NAME_BYTES]; // the group's name, zero-padded
} CollectiveId;

/* How a message begins. */
#define HEADER_MAGIC UINT64_C(0x6464702e74637032)
typedef struct {
    CollectiveId call;
    uint64_t magic;
    uint64_t bytes; // payload bytes
} Header;

/* How a connection begins in a job without a secret; the answer is HANDSHAKE_WELCOME. */
typedef struct {
    Key256 key; // the group's key
    int32_t caller, answerer, channel;
} Opening;

/* What ranks send each other besides data. */
typedef enum { NOTICE_WAITING, NOTICE_ABORT, NOTICE_CLOSE, NOTICE_ALIVE } NoticeKind;

typedef struct {
    int32_t kind;
    int32_t waits_for; // the rank whose message is missing, or NOBODY
    CollectiveId call; // the call in which it is missing
    char text[512]; // why the group ends, in NOTICE_ABORT
} Notice;

/* Data and notices have connections of their own, because a notice must not wait behind unread
 * data, and may arrive in the middle of a message. */
typedef struct {
    int data, notices; // descriptors (-1 for this rank and where there is no connection)
    struct Pipe *pipe; // carries the data; NULL if `data` does
    Notice last; // the last NOTICE_WAITING
    double reported_at; // when the last NOTICE_WAITING came
    bool notices_blocked; // the peer does not read notices, so it gets no more of them
} Peer;

typedef struct Mesh {
    int rank, world_size;
    double timeout;
    ProcessGroup *survivor; // the group that an error revokes; NULL if an error ends the process
    jmp_buf unwind; // where the driver continues after an error
    int listen_fd; // open while the mesh is being formed (-1 if not)
    bool has_core; // this machine has a core for each of its ranks
    Peer *peer; // indexed by rank
    struct pollfd *watched; // every peer's notices, then data to send, data to receive
    struct OnDemand *on_demand; // uses this rank's entry of `watched`; NULL if all are connected

    const Collective *collective; // the call in progress; NULL while the mesh is being formed
    CollectiveId call; // the call in progress, as it is on the wire
    double deadline; // when the call, or forming the mesh, must have ended
    CollectiveId recent[NUM_RECENT_CALLS]; // the latest calls, send and recv excluded
    uint64_t num_calls; // number of calls so far that went into `recent`

    struct {
        atomic_int num_threads; // threads that wait for a call
        int peer; // rank whose message is missing
        double spins_until; // by seconds_now (0: it has not begun to wait)
        double idle_since; // since when it sleeps and no byte has moved (0: it does not sleep)
        double next_poll_time; // when to read notices next, even without waiting
        double next_notice_time; // when to send NOTICE_WAITING or NOTICE_ALIVE next
    } wait;

    _Alignas(64) char chunk[CHUNK_BYTES]; // bytes received but not yet added
    void *scratch; // see mesh_scratch
    size_t scratch_bytes;
    struct {
        uint64_t sent_bytes, received_bytes, sent_messages; // payload moved since mesh_init
    } moved;
} Mesh;

/* ---- tcp_mesh.c: connections ---- */

/* Connects this rank to all others (its neighbors: extras/on_demand); they find each other in the
 * store. Collective. */
void mesh_init(Mesh *mesh, const ProcessGroup *pg);

/* Disconnects, after all have sent NOTICE_CLOSE unless the group is revoked. Collective. */
void mesh_free(Mesh *mesh);

/* Returns at least this many bytes of memory, valid until the next call. It never shrinks. */
void *mesh_scratch(Mesh *mesh, size_t bytes);

/* Parts of mesh_init. mesh_call finds the peer's address in this store, and connects to it. */
#define MESH_ADDRESS_BYTES 272 // "HOST PORT"
#define FORM_SECONDS 5.0 // to form a group that survives; if a rank is gone, the next is formed
double mesh_connect_timeout(const ProcessGroup *pg); // returns the seconds to form the mesh
Key256 mesh_agree_on_key(Mesh *mesh, const ProcessGroup *pg); // which callers send. Collective
int mesh_listen(const ProcessGroup *pg, char address[MESH_ADDRESS_BYTES]);
int mesh_call(const ProcessGroup *pg, Store *store, int peer, double deadline);
void mesh_connected(Mesh *mesh, int peer, struct Pipe *pipe); // `data` and `notices` are set

/* Writes the numeric address of this end of a connection. Returns -1 and sets errno if none. */
int mesh_local_address(int fd, char *address, size_t bytes);

/* ---- tcp_watch.c: waiting, and ending the group ---- */

/* Begins a collective, which must end within the group's timeout. */
void mesh_begin(Mesh *mesh, const Collective *collective);

/* Waits until data can be sent to `to` or received from `from` (either may be NOBODY), or a short
 * time has passed. Ends the process if a peer is gone or has given up, and at the timeout. */
void mesh_wait(Mesh *mesh, int to, int from);

/* Sleeps until this time of seconds_awake(), and reads notices meanwhile as mesh_wait does. */
void mesh_sleep_until(Mesh *mesh, double until);

/* Sends a notice without text to all peers, and sets when to do so again. Does not block: a peer
 * that does not read its notices gets no more of them. */
void mesh_notify(Mesh *mesh, NoticeKind kind, int waits_for);

/* End the group: send all peers the reason, and die with the same line, or jump to `unwind`.
 * mesh_lost is for a closed connection (its last notice may have the reason), mesh_mismatch for a
 * call that differs. `missing`: the rank to blame, which may be stopped and find the line later. */
noreturn void mesh_lost(Mesh *mesh, int peer);
noreturn void mesh_mismatch(Mesh *mesh, int peer, const CollectiveId *theirs);
noreturn void mesh_abort(Mesh *mesh, int missing, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- tcp_exchange.c: moving data ---- */

/* Messages to and from ranks of the group of the call in progress; a rank may be NOBODY. */
typedef struct {
    int to;
    const void *data;
    size_t bytes;
} Outgoing;

typedef struct {
    int from;
    void *data;
    size_t bytes;
    const void *addend; // if not NULL, data[i] = arriving[i] op addend[i]
} Incoming;

/* Sends and receives at the same time; returns when both are done. */
void exchange(Mesh *mesh, Outgoing sent, Incoming received);

/* One direction alone. */
void message_send(Mesh *mesh, int to, const void *data, size_t bytes);
void message_receive(Mesh *mesh, int from, void *data, size_t bytes);

/* ---- tcp_algorithms.c: collective ---- */

typedef void Algorithm(Mesh *mesh, const Collective *collective);
Algorithm ring_all_reduce, ring_reduce_scatter, ring_all_gather, doubling_all_reduce;
Algorithm tree_broadcast, chain_broadcast, direct_collective;

/* Another protocol in place of all this (beyond/gloo), with tcp's queue and threads. */
typedef struct Wire {
    void (*connect)(Mesh *mesh, const ProcessGroup *pg); // sets `data` of all others. Collective
    Algorithm *run; // executes a collective of any kind
} Wire;

/* ---- extras; a build without them has tcp_no_extras.c ---- */

#define PIPE_ALIGNMENT 128 // alignment of messages; a header is shorter, so it never wraps around
#define PIPE_GRAIN 32 // a header's bytes are a multiple of it

/* A pipe carries data between two ranks of one machine in place of a socket (extras/shared_memory).
 * pipe_open agrees on one with the peer over the connection `data`, and returns NULL if they have
 * none; collective of the two. pipe_send and pipe_receive move a header (all of it or nothing) and
 * a part of the payload, like sendmsg and recvmsg with MSG_DONTWAIT. They return how many bytes
 * were moved, or -1 and EAGAIN (EPROTO if the memory is damaged). Both sides use the same parts,
 * and elements are never split. pipe_receive does not copy the payload, but points part[1].iov_base
 * to it; it is valid until pipe_release. */
struct Pipe *pipe_open(const Mesh *mesh, int peer, int data, double deadline);
void pipe_close(struct Pipe *pipe);
ssize_t pipe_send(struct Pipe *pipe, const struct iovec part[2]);
ssize_t pipe_receive(struct Pipe *pipe, struct iovec part[2]);
void pipe_release(struct Pipe *pipe);

/* Call pipes_sleep before polling data[], for peer[0] to read and peer[1] to write, and poll only
 * if it returns true. Call pipes_wake afterwards; it returns a peer that is gone, or NOBODY. */
bool pipes_sleep(Mesh *mesh, const int peer[2], struct pollfd data[2]);
int pipes_wake(Mesh *mesh, const int peer[2]);
void pipes_schedule(const Mesh *mesh, bool computes); // sets how this thread shares a core

/* Connects ranks when they first need each other (extras/on_demand). on_demand_form connects
 * neighbors, and is collective; it returns false where all ranks are to be connected from the
 * start. The others are called only if it has set mesh->on_demand. */
bool on_demand_form(Mesh *mesh, const ProcessGroup *pg);
void on_demand_close(Mesh *mesh);
void on_demand_connect(Mesh *mesh, int peer);
void on_demand_arrive(Mesh *mesh); // accepts the connections that others have opened
void on_demand_receive(Mesh *mesh, const Notice *notice); // handles NOTICE_ALIVE, and its own kinds
bool on_demand_query(Mesh *mesh, int waits_for); // asks at a timeout what that rank waits for

/* Simulates a slower network (extras/simulated_network): returns the time at which a message of
 * `bytes` that begins to arrive counts as received, 0 for on arrival. */
double network_arrival(Mesh *mesh, int from, size_t bytes);

/* Writes the address that the user has chosen for this machine (extras/interface), or returns
 * false. The advice says how to choose another: "; to use ...". */
bool interface_choose(char *host, size_t bytes);
const char *interface_advice(void);

#endif
