/*
 * Forming the connections of the tcp backend.
 *
 * Every rank listens, publishes its address in the store and connects to all lower ranks; the
 * higher ones connect to it. Each connection begins with a handshake (handshake.h), in which both
 * sides prove that they know the group's key and agree on which two ranks of which group and
 * attempt they are: ranks of another job or of an earlier attempt, and strangers, are rejected. The
 * key comes from the job's secret; in a job without one rank 0 draws it and puts it into the store.
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
#define MAX_PENDING 64 // connections whose handshake is not done yet
#define MAX_WARNINGS 8
#define NUM_CHANNELS 2
#define OTHER_NETWORK "to use another network, set GLOO_SOCKET_IFNAME=eth0 or the like"
#define HOST_BYTES 256
#define ADDRESS_BYTES (HOST_BYTES + 16) // host and port

/* The version of the protocol between ranks; those with pipes begin with offers of them. It is in
 * the store, so that a rank of another build fails at once and not after the timeout. */
static const char *version(void)
{
    return tcp_pipes.open != NULL ? "ddp.tcp4" : "ddp.tcp3";
}

static int *channel_of(Mesh *mesh, int peer, int channel)
{
    return channel == 0 ? &mesh->peer[peer].data : &mesh->peer[peer].notices;
}

/* Compares the versions and returns the group's key. */
static Key256 key_agree(const ProcessGroup *pg)
{
    const bool has_secret = pg->store->has_secret;
    struct {
        char version[VERSION_BYTES];
        Key256 key; // only where there is no secret
    } offer;
    const size_t bytes = has_secret ? VERSION_BYTES : sizeof offer;
    char name[STORE_KEY_BYTES];
    process_group_key(pg, "tcp version", 0, name);
    if (pg->rank == 0) {
        memcpy(offer.version, version(), VERSION_BYTES);
        SYS_CHECK(getrandom(&offer.key, sizeof offer.key, 0));
        store_set(pg->store, name, &offer, bytes);
    } else {
        CHECK(store_get(pg->store, name, &offer, sizeof offer) == bytes &&
                  memcmp(offer.version, version(), VERSION_BYTES) == 0,
              "rank 0 runs another version of this program: build the same one on every node");
    }
    return has_secret ? handshake_key(&pg->store->secret, HANDSHAKE_BACKEND) : offer.key;
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
static int connect_once(const char *host, int port, const Key256 *key, const HandshakeHello *own,
                        double deadline)
{
    const int fd = net_connect(host, port, deadline);
    CHECK(fd >= 0, "cannot reach rank %d at %s port %d: %s; " OTHER_NETWORK, own->answerer, host,
          port, net_reason(errno));
    if (handshake_call(fd, key, *own, deadline) == 0)
        return fd;
    close(fd);
    return -1;
}

static void connect_to(Mesh *mesh, const ProcessGroup *pg, int peer, const Key256 *own_key,
                       HandshakeHello own)
{
    char key[STORE_KEY_BYTES], address[ADDRESS_BYTES] = "", host[HOST_BYTES];
    int port = 0;
    process_group_key(pg, "tcp address", peer, key);
    store_get(pg->store, key, address, sizeof address - 1);
    CHECK(sscanf(address, "%255s %d", host, &port) == 2, "the store's %s is \"%s\", no address",
          key, address);

    own.answerer = peer;
    for (own.channel = 0; own.channel < NUM_CHANNELS; own.channel++) {
        int *fd = channel_of(mesh, peer, own.channel);
        // A rank in a crowd may hang up on us: then reconnect.
        while ((*fd = connect_once(host, port, own_key, &own, mesh->deadline)) < 0) {
            CHECK(seconds_now() < mesh->deadline, "rank %d at %s port %d does not answer", peer,
                  host, port);
            nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
        }
    }
}

/* ---- connections that have not identified themselves yet, all read at once ---- */

/* If callers were read one after the other, a stranger that connects and sends nothing would delay
 * the ranks after it, and a thousand of them would keep ranks out for good. So every caller gets a
 * slot, and the first to finish its handshake is served first. */
typedef struct {
    int fd;
    double since; // on the clock of seconds_now()
    HandshakeAnswer answer;
} Caller;

typedef struct {
    int listen_fd;
    const Key256 *key;
    HandshakeHello own; // what callers must send
    int num_ranks; // callers are ranks from own.answerer + 1 to this
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

/* The key is not enough: it must be a rank that connects to this one. */
static bool is_awaited(const Pending *pending, const HandshakeHello *caller)
{
    return caller->caller > pending->own.answerer && caller->caller < pending->num_ranks &&
           caller->channel < NUM_CHANNELS;
}

/* Takes what has arrived of a handshake, and answers. HANDSHAKE_REFUSED: drop the caller. */
static HandshakeState read_handshake(const Pending *pending, Caller *caller)
{
    uint8_t data[sizeof caller->answer.hello], reply[HANDSHAKE_REPLY_BYTES];
    const size_t wanted = handshake_wants(&caller->answer);
    const ssize_t n = recv(caller->fd, data, wanted, MSG_DONTWAIT);
    const bool is_silent = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n <= 0)
        return is_silent && seconds_now() < caller->since + HANDSHAKE_SECONDS ? HANDSHAKE_MORE
                                                                              : HANDSHAKE_REFUSED;
    size_t reply_bytes = 0;
    const HandshakeState state = handshake_take(&caller->answer, pending->key, &pending->own, data,
                                                (size_t)n, reply, &reply_bytes);
    if (state == HANDSHAKE_DONE && !is_awaited(pending, &caller->answer.hello))
        return HANDSHAKE_REFUSED;
    const bool sent = send(caller->fd, reply, reply_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                      (ssize_t)reply_bytes; // there is room for the first bytes on a connection
    return sent ? state : HANDSHAKE_REFUSED;
}

/* Sleeps until a connection or bytes arrive, a caller's time is up, or the deadline. */
static void wait_for_callers(const Pending *pending, double deadline)
{
    struct pollfd pollfds[MAX_PENDING + 1] = { { .fd = pending->listen_fd, .events = POLLIN } };
    for (int i = 0; i < pending->num_callers; i++)
        pollfds[i + 1] = (struct pollfd){ .fd = pending->caller[i].fd, .events = POLLIN };
    if (pending->num_callers > 0)
        deadline = fmin(deadline, pending->caller[0].since + HANDSHAKE_SECONDS);
    const double left = fmax(deadline - seconds_now(), 0);
    poll(pollfds, (nfds_t)pending->num_callers + 1, (int)ceil(1e3 * fmin(left, 1e3)));
}

/* Waits for the next caller that has proven to be a rank of this group. Returns its descriptor; -1
 * and errno after the deadline. A connection whose handshake takes longer than HANDSHAKE_SECONDS is
 * closed; if all slots are taken, the oldest is: a rank answers at once, and else calls again. */
static int pending_next(Pending *pending, HandshakeHello *hello, double deadline)
{
    for (;;) {
        for (int i = pending->num_callers - 1; i >= 0; i--) {
            const HandshakeState state = read_handshake(pending, &pending->caller[i]);
            if (state == HANDSHAKE_DONE) {
                *hello = pending->caller[i].answer.hello;
                return remove_caller(pending, i).fd;
            }
            if (state == HANDSHAKE_REFUSED)
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
static void accept_others(Mesh *mesh, int listen_fd, const char *own_address, const Key256 *key,
                          HandshakeHello own)
{
    own.answerer = mesh->rank;
    Pending pending = {
        .listen_fd = listen_fd, .key = key, .own = own, .num_ranks = mesh->world_size
    };
    for (int missing = NUM_CHANNELS * (mesh->world_size - 1 - mesh->rank); missing > 0;) {
        HandshakeHello theirs;
        const int fd = pending_next(&pending, &theirs, mesh->deadline);
        CHECK(fd >= 0, "rank %d did not connect to %s within %g s: %s; " OTHER_NETWORK,
              first_absent(mesh), own_address, mesh->timeout, strerror(errno));
        int *slot = channel_of(mesh, theirs.caller, theirs.channel);
        if (*slot >= 0)
            close(*slot); // it called again: the first welcome did not reach it
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
        const Key256 key = key_agree(pg);
        HandshakeHello own = handshake_hello(HANDSHAKE_BACKEND);
        own.caller = pg->rank;
        own.attempt = host_env_count("TORCHELASTIC_RESTART_COUNT");
        own.group = pg->number;
        char address[ADDRESS_BYTES];
        const int listen_fd = listen_and_publish(pg, address);
        for (int peer = 0; peer < pg->rank; peer++)
            connect_to(mesh, pg, peer, &key, own);
        accept_others(mesh, listen_fd, address, &key, own);
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
