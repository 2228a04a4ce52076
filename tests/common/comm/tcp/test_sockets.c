/* Connections of sockets alone, as between machines: messages in pieces of a few bytes, interrupted
 * calls, headers and openings that no rank of this group sends, and ranks that cannot be reached.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/helpers/exact.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define LARGE 300000 // floats
#define TIMEOUT 200.0 // seconds

static float data[LARGE];

bool __wrap_on_demand_form(Mesh *mesh, const ProcessGroup *pg);

bool __wrap_on_demand_form(Mesh *mesh, const ProcessGroup *pg)
{
    (void)mesh, (void)pg;
    return false;
}

/* What sets how a thread shares its core: the caller's, which computes, and the progress thread. */
static atomic_int num_scheduled[2];

void __wrap_pipes_schedule(const Mesh *mesh, bool computes);

void __wrap_pipes_schedule(const Mesh *mesh, bool computes)
{
    (void)mesh;
    num_scheduled[computes]++;
}

/* Mutexes that notice if a thread locks one twice, or unlocks one that it has not locked. */
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex), __wrap_pthread_mutex_lock(pthread_mutex_t *);
int __real_pthread_mutex_unlock(pthread_mutex_t *), __wrap_pthread_mutex_unlock(pthread_mutex_t *);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    pthread_mutexattr_t checks;
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    return __real_pthread_mutex_init(mutex, &checks);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    CHECK(__real_pthread_mutex_lock(mutex) == 0, "a mutex is locked twice");
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    CHECK(__real_pthread_mutex_unlock(mutex) == 0, "a mutex is unlocked that is not locked");
    return 0;
}

static size_t most; // bytes that a call moves at most; 0 for any number
static bool is_damaged; // as a pipe's memory can be

/* Shortens a message to `most` bytes. Returns false if this call is to be interrupted instead. */
static bool shorten(struct msghdr *message, struct iovec part[2])
{
    static unsigned calls;
    memcpy(part, message->msg_iov, 2 * sizeof *part);
    message->msg_iov = part;
    if (most == 0)
        return true;
    if (part[0].iov_len > most)
        part[0].iov_len = most;
    if (part[0].iov_len + part[1].iov_len > most)
        part[1].iov_len = most - part[0].iov_len;
    return ++calls % 7 > 0 || (errno = EINTR, false);
}

/* Replace the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*real)(int, const struct msghdr *, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
    struct msghdr own = *message;
    struct iovec part[2];
    if (is_damaged)
        return errno = EPROTO, -1;
    return shorten(&own, part) ? real(fd, &own, flags) : -1;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t (*real)(int, struct msghdr *, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "recvmsg");
    struct msghdr own = *message;
    struct iovec part[2];
    return shorten(&own, part) ? real(fd, &own, flags) : -1;
}

static int most_looks = -1; // for a notice; any number if it is negative

ssize_t recv(int fd, void *bytes, size_t count, int flags)
{
    if ((flags & MSG_PEEK) != 0 && most_looks >= 0)
        CHECK(most_looks-- > 0, "it looks for notices again and again");
    return recvfrom(fd, bytes, count, flags, NULL, NULL);
}

static uint64_t nodes_bytes, nodes_messages; // that the Nodes of a group have been told of

static void count_sent(Nodes *nodes, const Collective *collective, int to, size_t bytes)
{
    CHECK(nodes == collective->pg->nodes && to != collective->pg->rank && to >= 0 &&
              to < collective->pg->world_size,
          "rank %d is sent %zu bytes", to, bytes);
    nodes_bytes += bytes;
    nodes_messages++;
}

static void cases_body(Rank *rank)
{
    ProcessGroup pg;
    Nodes nodes = { .count_sent = count_sent };
    rank_join(rank, &pg);
    pg.nodes = &nodes;
    collective_cases_run(&pg);
    const Mesh *mesh = pg.state;
    CHECK(nodes_bytes == mesh->moved.sent_bytes && nodes_messages == mesh->moved.sent_messages,
          "not all messages are counted");
    pg.nodes = NULL;
    process_group_destroy(&pg);
    CHECK(num_scheduled[0] == 1 && num_scheduled[1] == 1, "%d threads are scheduled, and %d",
          num_scheduled[0], num_scheduled[1]);
}

/* What nobody has waited for is done when the backend ends. */
static void pending_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    for (int i = 0; i < LARGE; i++)
        data[i] = 1;
    for (int i = 0; i < 10; i++)
        all_reduce_async(&pg, data, LARGE, FLOAT32, REDUCE_SUM);
    backend_tcp.destroy(pg.state, &pg);
    for (int i = 0; i < LARGE; i++)
        CHECK(data[i] == 1024, "element %d is %g", i, (double)data[i]);
}

static void test_the_end_waits_for_all_calls(void **state)
{
    (void)state;
    ranks_run_well(2, pending_body, NULL);
}

static void damaged_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    is_damaged = rank->rank == 0;
    barrier(&pg);
}

static void test_damaged_memory(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, damaged_body, NULL, end);
    for (int rank = 0; rank < 2; rank++)
        expect_error(end, rank,
                     "fatal: the memory of ranks 0 and 1 is damaged: DDP_SHM_DISABLE=1 does");
}

static void test_all_collectives(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, cases_body, NULL);
}

static void pieces_body(Rank *rank)
{
    static double sums[300];
    ProcessGroup pg;
    rank_join(rank, &pg);
    for (most = 1; most < 200; most += most < 20 ? 3 : 59)
        for (size_t count = 0; count <= 300; count = 3 * count + 1) {
            for (size_t i = 0; i < count; i++)
                sums[i] = (double)i + pg.rank;
            reduce(&pg, sums, count, FLOAT64, REDUCE_SUM, 1); // adds to what arrives
            broadcast(&pg, sums, count, FLOAT64, 1);
            for (size_t i = 0; i < count; i++)
                CHECK(sums[i] == 3 * (double)i + 3, "%zu in pieces of %zu: %g", i, most, sums[i]);
        }
    process_group_destroy(&pg);
}

static void test_messages_in_pieces(void **state)
{
    (void)state;
    ranks_run_well(3, pieces_body, NULL);
}

/* A header that rank 1 sends before its first message. */
typedef struct {
    Header header;
    const char *text; // error with which rank 0 ends
} Heading;

static void heading_body(Rank *rank)
{
    const Heading *heading = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    if (rank->rank == 1) {
        const int fd = ((Mesh *)pg.state)->peer[0].data;
        SYS_CHECK(net_send(fd, &heading->header, sizeof(Header), seconds_now() + TIMEOUT));
        raise(SIGSTOP);
    }
    pg_recv(&pg, data, 10, FLOAT32, 1);
}

static void test_headers_that_are_not_due(void **state)
{
    (void)state;
    static const char foreign[] = "rank 0 does not understand rank 1: are they the same program?";
    const CollectiveId due = { .count = 10, .kind = SEND, .root = 0 };
    CollectiveId other = due, named = due;
    other.sequence = 5;
    memset(named.group, 'g', sizeof named.group); // the name of another group, without an end
    const Heading headings[] = {
        { { due, HEADER_MAGIC + 1, 40 }, foreign },
        { { due, HEADER_MAGIC, 41 }, foreign },
        { { other, HEADER_MAGIC + 1, 40 }, foreign },
        { { other, HEADER_MAGIC, 40 },
          "rank 0 calls recv #0 of 10 float32 from rank 1, rank 1 calls "
          "send #5 of 10 float32 to rank 0" },
        { { named, HEADER_MAGIC, 40 },
          "to rank 0 in group \"ggggggggggggggggggggggggggggggggggggggggggggggg\"\n" },
    };
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, heading_body, (void *)&headings[i], end);
        expect_error(end, 0, headings[i].text);
    }
}

/* Rank 1 ends in the middle of a message, or before it reads one. */
static void broken_body(Rank *rank)
{
    const bool sends = rank->context != NULL;
    ProcessGroup pg;
    rank_join(rank, &pg);
    barrier(&pg);
    if (rank->rank == 1) {
        const Peer *peer = ((Mesh *)pg.state)->peer;
        if (!sends) {
            const Header header = { { .count = LARGE, .kind = SEND, .sequence = 1 },
                                    HEADER_MAGIC,
                                    sizeof data };
            SYS_CHECK(net_send(peer->data, &header, sizeof header, seconds_now() + TIMEOUT));
        }
        shutdown(peer->data, SHUT_RDWR); // the notices stay, and have no reason
        raise(SIGSTOP);
    }
    most_looks = 5000; // one in a millisecond, for a second
    // The kernel may take all that is sent as long as rank 1 could still read it.
    struct pollfd closed = { .fd = ((Mesh *)pg.state)->peer[1].data, .events = POLLRDHUP };
    CHECK(!sends || poll(&closed, 1, 1000 * (int)TIMEOUT) == 1, "rank 1 does not shut down");
    if (sends)
        pg_send(&pg, data, LARGE, FLOAT32, 1);
    else
        pg_recv(&pg, data, LARGE, FLOAT32, 1);
}

static void test_a_connection_that_breaks(void **state)
{
    (void)state;
    for (int sends = 0; sends < 2; sends++) {
        RankEnd end[MAX_RANKS];
        ranks_run(2, broken_body, sends ? "sends" : NULL, end);
        expect_error_at_once(end, 0,
                             sends ? "rank 1 is gone: connection closed during send #1 of"
                                   : "rank 1 is gone: connection closed during recv #1 of");
    }
}

/* ---- forming ---- */

static bool is_welcome(Store *store, const Opening *opening)
{
    ProcessGroup pg = { .store = store, .number = 1 };
    const int fd = mesh_call(&pg, store, 0, seconds_now() + TIMEOUT);
    SYS_CHECK(fd);
    char answer = 0;
    net_send(fd, opening, sizeof *opening, seconds_now() + TIMEOUT);
    return net_recv(fd, &answer, 1, seconds_now() + TIMEOUT) == 0 && answer == HANDSHAKE_WELCOME;
}

/* Rank 1 is played by hand: it opens each channel once, and no more. */
static void by_hand_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 1) {
        struct {
            char version[8];
            Key256 key;
        } offer;
        store_set(&rank->store, "group 1/agreement 0", "", 0);
        store_get(&rank->store, "group 1/tcp version 0", &offer, sizeof offer);
        CHECK(memcmp(&offer.key, &(Key256){ { 0 } }, sizeof offer.key) != 0,
              "the key is not drawn");
        Opening opening = { offer.key, 1, 0, 1 };
        CHECK(is_welcome(&rank->store, &opening), "the notices are turned away");
        CHECK(!is_welcome(&rank->store, &opening), "the notices are opened twice");
        opening.channel = 0;
        CHECK(is_welcome(&rank->store, &opening), "the data is turned away");
        return;
    }
    rank_join(rank, &pg);
    barrier(&pg);
}

static void test_channels_are_opened_once(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, by_hand_body, NULL, end);
    assert_int_equal(end[1].status, 0);
    expect_error(end, 0, "rank 1 is gone");
}

/* Rank 1 agrees with rank 0, and never connects. */
static void absent_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->rank == 1) {
        store_set(&rank->store, "group 1/agreement 0", "", 0);
        store_wait(&rank->store, "group 1/tcp address 0");
        raise(SIGSTOP);
    }
    rank_join(rank, &pg);
}

static void test_a_rank_that_does_not_connect(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    char text[64];
    const double seconds = ranks_run_into_timeout(2, 0.5, absent_body, NULL,
                                                  "rank 1 did not connect to 127.0.0.1 ", end);
    snprintf(text, sizeof text, " within %g s: Connection timed out", seconds);
    expect_error(end, 0, text);
    assert_true(end[0].seconds >= seconds);
}

/* Rank 0 is played by hand, with this address in the store; NULL for that of a program which
 * answers, but is no rank. */
static void unreachable_body(Rank *rank)
{
    const char *address = rank->context;
    ProcessGroup pg;
    if (rank->rank == 1)
        rank_join(rank, &pg);
    char own[64], offer[8 + sizeof(Key256)] = { 0 };
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port);
    snprintf(own, sizeof own, "127.0.0.1 %d", port);
    address = address != NULL ? address : own;
    memcpy(offer, has_extras ? "ddp.tcpA" : "ddp.tcpB", 8);
    store_set(&rank->store, "group 1/tcp version 0", offer, sizeof offer);
    store_set(&rank->store, "group 1/tcp address 0", address, strlen(address));
    store_set(&rank->store, "group 1/agreement 0", "", 0);
    store_ping(&rank->store);
    const int fd = address == own ? net_accept(listener, seconds_now() + TIMEOUT) : -1;
    if (fd >= 0)
        net_send(fd, "x", 1, seconds_now() + TIMEOUT);
}

static void test_addresses_of_no_rank(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, unreachable_body, NULL, end);
    expect_error_at_once(end, 1, "fatal: cannot reach rank 0: ");
    ranks_run(2, unreachable_body, "nowhere", end);
    expect_error_at_once(end, 1, "the store's group 1/tcp address 0 is \"nowhere\", no address");
}

/* Each process may open as many files as context says. */
static void few_descriptors_body(Rank *rank)
{
    const rlim_t most_files = *(const rlim_t *)rank->context;
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most_files, most_files }));
    cases_body(rank);
}

static void test_descriptors_are_counted_first(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, few_descriptors_body, &(rlim_t){ 64 + 3 - 1 }, end);
    expect_error(end, 0, "2 ranks take 67 descriptors here, and a process may open 66: raise");
    ranks_run_well(2, few_descriptors_body, &(rlim_t){ 64 + 3 });
}

/* Where the others reach this rank: where it reaches the store, unless that is loopback and the
 * store's name is not. */
static void address_body(Rank *rank)
{
    char address[MESH_ADDRESS_BYTES];
    const ProcessGroup pg = { .store = &rank->store };
    close(mesh_listen(&pg, address));
    CHECK(strncmp(address, "127.0.0.1 ", 10) == 0, "at %s", address);
    strcpy(rank->store.host, "localhost");
    close(mesh_listen(&pg, address));
    CHECK(strncmp(address, "127.0.0.1 ", 10) == 0, "at %s", address);
    strcpy(rank->store.host, "203.0.113.7"); // for documentation only (RFC 5737)
    close(mesh_listen(&pg, address));
    CHECK(strncmp(address, "203.0.113.7 ", 12) == 0, "at %s", address);
}

static void test_where_a_rank_listens(void **state)
{
    (void)state;
    ranks_run_well(1, address_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_collectives),
        cmocka_unit_test(test_messages_in_pieces),
        cmocka_unit_test(test_the_end_waits_for_all_calls),
        cmocka_unit_test(test_damaged_memory),
        cmocka_unit_test(test_headers_that_are_not_due),
        cmocka_unit_test(test_a_connection_that_breaks),
        cmocka_unit_test(test_channels_are_opened_once),
        cmocka_unit_test(test_a_rank_that_does_not_connect),
        cmocka_unit_test(test_addresses_of_no_rank),
        cmocka_unit_test(test_descriptors_are_counted_first),
        cmocka_unit_test(test_where_a_rank_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
