/*
 * Forming the connections of the tcp backend.
 *
 * Every rank listens, publishes its address in the store and connects to all lower ranks; the
 * higher ones connect to it. The connecting side sends the group's token, a random number that rank
 * 0 put into the store: ranks of another job or of an earlier attempt, and strangers, do not know
 * it and are rejected. The reply has it too, since another process may have the port by now.
 */
#include "common/comm/tcp/tcp_mesh.h"

#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <netdb.h>
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

#define VERSION_BYTES 8
#define MAX_PENDING 64 // connections that have not sent their hello yet
#define HELLO_SECONDS 1.0
#define MAX_WARNINGS 8
#define NUM_CHANNELS 2
#define OTHER_NETWORK "to use another network, set GLOO_SOCKET_IFNAME=eth0 or the like"
#define HOST_BYTES 256
#define ADDRESS_BYTES (HOST_BYTES + 16) // host and port

/* The first bytes on a connection, in both directions. */
typedef struct {
    unsigned char token[24]; // version(), then the random number
    int32_t rank;
    int32_t channel; // 0: data, 1: notices
} Hello;

/* The version of the protocol between ranks; those with pipes begin with offers of them. It is sent
 * with the token, so that a rank of another build fails at once and not after the timeout. */
static const char *version(void)
{
    return tcp_pipes.open != NULL ? "ddp.tcp2" : "ddp.tcp1";
}

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
        memcpy(token, version(), VERSION_BYTES);
        SYS_CHECK(getrandom(token + VERSION_BYTES, bytes - VERSION_BYTES, 0));
        store_set(pg->store, key, token, bytes);
    } else {
        CHECK(store_get(pg->store, key, token, bytes) == bytes &&
                  memcmp(token, version(), VERSION_BYTES) == 0,
              "rank 0 runs another version of this program: build the same one on every node");
    }
}

int mesh_local_address(int fd, char *address, size_t bytes)
{
    struct sockaddr_storage here;
    socklen_t length = sizeof here;
    if (getsockname(fd, (struct sockaddr *)&here, &length) < 0)
        return -1;
    if (getnameinfo((struct sockaddr *)&here, length, address, (socklen_t)bytes, NULL, 0,
                    NI_NUMERICHOST) != 0) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    // An IPv4-mapped address: others reach it by the plain IPv4 address.
    if (strncmp(address, "::ffff:", 7) == 0 && strchr(address, '.') != NULL)
        memmove(address, address + 7, strlen(address + 7) + 1);
    return 0;
}

int mesh_interface_address(const char *interface, char *address, size_t bytes)
{
    static const sa_family_t families[] = { AF_INET, AF_INET6 };
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0)
        return -1;
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        const socklen_t size = i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        for (const struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next)
            found = one->ifa_addr != NULL && one->ifa_addr->sa_family == families[i] &&
                    strcmp(one->ifa_name, interface) == 0 && (one->ifa_flags & IFF_UP) != 0 &&
                    getnameinfo(one->ifa_addr, size, address, (socklen_t)bytes, NULL, 0,
                                NI_NUMERICHOST) == 0 &&
                    strchr(address, '%') == NULL; // fe80::1%eth0 has a meaning only here
    }
    freeifaddrs(all);
    errno = ENODEV;
    return found ? 0 : -1;
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
        if (mesh_interface_address(interface, host, bytes) == 0)
            return;
    }
    CHECK(list == NULL || list[0] == '\0',
          "GLOO_SOCKET_IFNAME is \"%s\": no interface of this machine has that name and an "
          "address; ip address shows them",
          list);
    SYS_CHECK(mesh_local_address(pg->store->fd, host, bytes));
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
static int connect_once(const char *host, int port, int rank, const Hello *own, double deadline)
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
        while ((*fd = connect_once(host, port, peer, &own, mesh->deadline)) < 0) {
            CHECK(seconds_now() < mesh->deadline, "rank %d at %s port %d does not answer", peer,
                  host, port);
            nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
        }
    }
}

/* ---- connections that have not identified themselves yet, all read at once ---- */

/* If callers were read one after the other, a stranger that connects and sends nothing would delay
 * the ranks after it, and a thousand of them would keep ranks out for good. So every caller gets a
 * slot, and the first with a complete hello is served first. */
typedef struct {
    int fd;
    double since; // on the clock of seconds_now()
    size_t bytes; // of the hello received so far
    Hello hello;
} Caller;

typedef struct {
    int listen_fd;
    int num_callers;
    Caller caller[MAX_PENDING]; // oldest first
    int num_turned_away;
} Pending;

/* Closes the connection of a stranger, and logs it (the first few). */
static void turn_away(Pending *pending, int fd)
{
    close(fd);
    if (++pending->num_turned_away <= MAX_WARNINGS)
        log_warning("turned away a connection that is not of this group%s",
                    pending->num_turned_away == MAX_WARNINGS ? " (and says no more of such)" : "");
}

static Caller remove_caller(Pending *pending, int slot)
{
    const Caller caller = pending->caller[slot];
    pending->num_callers--;
    memmove(&pending->caller[slot], &pending->caller[slot + 1],
            (size_t)(pending->num_callers - slot) * sizeof caller);
    return caller;
}

/* Accepts one more caller, if there is one. False: cannot, and dropping others would not help. */
static bool accept_caller(Pending *pending)
{
    const int fd = net_accept(pending->listen_fd, 0);
    if (fd < 0 && errno == ETIMEDOUT)
        return true;
    if (fd < 0 && pending->num_callers == 0)
        return false;
    if (fd < 0 || pending->num_callers == MAX_PENDING) // out of descriptors or slots
        turn_away(pending, remove_caller(pending, 0).fd);
    if (fd >= 0)
        pending->caller[pending->num_callers++] = (Caller){ .fd = fd, .since = seconds_now() };
    return true;
}

/* Reads what has arrived of a hello. False: drop the caller. */
static bool read_hello(Caller *caller)
{
    const ssize_t n = recv(caller->fd, (char *)&caller->hello + caller->bytes,
                           sizeof(Hello) - caller->bytes, MSG_DONTWAIT);
    if (n > 0)
        caller->bytes += (size_t)n;
    const bool is_silent = n < 0 && (errno == EAGAIN || errno == EINTR);
    return n > 0 || (is_silent && seconds_now() < caller->since + HELLO_SECONDS);
}

/* Sleeps until a connection or bytes arrive, a caller's time is up, or the deadline. */
static void wait_for_callers(const Pending *pending, double deadline)
{
    struct pollfd pollfds[MAX_PENDING + 1] = { { .fd = pending->listen_fd, .events = POLLIN } };
    for (int i = 0; i < pending->num_callers; i++)
        pollfds[i + 1] = (struct pollfd){ .fd = pending->caller[i].fd, .events = POLLIN };
    if (pending->num_callers > 0)
        deadline = fmin(deadline, pending->caller[0].since + HELLO_SECONDS);
    const double left = fmax(deadline - seconds_now(), 0);
    poll(pollfds, (nfds_t)pending->num_callers + 1, (int)ceil(1e3 * fmin(left, 1e3)));
}

/* Waits for the next caller with a complete hello. Returns its descriptor; -1 and errno after the
 * deadline. A connection without a complete hello after a second is closed; if all slots are
 * taken, the oldest is: a rank sends its hello at once, so a crowd does not keep it out. */
static int pending_next(Pending *pending, Hello *hello, double deadline)
{
    for (;;) {
        for (int i = pending->num_callers - 1; i >= 0; i--) {
            const bool stays = read_hello(&pending->caller[i]);
            if (pending->caller[i].bytes == sizeof(Hello)) {
                *hello = pending->caller[i].hello;
                return remove_caller(pending, i).fd;
            }
            if (!stays)
                turn_away(pending, remove_caller(pending, i).fd);
        }
        if (seconds_now() >= deadline) {
            errno = ETIMEDOUT;
            return -1;
        }
        wait_for_callers(pending, deadline);
        if (!accept_caller(pending))
            return -1;
    }
}

static void pending_close(Pending *pending)
{
    while (pending->num_callers > 0)
        close(remove_caller(pending, pending->num_callers - 1).fd);
}

/* ---- the mesh ---- */

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
    Pending pending = { .listen_fd = listen_fd };
    for (int missing = NUM_CHANNELS * (mesh->world_size - 1 - mesh->rank); missing > 0;) {
        Hello theirs;
        const int fd = pending_next(&pending, &theirs, mesh->deadline);
        CHECK(fd >= 0, "rank %d did not connect to %s within %g s: %s; " OTHER_NETWORK,
              first_absent(mesh), own_address, mesh->timeout, strerror(errno));
        const bool welcome = hello_is_ours(&theirs, own) && theirs.rank > mesh->rank &&
                             theirs.rank < mesh->world_size && theirs.channel >= 0 &&
                             theirs.channel < NUM_CHANNELS;
        if (!welcome || net_send(fd, own, sizeof *own, mesh->deadline) < 0) {
            turn_away(&pending, fd);
            continue;
        }
        int *slot = channel_of(mesh, theirs.rank, theirs.channel);
        if (*slot >= 0)
            close(*slot); // it will reconnect
        else
            missing--;
        *slot = fd;
    }
    pending_close(&pending);
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

    if (n > 1) {
        Hello own = { .rank = pg->rank };
        token_agree(pg, own.token, sizeof own.token);
        char address[ADDRESS_BYTES];
        const int listen_fd = listen_and_publish(pg, address);
        for (int peer = 0; peer < pg->rank; peer++)
            connect_to(mesh, pg, peer, own);
        accept_others(mesh, listen_fd, address, &own);
        close(listen_fd);
        if (tcp_pipes.open != NULL)
            tcp_pipes.open(mesh);
    }

    const int local_ranks = host_env_count("LOCAL_WORLD_SIZE");
    mesh->has_core = (local_ranks > 0 ? local_ranks : n) <= host_num_cores();
    for (int peer = 0; peer < n; peer++) {
        mesh->watched[peer] = (struct pollfd){ .fd = mesh->peer[peer].notices, .events = POLLIN };
        if (peer == mesh->rank)
            continue;
        const int whole = sizeof(Notice); // poll must not wake us for part of a notice
        SYS_CHECK(
            setsockopt(mesh->peer[peer].notices, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole));
        log_detail(LOG_DISTRIBUTED, "data for rank %d goes through %s", peer,
                   mesh->peer[peer].pipe != NULL ? "shared memory" : "its connection");
    }
}

void notice_send(Mesh *mesh, int peer, const Notice *notice)
{
    Peer *to = &mesh->peer[peer];
    if (to->notices < 0 || to->notices_blocked)
        return;
    const ssize_t sent = send(to->notices, notice, sizeof *notice, MSG_DONTWAIT | MSG_NOSIGNAL);
    to->notices_blocked = sent > 0 && sent < (ssize_t)sizeof *notice;
}

void mesh_notify(Mesh *mesh, NoticeKind kind, int waits_for)
{
    const Notice notice = { .kind = (int32_t)kind, .waits_for = waits_for, .call = mesh->call };
    for (int peer = 0; peer < mesh->world_size; peer++)
        notice_send(mesh, peer, &notice);
    mesh->wait.notice_interval = fmin(2 * mesh->wait.notice_interval, mesh->timeout / 4);
    mesh->wait.next_notice_time = seconds_now() + mesh->wait.notice_interval;
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
            if (mesh->peer[peer].pipe != NULL)
                tcp_pipes.close(mesh->peer[peer].pipe);
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
