/*
 * Forming the connections of the tcp backend.
 *
 * Every rank listens, publishes its address in the store and connects to all lower ranks; the
 * higher ones connect to it. Ranks of another job or of an earlier attempt, and strangers, are
 * rejected: each connection begins with a handshake (handshake.h). In a job without a secret the
 * caller shows a key instead, which rank 0 has drawn for this group and put into the store.
 */
#include "common/comm/tcp/tcp_mesh.h"

#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"

#define MAX_CALLERS 64 // connections whose handshake is not done yet
#define MAX_WARNINGS 8
#define CALLER_SECONDS 10.0 // to say who it is
#define NUM_CHANNELS 2 // data and notices
#define RETRY_MS 50
#define HOST_BYTES 256
#define ADDRESS_BYTES (HOST_BYTES + 16) // host and port

/* How a connection begins in a job without a secret; the answer is HANDSHAKE_WELCOME. */
typedef struct {
    Key256 key; // of the group
    int32_t caller, answerer, channel;
} Opening;

/* A connection whose other end has not shown yet which rank it is. */
typedef struct {
    int fd;
    double since; // on the clock of seconds_now()
    HandshakeAnswer *answer; // in a job with a secret
    bool is_sealed; // its Hello was (handshake.h)
    Opening opening; // in one without
    size_t bytes; // received of it
} Caller;

/* What mesh_init needs until all ranks are connected. */
typedef struct {
    Mesh *mesh;
    const ProcessGroup *pg;
    Key256 drawn; // by rank 0
    const Key256 *key; // this, or the secret's
    HandshakePurpose own; // what this rank means and callers must mean
    int listen_fd;
    char address[ADDRESS_BYTES]; // of listen_fd: "HOST PORT"
    Caller caller[MAX_CALLERS]; // oldest first
    int num_callers, num_turned_away;
} Meeting;

/* Compares the version of the protocol with rank 0's, so that a rank of another build fails at once
 * and not after the timeout (one with pipes begins by offering them), and sets the group's key. */
static void agree_on_key(Meeting *meeting)
{
    const ProcessGroup *pg = meeting->pg;
    struct {
        char version[8];
        Key256 key; // only where there is no secret
    } offer, own = { 0 };
    const size_t bytes = pg->store->has_secret ? sizeof own.version : sizeof own;
    char name[STORE_KEY_BYTES];
    process_group_key(pg, "tcp version", 0, name);
    memcpy(own.version, tcp_pipes.open != NULL ? "ddp.tcp6" : "ddp.tcp7", sizeof own.version);
    if (pg->rank == 0) {
        SYS_CHECK(getrandom(&own.key, sizeof own.key, 0));
        store_set(pg->store, name, &own, bytes);
        offer = own;
    } else {
        CHECK(store_get(pg->store, name, &offer, sizeof offer) == bytes &&
                  memcmp(offer.version, own.version, sizeof own.version) == 0,
              "rank 0 runs another version of this program: build the same one on every node");
    }
    meeting->drawn = offer.key;
    meeting->key = pg->store->has_secret ? secret_find(HANDSHAKE_BACKEND) : &meeting->drawn;
}

/* ---- this rank's address ---- */

int mesh_local_address(int fd, char *address, size_t bytes)
{
    struct sockaddr_storage here;
    socklen_t length = sizeof here;
    errno = EAFNOSUPPORT; // unless getsockname sets another
    if (getsockname(fd, (struct sockaddr *)&here, &length) < 0 ||
        getnameinfo((struct sockaddr *)&here, length, address, (socklen_t)bytes, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return -1;
    // An IPv4-mapped address: others reach it by the plain IPv4 address.
    if (strncmp(address, "::ffff:", 7) == 0 && strchr(address, '.') != NULL)
        memmove(address, address + 7, strlen(address + 7) + 1);
    return 0;
}

/* Others reach this machine at the address from which it reaches the store. */
static void listen_and_publish(Meeting *meeting)
{
    const ProcessGroup *pg = meeting->pg;
    char host[HOST_BYTES], key[STORE_KEY_BYTES];
    int port = 0;
    if (interface_choice.address == NULL || !interface_choice.address(host, sizeof host)) {
        SYS_CHECK(mesh_local_address(pg->store->fd, host, sizeof host));
        // A machine's own name may resolve to loopback here, but correctly elsewhere.
        if (net_is_loopback(host) && !net_is_loopback(pg->store->host))
            snprintf(host, sizeof host, "%s", pg->store->host);
    }
    meeting->listen_fd = net_listen(host, &port);
    CHECK(meeting->listen_fd >= 0, "cannot listen on %s: %s", host, strerror(errno));
    const int length = snprintf(meeting->address, ADDRESS_BYTES, "%s %d", host, port);
    process_group_key(pg, "tcp address", pg->rank, key);
    store_set(pg->store, key, meeting->address, (size_t)length);
}

/* ---- connecting to the lower ranks ---- */

static int *channel_of(Mesh *mesh, int peer, int channel)
{
    return channel == 0 ? &mesh->peer[peer].data : &mesh->peer[peer].notices;
}

/* Returns 0 if it is let in. */
static int call_rank(const Meeting *meeting, int fd, const HandshakePurpose *own)
{
    const double deadline = meeting->mesh->deadline;
    if (meeting->pg->store->has_secret)
        return handshake_call(fd, meeting->key, own, deadline);
    const Opening opening = { meeting->drawn, own->caller, own->answerer, own->channel };
    uint8_t welcome = 0;
    return net_send(fd, &opening, sizeof opening, deadline) < 0 ||
           net_recv(fd, &welcome, 1, deadline) < 0 || welcome != HANDSHAKE_WELCOME;
}

static void connect_to(const Meeting *meeting, int peer)
{
    const double deadline = meeting->mesh->deadline;
    char key[STORE_KEY_BYTES], address[ADDRESS_BYTES] = "", host[HOST_BYTES];
    int port = 0;
    process_group_key(meeting->pg, "tcp address", peer, key);
    store_get(meeting->pg->store, key, address, sizeof address - 1);
    CHECK(sscanf(address, "%255s %d", host, &port) == 2, "the store's %s is \"%s\", no address",
          key, address);

    HandshakePurpose own = meeting->own;
    own.answerer = peer;
    while (own.channel < NUM_CHANNELS) {
        const int fd = net_connect(host, port, deadline);
        CHECK(fd >= 0, "cannot reach rank %d at %s port %d: %s%s", peer, host, port,
              net_reason(errno), interface_choice.advice);
        if (call_rank(meeting, fd, &own) == 0) {
            *channel_of(meeting->mesh, peer, own.channel++) = fd;
            continue;
        }
        close(fd); // a rank in a crowd may hang up on us, or another process answers: try again
        CHECK(seconds_now() < deadline, "rank %d at %s port %d does not answer", peer, host, port);
        poll(NULL, 0, RETRY_MS);
    }
}

/* ---- accepting the higher ranks ----
 *
 * Many callers are read at once: a stranger that sends nothing delays no rank. A caller that takes
 * longer than CALLER_SECONDS is turned away, and when there are too many the oldest is, first of
 * those without a sealed Hello: a rank answers at once, or else calls again. */

static Caller remove_caller(Meeting *meeting, int i)
{
    const Caller caller = meeting->caller[i];
    free(caller.answer);
    meeting->num_callers--;
    memmove(&meeting->caller[i], &meeting->caller[i + 1],
            (size_t)(meeting->num_callers - i) * sizeof caller);
    return caller;
}

/* Closes the connection of a stranger, and logs it (the first few). */
static void turn_away(Meeting *meeting, int i)
{
    close(remove_caller(meeting, i).fd);
    if (++meeting->num_turned_away <= MAX_WARNINGS)
        log_warning("turned away a connection that is not of this group%s",
                    meeting->num_turned_away == MAX_WARNINGS ? " (and says no more of such)" : "");
}

/* Sleeps until a connection or bytes arrive, and accepts a connection if there is one. False and
 * errno: none can be accepted, and turning others away would not help. */
static bool accept_caller(Meeting *meeting, double seconds)
{
    struct pollfd pollfds[MAX_CALLERS + 1] = { { .fd = meeting->listen_fd, .events = POLLIN } };
    for (int i = 0; i < meeting->num_callers; i++)
        pollfds[i + 1] = (struct pollfd){ .fd = meeting->caller[i].fd, .events = POLLIN };
    poll(pollfds, (nfds_t)meeting->num_callers + 1, (int)ceil(1e3 * seconds));

    const int fd = net_accept(meeting->listen_fd, 0);
    if (fd < 0 && errno == ETIMEDOUT) // none is waiting
        return true;
    if (fd < 0 && meeting->num_callers == 0)
        return false;
    int oldest = 0;
    while (oldest < meeting->num_callers && meeting->caller[oldest].is_sealed)
        oldest++;
    if (fd < 0 || meeting->num_callers == MAX_CALLERS) // out of descriptors or places
        turn_away(meeting, oldest % meeting->num_callers);
    if (fd >= 0)
        meeting->caller[meeting->num_callers++] = (Caller){ .fd = fd, .since = seconds_now() };
    return true;
}

/* Takes what has arrived; `purpose` is as for handshake_read. */
static HandshakeState read_caller(const Meeting *meeting, Caller *caller, HandshakePurpose *purpose)
{
    Opening *opening = &caller->opening;
    if (meeting->pg->store->has_secret)
        return handshake_read(caller->fd, &caller->answer, meeting->key, purpose);
    const ssize_t count = recv(caller->fd, (uint8_t *)opening + caller->bytes,
                               sizeof *opening - caller->bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDSHAKE_MORE;
    caller->bytes += count > 0 ? (size_t)count : 0;
    const size_t shown = caller->bytes < sizeof(Key256) ? caller->bytes : sizeof(Key256);
    if (count <= 0 || memcmp(&opening->key, &meeting->drawn, shown) != 0)
        return HANDSHAKE_REFUSED;
    if (caller->bytes < sizeof *opening)
        return HANDSHAKE_MORE;
    const bool is_let_in = opening->answerer == purpose->answerer &&
                           opening->caller > purpose->answerer &&
                           opening->caller < purpose->caller && opening->channel >= 0 &&
                           opening->channel <= purpose->channel &&
                           send(caller->fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1, MSG_NOSIGNAL) == 1;
    purpose->caller = opening->caller;
    purpose->channel = opening->channel;
    return is_let_in ? HANDSHAKE_DONE : HANDSHAKE_REFUSED;
}

static void let_in(Mesh *mesh, const HandshakePurpose *purpose, int caller)
{
    int *fd = channel_of(mesh, purpose->caller, purpose->channel);
    if (*fd >= 0)
        close(*fd); // it called again: the first welcome did not reach it
    *fd = caller;
}

/* Returns world_size if all higher ranks are connected. */
static int first_absent(const Mesh *mesh)
{
    int peer = mesh->rank + 1;
    while (peer < mesh->world_size && mesh->peer[peer].data >= 0 && mesh->peer[peer].notices >= 0)
        peer++;
    return peer;
}

/* Accepts the higher ranks, in any order, and no other process. */
static void accept_others(Meeting *meeting)
{
    Mesh *mesh = meeting->mesh;
    meeting->own.answerer = mesh->rank;
    meeting->own.caller = mesh->world_size; // callers are between the two
    meeting->own.channel = NUM_CHANNELS - 1;
    for (int absent; (absent = first_absent(mesh)) < mesh->world_size;) {
        const double left = mesh->deadline - seconds_now();
        errno = ETIMEDOUT;
        CHECK(left > 0 && accept_caller(meeting, fmin(left, 1)),
              "rank %d did not connect to %s within %g s: %s%s", absent, meeting->address,
              mesh->timeout, strerror(errno), interface_choice.advice);
        for (int i = meeting->num_callers - 1; i >= 0; i--) {
            Caller *caller = &meeting->caller[i];
            HandshakePurpose purpose = meeting->own;
            const HandshakeState state = read_caller(meeting, caller, &purpose);
            const bool is_late = seconds_now() >= caller->since + CALLER_SECONDS;
            caller->is_sealed |= state == HANDSHAKE_SEALED;
            if (state == HANDSHAKE_DONE)
                let_in(mesh, &purpose, remove_caller(meeting, i).fd);
            else if (state == HANDSHAKE_REFUSED || is_late)
                turn_away(meeting, i);
        }
    }
    while (meeting->num_callers > 0)
        close(remove_caller(meeting, meeting->num_callers - 1).fd);
}

/* ---- the mesh ---- */

static void connect_all(Mesh *mesh, const ProcessGroup *pg)
{
    Meeting meeting = { .mesh = mesh, .pg = pg, .own = { .service = HANDSHAKE_BACKEND } };
    meeting.own.caller = pg->rank;
    meeting.own.attempt = host_env_count("TORCHELASTIC_RESTART_COUNT");
    meeting.own.group = pg->number;
    agree_on_key(&meeting);
    listen_and_publish(&meeting);
    for (int peer = 0; peer < pg->rank; peer++)
        connect_to(&meeting, peer);
    accept_others(&meeting);
    close(meeting.listen_fd);
    if (tcp_pipes.open != NULL)
        tcp_pipes.open(mesh);
}

void mesh_init(Mesh *mesh, const ProcessGroup *pg)
{
    const int n = pg->world_size;
    // One more for each: offered memory stays open until the other rank has opened it.
    net_reserve_descriptors(NET_SPARE_DESCRIPTORS + (NUM_CHANNELS + 1L) * (n - 1), n);
    mesh->rank = pg->rank;
    mesh->world_size = n;
    mesh->timeout = pg->timeout;
    mesh->deadline = seconds_now() + pg->timeout;
    mesh->peer = mem_calloc((size_t)n, sizeof *mesh->peer);
    mesh->watched = mem_calloc((size_t)n + 2, sizeof *mesh->watched);
    for (int peer = 0; peer < n; peer++)
        mesh->peer[peer] = (Peer){ .data = -1, .notices = -1, .heard_at = -INFINITY };
    for (int i = 0; i < NUM_RECENT_CALLS; i++)
        mesh->recent[i].sequence = UINT64_MAX;
    if (n > 1)
        connect_all(mesh, pg);

    const int local_ranks = host_env_count("LOCAL_WORLD_SIZE");
    mesh->has_core = (local_ranks > 0 ? local_ranks : n) <= host_num_cores();
    for (int peer = 0; peer < n; peer++) {
        const int fd = mesh->peer[peer].notices, whole = sizeof(Notice);
        mesh->watched[peer] = (struct pollfd){ .fd = fd, .events = POLLIN | POLLRDHUP };
        if (peer == mesh->rank)
            continue;
        // poll must not wake us for part of a notice
        SYS_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole));
        log_detail(LOG_DISTRIBUTED, "data for rank %d goes through %s", peer,
                   mesh->peer[peer].pipe != NULL ? "shared memory" : "its connection");
    }
}

void mesh_free(Mesh *mesh)
{
    mesh_notify(mesh, NOTICE_GOODBYE, NOBODY);
    for (int peer = 0; peer < mesh->world_size; peer++)
        if (peer != mesh->rank)
            shutdown(mesh->peer[peer].notices, SHUT_WR);

    // Closing while the other side still sends would reset the connection.
    const double deadline = seconds_now() + mesh->timeout;
    for (int peer = 0; peer < mesh->world_size; peer++) {
        const Peer *other = &mesh->peer[peer];
        Notice notice;
        if (peer == mesh->rank)
            continue;
        while (net_recv(other->notices, &notice, sizeof notice, deadline) == 0)
            continue;
        close(other->notices);
        close(other->data);
        if (other->pipe != NULL)
            tcp_pipes.close(other->pipe);
    }
    free(mesh->watched);
    free(mesh->peer);
    free(mesh->scratch);
}

void *mesh_scratch(Mesh *mesh, size_t bytes)
{
    if (mesh->scratch == NULL || bytes > mesh->scratch_bytes) {
        free(mesh->scratch);
        mesh->scratch = mem_calloc(bytes, 1);
        mesh->scratch_bytes = bytes;
    }
    return mesh->scratch;
}
