/*
 * Forming the connections of the tcp backend.
 *
 * Every rank listens, publishes its address in the store and connects to all lower ranks; the
 * higher ones connect to it. The connecting side sends the group's token, a random number that rank
 * 0 put into the store: ranks of another job or of an earlier attempt, and strangers, do not know
 * it and are rejected. The reply has it too, since another process may have the port by now.
 */
#include "common/comm/tcp/tcp_mesh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_lobby.h"
#include "common/comm/tcp/tcp_shared.h"
#include "common/comm/tcp/tcp_watch.h"

#define NUM_CHANNELS 2
#define OTHER_NETWORK "to use another network, set GLOO_SOCKET_IFNAME=eth0 or the like"
#define HOST_BYTES 256
#define ADDRESS_BYTES (HOST_BYTES + 16) // host and port

/* The first bytes on a connection, in both directions. */
typedef struct {
    unsigned char token[24]; // VERSION, then the random number
    int32_t rank;
    int32_t channel; // 0: data, 1: notices
} Hello;

/* Of what ranks say to each other. It comes with the token, so that a rank of another build is told
 * at once, and not turned away until the timeout. */
static const char VERSION[8] = "ddp.tcp2";

_Static_assert(sizeof(Hello) == LOBBY_HELLO_BYTES, "the lobby waits for one of these");

/* False: not a rank of this group. */
static bool hello_is_ours(const Hello *theirs, const Hello *own)
{
    return memcmp(theirs->token, own->token, sizeof own->token) == 0;
}

static int *channel_of(Mesh *mesh, int peer, int channel)
{
    return channel == 0 ? &mesh->peer[peer].data : &mesh->peer[peer].notices;
}

static void token_agree(const ProcessGroup *pg, unsigned char *token, size_t bytes)
{
    char key[STORE_KEY_BYTES];
    process_group_key(pg, "tcp token", 0, key);
    if (pg->rank == 0) {
        memcpy(token, VERSION, sizeof VERSION);
        SYS_CHECK(getrandom(token + sizeof VERSION, bytes - sizeof VERSION, 0));
        store_set(pg->store, key, token, bytes);
    } else {
        CHECK(store_get(pg->store, key, token, bytes) == bytes &&
                  memcmp(token, VERSION, sizeof VERSION) == 0,
              "rank 0 runs another version of this program: build the same one on every node");
    }
}

/* Where others reach this machine: the interface that the user names, in PyTorch's variable, else
 * the one that reaches the store. As there it may be a list, "ib0,eth0": but we use one interface,
 * the first that this machine has. */
static void find_own_host(const ProcessGroup *pg, char *host, size_t bytes)
{
    const char *list = getenv("GLOO_SOCKET_IFNAME"), *end = list;
    for (const char *name = list; name != NULL && *end != '\0'; name = end + 1) {
        char interface[64];
        end = strchrnul(name, ',');
        snprintf(interface, sizeof interface, "%.*s", (int)(end - name), name);
        if (net_interface_address(interface, host, bytes) == 0)
            return;
    }
    CHECK(list == NULL || list[0] == '\0',
          "GLOO_SOCKET_IFNAME is \"%s\": no interface of this machine has that name and an "
          "address; ip address shows them",
          list);
    SYS_CHECK(net_local_address(pg->store->fd, host, bytes));
    // A machine's own name may resolve to loopback here, but correctly elsewhere.
    if (net_is_loopback(host) && !net_is_loopback(pg->store->host))
        snprintf(host, bytes, "%s", pg->store->host);
}

/* Listens there and publishes the address. Returns the listening socket. */
static int listen_and_publish(const ProcessGroup *pg, char address[ADDRESS_BYTES])
{
    char host[HOST_BYTES], key[STORE_KEY_BYTES];
    int port = 0;
    find_own_host(pg, host, sizeof host);
    const int listen_fd = net_listen(host, &port);
    CHECK(listen_fd >= 0, "cannot listen on %s: %s", host, strerror(errno));

    const int length = snprintf(address, ADDRESS_BYTES, "%s %d", host, port);
    process_group_key(pg, "tcp address", pg->rank, key);
    store_set(pg->store, key, address, (size_t)length);
    return listen_fd;
}

/* Connects to a rank; -1 if another process answers, or none. */
static int call_rank(const char *host, int port, int rank, const Hello *own, double deadline)
{
    const int fd = net_connect(host, port, deadline);
    CHECK(fd >= 0, "cannot reach rank %d at %s port %d: %s; " OTHER_NETWORK, rank, host, port,
          net_reason(errno));
    Hello theirs;
    if (net_send(fd, own, sizeof *own, deadline) == 0 &&
        net_recv(fd, &theirs, sizeof theirs, deadline) == 0 && hello_is_ours(&theirs, own) &&
        theirs.rank == rank)
        return fd;
    close(fd);
    return -1;
}

static void connect_to(Mesh *mesh, const ProcessGroup *pg, int peer, Hello own)
{
    char key[STORE_KEY_BYTES], address[ADDRESS_BYTES] = "", host[HOST_BYTES];
    int port = 0;
    process_group_key(pg, "tcp address", peer, key);
    store_get(pg->store, key, address, sizeof address - 1);
    CHECK(sscanf(address, "%255s %d", host, &port) == 2, "the store's %s is \"%s\", no address",
          key, address);

    for (own.channel = 0; own.channel < NUM_CHANNELS; own.channel++) {
        int *fd = channel_of(mesh, peer, own.channel);
        // A rank too busy to read our hello in time rejects us: then reconnect.
        while ((*fd = call_rank(host, port, peer, &own, mesh->deadline)) < 0) {
            CHECK(seconds_now() < mesh->deadline, "rank %d at %s port %d does not answer", peer,
                  host, port);
            nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
        }
    }
}

static int first_absent(const Mesh *mesh)
{
    int peer = mesh->rank + 1;
    while (peer < mesh->world_size - 1 && mesh->peer[peer].data >= 0 &&
           mesh->peer[peer].notices >= 0)
        peer++;
    return peer;
}

/* Accepts the higher ranks, in any order, and nobody else. */
static void accept_others(Mesh *mesh, int listen_fd, const char *own_address, const Hello *own)
{
    Lobby lobby = { .listen_fd = listen_fd };
    for (int missing = NUM_CHANNELS * (mesh->world_size - 1 - mesh->rank); missing > 0;) {
        Hello theirs;
        const int fd = lobby_next(&lobby, (unsigned char *)&theirs, mesh->deadline);
        CHECK(fd >= 0, "rank %d did not connect to %s within %g s: %s; " OTHER_NETWORK,
              first_absent(mesh), own_address, mesh->timeout, strerror(errno));
        const bool welcome = hello_is_ours(&theirs, own) && theirs.rank > mesh->rank &&
                             theirs.rank < mesh->world_size && theirs.channel >= 0 &&
                             theirs.channel < NUM_CHANNELS;
        if (!welcome || net_send(fd, own, sizeof *own, mesh->deadline) < 0) {
            lobby_turn_away(&lobby, fd);
            continue;
        }
        int *slot = channel_of(mesh, theirs.rank, theirs.channel);
        if (*slot >= 0)
            close(*slot); // it will reconnect
        else
            missing--;
        *slot = fd;
    }
    lobby_close(&lobby);
}

void mesh_init(Mesh *mesh, const ProcessGroup *pg)
{
    const int n = pg->world_size;
    // One more for each: offered memory stays open until the other rank has opened it.
    host_reserve_descriptors(HOST_SPARE_DESCRIPTORS + (NUM_CHANNELS + 1L) * (n - 1), n);
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

    if (n > 1) {
        Hello own = { .rank = pg->rank };
        token_agree(pg, own.token, sizeof own.token);
        char address[ADDRESS_BYTES];
        const int listen_fd = listen_and_publish(pg, address);
        for (int peer = 0; peer < pg->rank; peer++)
            connect_to(mesh, pg, peer, own);
        accept_others(mesh, listen_fd, address, &own);
        close(listen_fd);
        shared_init(mesh);
    }

    const int local_ranks = host_env_count("LOCAL_WORLD_SIZE");
    mesh->has_core = (local_ranks > 0 ? local_ranks : n) <= host_num_cores();
    for (int peer = 0; peer < n; peer++) {
        mesh->watched[peer] = (struct pollfd){ .fd = mesh->peer[peer].notices, .events = POLLIN };
        const int whole = sizeof(Notice); // poll must not wake us for part of a notice
        if (peer != mesh->rank)
            SYS_CHECK(setsockopt(mesh->peer[peer].notices, SOL_SOCKET, SO_RCVLOWAT, &whole,
                                 sizeof whole));
    }
}

void mesh_free(Mesh *mesh)
{
    const Notice goodbye = { .kind = NOTICE_GOODBYE };
    for (int peer = 0; peer < mesh->world_size; peer++)
        if (peer != mesh->rank) {
            notice_send(mesh, peer, &goodbye);
            shutdown(mesh->peer[peer].notices, SHUT_WR);
        }

    // Closing while the other side still sends would reset the connection.
    const double deadline = seconds_now() + mesh->timeout;
    for (int peer = 0; peer < mesh->world_size; peer++)
        if (peer != mesh->rank) {
            Notice notice;
            while (net_recv(mesh->peer[peer].notices, &notice, sizeof notice, deadline) == 0)
                ;
            close(mesh->peer[peer].notices);
            close(mesh->peer[peer].data);
        }
    shared_free(mesh);
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
