/*
 * Gloo's messages: data travels when both sides have posted it.
 *
 *     sender                                  receiver
 *     SEND_READY(slot, length)  --->                        when the sender posts its send
 *                               <---  RECV_READY(slot, length)   when the receiver posts its own
 *     DATA(slot, length), bytes --->                        when it has both
 *
 * A slot is a call; messages of a slot match in order. A rank may be ahead of this one, so its
 * READYs wait in a list until this rank makes the call, too. Gloo itself checks nothing: another
 * call waits for ever, and data that is too long ends a PyTorch process. So this end compares each
 * READY and each length with its own call, before it sends or takes a byte.
 */
#include "beyond/gloo/gloo_messages.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "beyond/gloo/gloo_connect.h"
#include "common/base/log.h"

#define SPIN_SECONDS 50e-6 // as in tcp_watch.c
#define SLOT_CALL(slot) ((slot) & ~(UINT64_C(0xff) << 56)) // without the kind

static Gloo *gloo_of(const Mesh *mesh)
{
    return (Gloo *)mesh->collective->pg->wire;
}

static GlooHeader header_of(GlooOpcode opcode, uint64_t slot, size_t bytes)
{
    const size_t payload = opcode == GLOO_DATA ? bytes : 0;
    return (GlooHeader){
        .nbytes = sizeof(GlooHeader) + payload, .opcode = opcode, .slot = slot, .length = bytes
    };
}

static noreturn void refuse(Mesh *mesh, int peer, const char *what)
{
    char text[DESCRIPTION_BYTES];
    mesh_abort(mesh, NOBODY, "rank %d %s in %s: does it make the same calls? (" GLOO_TRIED ")",
               peer, what, collective_describe(mesh->collective, text));
}

static noreturn void refuse_length(Mesh *mesh, int peer, const char *what, uint64_t theirs,
                                   size_t ours)
{
    char text[128];
    snprintf(text, sizeof text, "%s %llu bytes where this rank has %zu", what,
             (unsigned long long)theirs, ours);
    refuse(mesh, peer, text);
}

/* ---- READYs ---- */

/* Dies if a READY is for another kind of call than the one in progress, which has its number. */
static void compare_call(Mesh *mesh, int peer, const GlooHeader *ready)
{
    static const char *const kinds[] = { "send or receive", "gather",     "all_gather",
                                         "reduce",          "all_reduce", "scatter",
                                         "broadcast",       "barrier",    "all_to_all" };
    const uint64_t slot = gloo_of(mesh)->slot, kind = ready->slot >> 56;
    if (slot >> 56 == 0 || kind == 0 || ready->slot == slot ||
        SLOT_CALL(ready->slot) != SLOT_CALL(slot))
        return;
    char text[64];
    snprintf(text, sizeof text, "calls %s",
             kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "something unknown");
    refuse(mesh, peer, text);
}

/* Takes the oldest READY of this opcode and slot; returns false if there is none. */
static bool take_ready(GlooPeer *peer, GlooOpcode opcode, uint64_t slot, GlooHeader *ready)
{
    for (int i = 0; i < peer->num_ready; i++) {
        if (peer->ready[i].opcode != opcode || peer->ready[i].slot != slot)
            continue;
        *ready = peer->ready[i];
        memmove(&peer->ready[i], &peer->ready[i + 1],
                (size_t)(--peer->num_ready - i) * sizeof *ready);
        return true;
    }
    return false;
}

/* Finds out which posted messages the receiver wants. */
static void match(Mesh *mesh, int to)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[to];
    GlooHeader ready;
    while (peer->wanted < peer->to_send &&
           take_ready(peer, GLOO_RECV_READY, gloo_of(mesh)->slot, &ready)) {
        const GlooMessage *message = &peer->outgoing[peer->wanted++ % GLOO_WINDOW];
        if (ready.length != message->bytes)
            refuse_length(mesh, to, "wants", ready.length, message->bytes);
    }
}

/* ---- moving bytes ---- */

/* Returns false if nothing was moved. Dies if the connection is closed. */
static bool made_progress(Mesh *mesh, int peer, ssize_t bytes)
{
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (bytes <= 0)
        mesh_lost(mesh, peer);
    mesh->wait.idle_since = 0;
    return true;
}

static bool has_output(const GlooPeer *peer)
{
    return peer->readies_bytes > 0 || peer->sent < peer->wanted;
}

/* Sends READYs, which may stand between two messages, and the next message that is wanted. */
static bool write_some(Mesh *mesh, int to)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[to];
    GlooMessage *message = &peer->outgoing[peer->sent % GLOO_WINDOW];
    const bool has_data = peer->sent < peer->wanted;
    const size_t header = sizeof peer->out;
    if (!has_output(peer))
        return false;
    if (has_data && peer->out_bytes == 0)
        peer->out = header_of(GLOO_DATA, gloo_of(mesh)->slot, message->bytes);
    struct iovec part[3] = { { peer->readies, peer->out_bytes == 0 ? peer->readies_bytes : 0 } };
    if (has_data) {
        const size_t done = peer->out_bytes < header ? peer->out_bytes : header;
        part[1] = (struct iovec){ (char *)&peer->out + done, header - done };
        part[2] = (struct iovec){ message->data + (peer->out_bytes - done),
                                  message->bytes - (peer->out_bytes - done) };
    }
    const struct msghdr parts = { .msg_iov = part, .msg_iovlen = 3 };
    const ssize_t bytes = sendmsg(mesh->peer[to].data, &parts, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!made_progress(mesh, to, bytes))
        return false;
    const size_t of_readies = (size_t)bytes < part[0].iov_len ? (size_t)bytes : part[0].iov_len;
    peer->readies_bytes -= of_readies;
    memmove(peer->readies, (char *)peer->readies + of_readies, peer->readies_bytes);
    peer->out_bytes += (size_t)bytes - of_readies;
    mesh->moved.sent_bytes += (size_t)bytes;
    if (has_data && peer->out_bytes == header + message->bytes) {
        message->complete = true;
        peer->sent++;
        peer->out_bytes = 0;
        mesh->moved.sent_messages++;
    }
    return true;
}

/* Handles a header: a READY is kept, and DATA must be what this rank has posted. */
static void accept_header(Mesh *mesh, int from)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[from];
    const GlooHeader *header = &peer->in;
    const bool is_data = header->opcode == GLOO_DATA;
    if (header->opcode < GLOO_DATA || header->opcode > GLOO_RECV_READY ||
        header->nbytes - sizeof *header != (is_data ? header->length : 0))
        refuse(mesh, from, "sent a message of another protocol");
    if (!is_data) {
        compare_call(mesh, from, header);
        if (peer->num_ready == GLOO_MAX_READY)
            refuse(mesh, from, "is too many calls ahead");
        peer->ready[peer->num_ready++] = *header;
        peer->in_bytes = 0;
        match(mesh, from);
        return;
    }
    if (header->slot != gloo_of(mesh)->slot || peer->received == peer->to_receive)
        refuse(mesh, from, "sent data that this rank has not asked for");
    const size_t due = peer->incoming[peer->received % GLOO_WINDOW].bytes;
    if (header->length != due)
        refuse_length(mesh, from, "sends", header->length, due);
}

/* Adds what has arrived in the chunk, from byte `start` on: complete elements only, of which the
 * first may have arrived in part before. */
static void add_arrived(Mesh *mesh, const GlooMessage *message, size_t start, size_t end)
{
    const DType type = mesh->collective->type;
    const size_t size = dtype_size(type), first = start / size * size, last = end / size * size;
    char *own = message->data + first;
    reduce_elements(own, own, mesh->chunk + first % CHUNK_BYTES, (last - first) / size, type,
                    mesh->collective->op);
}

static bool read_some(Mesh *mesh, int from)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[from];
    GlooMessage *message = &peer->incoming[peer->received % GLOO_WINDOW];
    const size_t header = sizeof peer->in, before = peer->in_bytes;
    const bool in_header = before < header;
    char *to = (char *)&peer->in + before;
    size_t most = header - before;
    if (!in_header) {
        const size_t done = before - header, room = CHUNK_BYTES - done % CHUNK_BYTES;
        most = message->bytes - done;
        to = message->adds ? mesh->chunk + done % CHUNK_BYTES : message->data + done;
        if (message->adds && most > room)
            most = room;
    }
    const ssize_t bytes = recv(mesh->peer[from].data, to, most, MSG_DONTWAIT);
    if (!made_progress(mesh, from, bytes))
        return false;
    peer->in_bytes += (size_t)bytes;
    mesh->moved.received_bytes += (size_t)bytes;
    if (!in_header && message->adds)
        add_arrived(mesh, message, before - header, peer->in_bytes - header);
    if (in_header && peer->in_bytes == header)
        accept_header(mesh, from);
    if (peer->in_bytes < header || peer->in_bytes < peer->in.nbytes)
        return true;
    message->complete = true;
    peer->received++;
    peer->in_bytes = 0;
    take_ready(peer, GLOO_SEND_READY, gloo_of(mesh)->slot, &(GlooHeader){ 0 });
    return true;
}

/* ---- a call ---- */

/* Returns whether the call needs this rank now. If not, its connection may be closed: PyTorch's
 * ranks leave without a word when they have made their last call. */
static bool is_needed(const GlooPeer *peer)
{
    return peer->sent < peer->to_send || peer->received < peer->to_receive;
}

static noreturn void end_by_timeout(Mesh *mesh, const GlooMessage *message)
{
    const GlooPeer *peer = &gloo_of(mesh)->peer[message->peer];
    bool is_there = peer->received > 0 || peer->wanted > 0;
    for (int i = 0; i < peer->num_ready; i++)
        is_there |= peer->ready[i].slot == gloo_of(mesh)->slot;
    char text[DESCRIPTION_BYTES];
    mesh_abort(mesh, is_there ? NOBODY : message->peer,
               is_there ? "rank %d does not go on in %s for %g s: it makes this call, but is "
                          "stopped, or waits for another rank"
                        : "rank %d is missing in %s after %g s: it is stopped or stuck, or does "
                          "not make this call",
               message->peer, collective_describe(mesh->collective, text), mesh->timeout);
}

static void wait_for(Mesh *mesh, const GlooMessage *message)
{
    Gloo *gloo = gloo_of(mesh);
    const double now = seconds_awake();
    if (mesh->wait.idle_since == 0)
        mesh->wait.idle_since = now;
    if (now < mesh->wait.idle_since + SPIN_SECONDS) {
        if (!mesh->has_core)
            sched_yield();
        return;
    }
    nfds_t count = 0;
    for (int i = 0; i < mesh->world_size; i++)
        if (is_needed(&gloo->peer[i]))
            gloo->polled[count++] =
                (struct pollfd){ .fd = mesh->peer[i].data,
                                 .events = POLLIN | (has_output(&gloo->peer[i]) ? POLLOUT : 0) };
    poll_awake(gloo->polled, count, mesh->deadline - now);
    if (seconds_awake() >= mesh->deadline)
        end_by_timeout(mesh, message);
}

void gloo_begin(Mesh *mesh, uint64_t slot)
{
    Gloo *gloo = gloo_of(mesh);
    gloo->slot = slot;
    for (int i = 0; i < mesh->world_size; i++) {
        GlooPeer *peer = &gloo->peer[i];
        peer->to_send = peer->wanted = peer->sent = peer->to_receive = peer->received = 0;
        for (int k = 0; k < peer->num_ready; k++)
            compare_call(mesh, i, &peer->ready[k]);
    }
}

/* A READY has been sent when its message is complete, so there is room for those of all others. */
static GlooMessage *post(Mesh *mesh, int rank, GlooMessage *message, GlooOpcode opcode,
                         const void *data, size_t bytes)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[rank];
    const GlooHeader ready = header_of(opcode, gloo_of(mesh)->slot, bytes);
    memcpy((char *)peer->readies + peer->readies_bytes, &ready, sizeof ready);
    peer->readies_bytes += sizeof ready;
    *message = (GlooMessage){ .peer = rank, .data = (char *)data, .bytes = bytes };
    return message;
}

GlooMessage *gloo_send(Mesh *mesh, int to, const void *data, size_t bytes)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[to];
    GlooMessage *message = &peer->outgoing[peer->to_send++ % GLOO_WINDOW];
    post(mesh, to, message, GLOO_SEND_READY, data, bytes);
    match(mesh, to);
    return message;
}

GlooMessage *gloo_receive(Mesh *mesh, int from, void *data, size_t bytes)
{
    GlooPeer *peer = &gloo_of(mesh)->peer[from];
    GlooMessage *message = &peer->incoming[peer->to_receive++ % GLOO_WINDOW];
    return post(mesh, from, message, GLOO_RECV_READY, data, bytes);
}

GlooMessage *gloo_receive_adding(Mesh *mesh, int from, void *data, size_t bytes)
{
    GlooMessage *message = gloo_receive(mesh, from, data, bytes);
    message->adds = true;
    return message;
}

void gloo_await(Mesh *mesh, const GlooMessage *message)
{
    while (message != NULL && !message->complete) {
        bool progress = false;
        for (int i = 0; i < mesh->world_size; i++) {
            if (is_needed(&gloo_of(mesh)->peer[i]))
                progress |= write_some(mesh, i);
            if (is_needed(&gloo_of(mesh)->peer[i])) // else it may have left when it got that
                progress |= read_some(mesh, i);
        }
        if (!progress)
            wait_for(mesh, message);
    }
}
