/* Forming the connections of the tcp backend.
 *
 * Every rank listens, publishes its address in the store and connects to all lower ranks; the
 * higher ones connect to it. Each connection begins with a key, which rank 0 has drawn for this
 * group and put into the store: so other programs, and ranks of another job or attempt, are
 * rejected. A build with extras/on_demand begins with few connections, and can open more. */
#include "common/comm/tcp/tcp_mesh.h"

#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"

#define HOST_BYTES 256

double mesh_connect_timeout(const ProcessGroup *pg)
{
    return pg->survivor != NULL ? fmin(FORM_SECONDS, pg->timeout) : pg->timeout;
}

/* Returns false if a rank did not set the key in a group that survives; else store_get waits. */
static bool is_set_in_time(const ProcessGroup *pg, Store *store, const char *key, double deadline)
{
    return pg->survivor == NULL ||
           store_try_wait(store, key, fmax(0, deadline - seconds_awake())) ||
           (errno = ETIMEDOUT, false);
}

/* Compares the version of the protocol with rank 0's, so that a rank of another build fails at once
 * and not after the timeout (one with extras sends more), and returns the group's key. */
Key256 mesh_agree_on_key(Mesh *mesh, const ProcessGroup *pg)
{
    struct {
        char version[8];
        Key256 key; // only where there is no secret
    } offer, own = { 0 };
    const size_t bytes = pg->store->has_secret ? sizeof own.version : sizeof own;
    char name[STORE_KEY_BYTES];
    process_group_key(pg, "tcp version", 0, name);
    memcpy(own.version, has_extras ? "ddp.tcpA" : "ddp.tcpB", sizeof own.version);
    if (pg->rank == 0) {
        SYS_CHECK(getrandom(&own.key, sizeof own.key, 0));
        store_set(pg->store, name, &own, bytes);
        offer = own;
    } else {
        if (!is_set_in_time(pg, pg->store, name, mesh->deadline))
            mesh_abort(mesh, NOBODY, "rank 0 did not come within %g s", mesh_connect_timeout(pg));
        CHECK(store_get(pg->store, name, &offer, sizeof offer) == bytes &&
                  memcmp(offer.version, own.version, sizeof own.version) == 0,
              "rank 0 runs another version of this program: build the same one on every node");
    }
    return offer.key;
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
    // Others reach an IPv4-mapped address by the plain IPv4 address.
    if (strncmp(address, "::ffff:", 7) == 0 && strchr(address, '.') != NULL)
        memmove(address, address + 7, strlen(address + 7) + 1);
    return 0;
}

/* Listens at the address from which this machine reaches the store, and publishes it. */
int mesh_listen(const ProcessGroup *pg, char address[MESH_ADDRESS_BYTES])
{
    char host[HOST_BYTES], key[STORE_KEY_BYTES];
    int port = 0;
    if (!interface_choose(host, sizeof host)) {
        SYS_CHECK(mesh_local_address(pg->store->fd, host, sizeof host));
        // A machine's own name may resolve to loopback here, but correctly elsewhere.
        if (net_is_loopback(host) && !net_is_loopback(pg->store->host))
            snprintf(host, sizeof host, "%s", pg->store->host);
    }
    const int fd = net_listen(host, &port);
    CHECK(fd >= 0, "cannot listen on %s: %s", host, strerror(errno));
    const int length = snprintf(address, MESH_ADDRESS_BYTES, "%s %d", host, port);
    process_group_key(pg, "tcp address", pg->rank, key);
    store_set(pg->store, key, address, (size_t)length);
    return fd;
}

int mesh_call(const ProcessGroup *pg, Store *store, int peer, double deadline)
{
    char key[STORE_KEY_BYTES], address[MESH_ADDRESS_BYTES] = "", host[HOST_BYTES];
    int port = 0;
    process_group_key(pg, "tcp address", peer, key);
    if (!is_set_in_time(pg, store, key, deadline))
        return -1;
    store_get(store, key, address, sizeof address - 1);
    CHECK(store->failed || sscanf(address, "%255s %d", host, &port) == 2,
          "the store's %s is \"%s\", no address", key, address);
    return store->failed ? -1 : net_connect(host, port, deadline);
}

/* ---- connecting ---- */

static int *channel_of(Mesh *mesh, int peer, int channel)
{
    return channel == 0 ? &mesh->peer[peer].data : &mesh->peer[peer].notices;
}

static void connect_to(Mesh *mesh, const ProcessGroup *pg, Opening opening)
{
    const int peer = opening.answerer;
    const int fd = mesh_call(pg, pg->store, peer, mesh->deadline);
    uint8_t welcome = 0;
    *channel_of(mesh, peer, opening.channel) = fd;
    if (fd < 0 || net_send(fd, &opening, sizeof opening, mesh->deadline) < 0 ||
        net_recv(fd, &welcome, 1, mesh->deadline) < 0 || welcome != HANDSHAKE_WELCOME)
        mesh_abort(mesh, NOBODY, "cannot reach rank %d: %s%s", peer, net_reason(errno),
                   interface_advice());
}

/* Accepts a connection of a higher rank, once for each channel, and no other. */
static void accept_one(Mesh *mesh, Key256 key, int listen_fd)
{
    Opening opening;
    const int fd = net_accept(listen_fd, mesh->deadline);
    const double deadline = fmin(mesh->deadline, seconds_awake() + HANDSHAKE_SECONDS);
    if (fd >= 0 && net_recv(fd, &opening, sizeof opening, deadline) == 0 &&
        memcmp(&opening.key, &key, sizeof key) == 0 && opening.answerer == mesh->rank &&
        opening.caller > mesh->rank && opening.caller < mesh->world_size && opening.channel >= 0 &&
        opening.channel < NUM_CHANNELS && *channel_of(mesh, opening.caller, opening.channel) < 0 &&
        net_send(fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1, deadline) == 0) {
        *channel_of(mesh, opening.caller, opening.channel) = fd;
    } else if (fd >= 0) {
        close(fd);
        log_warning("turned away a connection that is not of this group");
    }
}

/* Returns the first higher rank that is not connected; world_size if all are. */
static int first_absent(const Mesh *mesh)
{
    int peer = mesh->rank + 1;
    while (peer < mesh->world_size && mesh->peer[peer].data >= 0 && mesh->peer[peer].notices >= 0)
        peer++;
    return peer;
}

static void connect_all(Mesh *mesh, const ProcessGroup *pg)
{
    const int n = pg->world_size;
    char address[MESH_ADDRESS_BYTES];
    net_reserve_descriptors(NET_SPARE_DESCRIPTORS + (NUM_CHANNELS + 1L) * (n - 1), n);
    const Key256 key = mesh_agree_on_key(mesh, pg);
    mesh->listen_fd = mesh_listen(pg, address);
    for (int peer = 0; peer < pg->rank; peer++)
        for (int channel = 0; channel < NUM_CHANNELS; channel++)
            connect_to(mesh, pg, (Opening){ key, pg->rank, peer, channel });
    for (int absent; (absent = first_absent(mesh)) < n; accept_one(mesh, key, mesh->listen_fd))
        if (seconds_awake() >= mesh->deadline)
            mesh_abort(mesh, NOBODY, "rank %d did not connect to %s within %g s: %s%s", absent,
                       address, mesh_connect_timeout(pg), strerror(ETIMEDOUT), interface_advice());
    close(mesh->listen_fd);
    mesh->listen_fd = -1;
    for (int peer = 0; peer < n; peer++)
        if (peer != pg->rank)
            mesh_connected(mesh, peer, NULL);
}

void mesh_connected(Mesh *mesh, int peer, struct Pipe *pipe)
{
    const int fd = mesh->peer[peer].notices, whole = sizeof(Notice);
    mesh->peer[peer].pipe = pipe;
    mesh->watched[peer] = (struct pollfd){ .fd = fd, .events = POLLIN | POLLRDHUP };
    // poll must not wake us for part of a notice
    SYS_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole));
    log_detail(LOG_DISTRIBUTED, "data for rank %d goes through %s", peer,
               pipe != NULL ? "shared memory" : "its connection");
}

void mesh_init(Mesh *mesh, const ProcessGroup *pg)
{
    const int n = pg->world_size;
    mesh->rank = pg->rank;
    mesh->world_size = n;
    mesh->timeout = pg->timeout;
    mesh->deadline = seconds_awake() + mesh_connect_timeout(pg);
    mesh->listen_fd = -1;
    mesh->peer = mem_calloc((size_t)n, sizeof *mesh->peer);
    mesh->watched = mem_calloc((size_t)n + 2, sizeof *mesh->watched);
    for (int peer = 0; peer < n; peer++) {
        mesh->peer[peer] = (Peer){ .data = -1, .notices = -1, .reported_at = -INFINITY };
        mesh->watched[peer].fd = -1;
    }
    memset(mesh->recent, 0xff, sizeof mesh->recent); // no call has such a number
    if (n > 1 && pg->wire != NULL)
        pg->wire->connect(mesh, pg);
    else if (n > 1 && !on_demand_form(mesh, pg))
        connect_all(mesh, pg);
    const int local_ranks = host_env_count("LOCAL_WORLD_SIZE");
    mesh->has_core = (local_ranks > 0 ? local_ranks : n) <= host_num_cores();
}

/* Notifies all others that this rank is done, and waits until they are. */
static void shut_down(Mesh *mesh)
{
    mesh_notify(mesh, NOTICE_CLOSE, NOBODY);
    for (int peer = 0; peer < mesh->world_size; peer++)
        shutdown(mesh->peer[peer].notices, SHUT_WR);

    // Closing while the other side still sends would reset the connection.
    const double deadline = seconds_awake() + mesh->timeout;
    Notice notice;
    for (int peer = 0; peer < mesh->world_size; peer++)
        while (mesh->peer[peer].notices >= 0 &&
               net_recv(mesh->peer[peer].notices, &notice, sizeof notice, deadline) == 0)
            continue;
}

void mesh_free(Mesh *mesh)
{
    if (mesh->on_demand != NULL)
        on_demand_close(mesh);
    if (mesh->survivor == NULL || !mesh->survivor->revoked)
        shut_down(mesh);
    for (const Peer *peer = mesh->peer; peer < mesh->peer + mesh->world_size; peer++) {
        if (peer->notices >= 0)
            close(peer->notices);
        if (peer->data >= 0)
            close(peer->data);
        if (peer->pipe != NULL)
            pipe_close(peer->pipe);
    }
    if (mesh->listen_fd >= 0)
        close(mesh->listen_fd);
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
