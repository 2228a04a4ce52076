/* One message out and one message in, at the same time.
 *
 * Both directions of a connection are used at once, and no rank delays sending until it has
 * received, because in a ring all ranks would wait. A message with an addend is received and added
 * in parts: while one is added, the kernel receives the next and goes on sending. Every message
 * starts with a header that names its call. Connections and pipes both move messages in parts. */
#include "common/comm/tcp/tcp_mesh.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/log.h"

_Static_assert(sizeof(Header) <= PIPE_ALIGNMENT && sizeof(Header) % PIPE_GRAIN == 0,
               "a pipe keeps a header in one piece and what follows it aligned");

/* A message in transfer. */
typedef struct {
    int peer;
    Header header;
    char *payload;
    size_t bytes; // payload bytes
    size_t done; // bytes of header and payload moved so far
    double arrives_at; // simulated time of arrival (0 if none): see network_arrival
} Message;

static bool message_done(const Message *message)
{
    return message->peer == NOBODY || message->done == sizeof message->header + message->bytes;
}

/* Returns the next parts: the rest of the header, and the payload up to the end of a chunk. */
static struct msghdr next_part(Message *message, char *chunk, struct iovec part[2])
{
    const size_t header_bytes = sizeof message->header;
    const size_t header_done = message->done < header_bytes ? message->done : header_bytes;
    const size_t payload_done = message->done - header_done;
    const size_t rest = message->bytes - payload_done;
    const size_t chunk_rest = CHUNK_BYTES - payload_done % CHUNK_BYTES;

    part[0].iov_base = (char *)&message->header + header_done;
    part[0].iov_len = header_bytes - header_done;
    part[1].iov_base =
        chunk != NULL ? chunk + payload_done % CHUNK_BYTES : message->payload + payload_done;
    part[1].iov_len = rest < chunk_rest ? rest : chunk_rest;
    return (struct msghdr){ .msg_iov = part, .msg_iovlen = 2 };
}

/* Counts the bytes that a call has moved. Returns false if it would have blocked. Ends the process
 * if the connection is closed. */
static bool made_progress(Mesh *mesh, Message *message, ssize_t bytes)
{
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    mesh->wait.spins_until = mesh->wait.idle_since = 0;
    if (bytes < 0 && errno == EPROTO)
        mesh_abort(mesh, NOBODY,
                   "the memory of ranks %d and %d is damaged: DDP_SHM_DISABLE=1 does without it",
                   mesh->rank, message->peer);
    if (bytes <= 0)
        mesh_lost(mesh, message->peer);
    message->done += (size_t)bytes;
    return true;
}

static bool send_part(Mesh *mesh, Message *message)
{
    struct iovec part[2];
    const struct msghdr next = next_part(message, NULL, part);
    const Peer *peer = &mesh->peer[message->peer];
    return made_progress(mesh, message,
                         peer->pipe != NULL
                             ? pipe_send(peer->pipe, part)
                             : sendmsg(peer->data, &next, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* Sets the header of a message in the call in progress. */
static void header_set(Header *header, const Mesh *mesh, size_t bytes)
{
    *header = (Header){ mesh->call, HEADER_MAGIC, bytes };
    if (mesh->call.kind == RECV) { // our recv is their send
        header->call.kind = SEND;
        header->call.root = mesh->rank;
    }
}

static void header_check(Mesh *mesh, const Message *message)
{
    const Header *got = &message->header;
    Header due;
    header_set(&due, mesh, message->bytes);
    if (got->magic == due.magic && memcmp(&got->call, &due.call, sizeof due.call) != 0)
        mesh_mismatch(mesh, message->peer, &got->call);
    if (got->magic != due.magic || got->bytes != due.bytes)
        mesh_abort(mesh, NOBODY, "rank %d does not understand rank %d: are they the same program?",
                   mesh->rank, message->peer);
}

/* Stores or adds the payload that has arrived, from byte `start` on. */
static void store_payload(const Mesh *mesh, const Message *message, const char *arrived,
                          size_t start, const char *addend)
{
    const size_t end = message->done - sizeof message->header;
    if (addend == NULL) {
        if (arrived != message->payload + start)
            memcpy(message->payload + start, arrived, end - start);
        return;
    }
    // Complete elements only. The first may have arrived in part before, ahead of the others.
    const DType type = mesh->collective->type;
    const size_t size = dtype_size(type), first = start / size, last = end / size;
    reduce_elements(message->payload + first * size, arrived - start % size, addend + first * size,
                    last - first, type, mesh->collective->op);
}

static bool receive_part(Mesh *mesh, Message *message, const char *addend)
{
    struct iovec part[2];
    struct msghdr next = next_part(message, addend != NULL ? mesh->chunk : NULL, part);
    const size_t header_bytes = sizeof message->header, before = message->done;
    const Peer *peer = &mesh->peer[message->peer];
    if (!made_progress(mesh, message,
                       peer->pipe != NULL ? pipe_receive(peer->pipe, part)
                                          : recvmsg(peer->data, &next, MSG_DONTWAIT)))
        return false;
    if (message->done < header_bytes)
        return true;
    if (before < header_bytes) {
        header_check(mesh, message);
        message->arrives_at = network_arrival(mesh, message->peer, header_bytes + message->bytes);
    }
    store_payload(mesh, message, part[1].iov_base,
                  before < header_bytes ? 0 : before - header_bytes, addend);
    if (peer->pipe != NULL)
        pipe_release(peer->pipe);
    return true;
}

static int peer_of(Mesh *mesh, int rank)
{
    const int peer =
        rank == NOBODY ? NOBODY : process_group_global_rank(mesh->collective->pg, rank);
    if (peer != NOBODY && mesh->peer[peer].data < 0)
        on_demand_connect(mesh, peer);
    return peer;
}

void exchange(Mesh *mesh, Outgoing sent, Incoming received)
{
    Message out = { peer_of(mesh, sent.to), .payload = (char *)sent.data, .bytes = sent.bytes };
    header_set(&out.header, mesh, out.bytes);
    if (out.peer != NOBODY)
        send_part(mesh, &out); // what follows is done while it is on its way
    Message in = { peer_of(mesh, received.from), .payload = received.data,
                   .bytes = received.bytes };
    header_set(&in.header, mesh, in.bytes); // what is due, until one has come

    while (!message_done(&out) || !message_done(&in)) {
        bool progress = !message_done(&out) && send_part(mesh, &out);
        if (!message_done(&in))
            progress |= receive_part(mesh, &in, received.addend);
        if (!progress)
            mesh_wait(mesh, message_done(&out) ? NOBODY : out.peer,
                      message_done(&in) ? NOBODY : in.peer);
    }
    if (in.arrives_at > 0)
        mesh_sleep_until(mesh, in.arrives_at);
    if (out.peer != NOBODY) {
        mesh->moved.sent_bytes += out.bytes;
        mesh->moved.sent_messages++;
        Nodes *nodes = process_group_root(mesh->collective->pg)->nodes;
        if (nodes != NULL)
            nodes->count_sent(nodes, mesh->collective, out.peer, out.bytes);
    }
    mesh->moved.received_bytes += in.peer == NOBODY ? 0 : in.bytes;
}

void message_send(Mesh *mesh, int to, const void *data, size_t bytes)
{
    exchange(mesh, (Outgoing){ to, data, bytes }, (Incoming){ .from = NOBODY });
}

void message_receive(Mesh *mesh, int from, void *data, size_t bytes)
{
    exchange(mesh, (Outgoing){ .to = NOBODY }, (Incoming){ from, data, bytes, NULL });
}
