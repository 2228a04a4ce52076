/*
 * Gloo's rendezvous: every rank SETs one record with its address in the store, and reads all
 * others'.
 *
 *     bytes   8 + h    length of the host's name, and the name
 *             8        136, the size of the next two
 *             128      struct sockaddr_storage: where this rank listens
 *             8        -1
 *             8 n      what each rank must say when it connects here; may be left out
 *
 * Of two ranks the one with the larger address connects: IP addresses are compared byte by byte,
 * ports as the numbers that their two bytes are on this machine, so on x86 the low byte counts
 * most. The one that connects sends its 8 bytes, and nothing comes back.
 */
#include "beyond/gloo/gloo_connect.h"

#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

#define LOOK_SECONDS 0.1 // between two looks for a key that has two names
#define MAX_HOST 1024 // bytes of a host's name in a record

/* Where a rank listens, and the number that a rank which connects must say. */
typedef struct {
    struct sockaddr_storage address;
    int64_t sequence;
} Place;

/* Writes the name of a rank's key, of which there are two: PyTorch's that is older than 2.15 (maybe
 * 2.6) puts the attempt before it, if a launcher serves the store. */
static const char *key_of(int rank, bool of_attempt, char key[STORE_KEY_BYTES])
{
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT");
    char prefix[32] = "";
    if (of_attempt)
        snprintf(prefix, sizeof prefix, "/worker/attempt_%.10s/", attempt != NULL ? attempt : "0");
    snprintf(key, STORE_KEY_BYTES, "%sdefault_pg/0//cpu//0/%d", prefix, rank);
    return key;
}

/* ---- records ---- */

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
                                         : &((struct sockaddr_in6 *)address)->sin6_port;
}

static void publish(const ProcessGroup *pg, const struct sockaddr_storage *address)
{
    char host[256] = "", key[STORE_KEY_BYTES];
    gethostname(host, sizeof host - 1);
    Bytes record = { 0 };
    bytes_put_blob(&record, blob_of(host));
    bytes_put_u64(&record, sizeof *address + sizeof(int64_t));
    bytes_put(&record, address, sizeof *address);
    bytes_put_u64(&record, UINT64_MAX);
    for (int i = 0; i < pg->world_size; i++)
        bytes_put_u64(&record, (uint64_t)i);
    for (int of_attempt = 0; of_attempt <= pg->store->is_agents; of_attempt++)
        store_set(pg->store, key_of(pg->rank, of_attempt, key), record.data, record.count);
    bytes_free(&record);
}

/* Reads a rank's record; all its lengths are checked. */
static Place look_up(const ProcessGroup *pg, int rank, const char *key)
{
    const size_t fixed = sizeof(struct sockaddr_storage) + sizeof(int64_t);
    const size_t list = 8 * (size_t)pg->world_size, most = 16 + MAX_HOST + fixed + list;
    uint8_t *record = mem_alloc(most, 1);
    Place place = { .sequence = pg->rank };
    const size_t size = store_get(pg->store, key, record, most);
    Cursor at = record;
    const uint64_t host = size >= 16 + fixed && size <= most ? take_u64(&at) : most;
    const bool has_list = host < most && size == 16 + fixed + host + list;
    CHECK(has_list || (host < most && size == 16 + fixed + host),
          "rank %d's record in the store has %zu bytes, which no Gloo of a group of %d "
          "writes; " GLOO_TRIED,
          rank, size, pg->world_size);
    at += host;
    const bool is_sized = take_u64(&at) == fixed;
    memcpy(&place.address, at, sizeof place.address);
    at += fixed;
    CHECK(is_sized && (place.address.ss_family == AF_INET || place.address.ss_family == AF_INET6),
          "rank %d's record in the store has no address of IPv4 or IPv6; " GLOO_TRIED, rank);
    if (has_list)
        memcpy(&place.sequence, at + 8 * pg->rank, sizeof place.sequence);
    free(record);
    return place;
}

/* Dies with the list of the ranks whose records are not there. */
static noreturn void name_missing(const ProcessGroup *pg)
{
    char key[STORE_KEY_BYTES], list[RANK_LIST_BYTES];
    bool *missing = mem_calloc((size_t)pg->world_size, sizeof *missing);
    for (int i = 0; i < pg->world_size; i++)
        missing[i] = !store_check(pg->store, key_of(i, false, key)) &&
                     !store_check(pg->store, key_of(i, true, key));
    die("%s of %d did not come within %g s: has it called init_process_group(\"gloo\")? "
        "(" GLOO_TRIED ")",
        rank_list(missing, pg->world_size, list), pg->world_size, pg->timeout);
}

/* Waits for a rank's record, and writes the name of its key. */
static const char *await_rank(const Mesh *mesh, const ProcessGroup *pg, int rank,
                              char key[STORE_KEY_BYTES])
{
    for (double begun = seconds_awake(), logged = 0;;) {
        const double left = mesh->deadline - seconds_awake();
        if (store_try_wait(pg->store, key_of(rank, false, key), fmax(0, fmin(left, LOOK_SECONDS))))
            return key;
        if (pg->store->is_agents && store_check(pg->store, key_of(rank, true, key)))
            return key;
        if (left <= 0)
            name_missing(pg);
        if (logged == 0 && seconds_awake() > begun + STORE_QUIET_SECONDS) {
            log_info("waits for rank %d of %d, %g s at most (--timeout)", rank, pg->world_size,
                     pg->timeout);
            logged = 1;
        }
    }
}

/* ---- connecting ---- */

/* Listens at the address from which this machine reaches the store, or that of the interface that
 * the user chose. The record needs a number, so not "all addresses". */
static void listen_here(Mesh *mesh, const ProcessGroup *pg, struct sockaddr_storage *own)
{
    char text[MESH_ADDRESS_BYTES];
    mesh->listen_fd = mesh_listen(pg, text);
    SYS_CHECK(getsockname(mesh->listen_fd, (struct sockaddr *)own, &(socklen_t){ sizeof *own }));
    const in_port_t port = *port_of(own);
    if (own->ss_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)own)->sin6_addr))
        SYS_CHECK(getsockname(pg->store->fd, (struct sockaddr *)own, &(socklen_t){ sizeof *own }));
    *port_of(own) = port;
}

/* Returns whether this rank connects to the other, and not the other to it. */
static bool connects(const struct sockaddr_storage *own, const struct sockaddr_storage *other)
{
    const struct sockaddr_in *a4 = (const void *)own, *b4 = (const void *)other;
    const struct sockaddr_in6 *a6 = (const void *)own, *b6 = (const void *)other;
    if (own->ss_family == AF_INET) {
        const int order = memcmp(&a4->sin_addr, &b4->sin_addr, sizeof a4->sin_addr);
        return order != 0 ? order > 0 : a4->sin_port > b4->sin_port;
    }
    const int order = memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr);
    return order != 0 ? order > 0 : a6->sin6_port > b6->sin6_port;
}

static void connect_to(Mesh *mesh, int rank, const Place *place)
{
    char host[64] = "", service[16] = "0";
    const int error =
        getnameinfo((const struct sockaddr *)&place->address, address_bytes(&place->address), host,
                    sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
    CHECK(error == 0, "rank %d's address is none: %s", rank, gai_strerror(error));
    const int fd = net_connect(host, atoi(service), mesh->deadline);
    if (fd < 0 || net_send(fd, &place->sequence, sizeof place->sequence, mesh->deadline) < 0)
        die("cannot reach rank %d at %s port %s: %s%s", rank, host, service, net_reason(errno),
            interface_advice());
    mesh->peer[rank].data = fd;
}

/* Accepts a connection of a rank that is expected, and no other. */
static void accept_one(Mesh *mesh, const bool *expected)
{
    int64_t said = -1;
    const int fd = net_accept(mesh->listen_fd, mesh->deadline);
    const double deadline = fmin(mesh->deadline, seconds_awake() + HANDSHAKE_SECONDS);
    if (fd < 0)
        return;
    if (net_recv(fd, &said, sizeof said, deadline) == 0 && said >= 0 && said < mesh->world_size &&
        expected[said] && mesh->peer[said].data < 0) {
        mesh->peer[said].data = fd;
        return;
    }
    close(fd);
    log_warning("turned away a connection that is not of this group");
}

void gloo_connect(Mesh *mesh, const ProcessGroup *pg)
{
    const int n = pg->world_size;
    char key[STORE_KEY_BYTES];
    struct sockaddr_storage own = { 0 };
    net_reserve_descriptors(NET_SPARE_DESCRIPTORS + n, n);
    listen_here(mesh, pg, &own);
    publish(pg, &own);
    bool *expected = mem_calloc((size_t)n, sizeof *expected); // to connect here
    for (int i = 0; i < n; i++) {
        if (i == pg->rank)
            continue;
        const Place place = look_up(pg, i, await_rank(mesh, pg, i, key));
        CHECK(place.address.ss_family == own.ss_family,
              "rank %d listens at an address of IPv%c, this one of IPv%c: set GLOO_SOCKET_IFNAME "
              "or MASTER_ADDR so that all have the same kind",
              i, place.address.ss_family == AF_INET ? '4' : '6',
              own.ss_family == AF_INET ? '4' : '6');
        expected[i] = !connects(&own, &place.address);
        if (!expected[i])
            connect_to(mesh, i, &place);
    }
    for (int i = 0; i < n; i++)
        while (expected[i] && mesh->peer[i].data < 0) {
            if (seconds_awake() >= mesh->deadline)
                die("rank %d did not connect within %g s%s (" GLOO_TRIED ")", i, pg->timeout,
                    interface_advice());
            accept_one(mesh, expected);
        }
    free(expected);
    close(mesh->listen_fd);
    mesh->listen_fd = -1;
}
