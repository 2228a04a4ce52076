/*
 * --simulate-network RATE: each node's line carries RATE in each direction, and no more.
 *
 * Data moves as fast as it can, through sockets or shared memory; but a message counts as received
 * only when the lines of both nodes could have carried it. A line keeps the time at which it is
 * free again. A message occupies it from then on, or from now on, for bytes / rate; so the receiver
 * sleeps once, at the end of the message, and not for each part of it.
 *
 * The ranks of a node share its line, so the times lie in memory that all ranks map: a file in no
 * folder that rank 0 makes (memfd_create) and the others open through /proc.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "extras/group/group_extras.h"

#define KEY "simulated network"
#define TEXT_BYTES 96

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be of no use between processes");

/* A node's line, in nanoseconds of the monotonic clock, which all processes of a machine share. */
typedef struct {
    _Alignas(64) _Atomic int64_t out_free_at, in_free_at;
} Line;

static Line *lines; // indexed by node; NULL if nothing is simulated
static size_t lines_bytes;
static const char *rate; // as the user wrote it
static double seconds_a_byte;

/* ---- the memory that the ranks share ---- */

/* Creates the memory. Rank 0's descriptor stays open: the memory goes when the last rank ends. */
static int make_memory(const ProcessGroup *pg, const char *key)
{
    char text[TEXT_BYTES], name[TEXT_BYTES];
    uint64_t nonce;
    SYS_CHECK(getrandom(&nonce, sizeof nonce, 0));
    snprintf(name, sizeof name, "ddp.c network %016jx", (uintmax_t)nonce);
    const int fd = memfd_create(name, MFD_CLOEXEC);
    SYS_CHECK(fd);
    SYS_CHECK(ftruncate(fd, (off_t)lines_bytes));
    const int length =
        snprintf(text, sizeof text, "%d %d %016jx", (int)getpid(), fd, (uintmax_t)nonce);
    store_set(pg->store, key, text, (size_t)length);
    return fd;
}

/* Returns -1 if it is not the memory of rank 0, which runs on another machine. */
static int find_memory(const ProcessGroup *pg, const char *key)
{
    char text[TEXT_BYTES] = "", path[64], due[TEXT_BYTES], found[TEXT_BYTES] = "";
    int pid, fd;
    uintmax_t nonce;
    store_get(pg->store, key, text, sizeof text - 1);
    if (sscanf(text, "%d %d %jx", &pid, &fd, &nonce) != 3)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    snprintf(due, sizeof due, "/memfd:ddp.c network %016jx (deleted)", nonce);
    if (readlink(path, found, sizeof found - 1) < 0 || strcmp(found, due) != 0)
        return -1;
    const int own = open(path, O_RDWR | O_CLOEXEC);
    return own >= 0 && lseek(own, 0, SEEK_END) == (off_t)lines_bytes ? own : -1;
}

void network_formed(ProcessGroup *pg, const Args *args)
{
    if (lines != NULL)
        munmap(lines, lines_bytes); // left by an earlier group
    lines = NULL;
    rate = args->simulate_network;
    if (rate == NULL)
        return;
    if (pg->backend != &backend_tcp)
        usage_error("--simulate-network is for --backend tcp: %s uses the network as it is",
                    pg->backend->name);
    char key[STORE_KEY_BYTES];
    process_group_key(pg, KEY, 0, key);
    seconds_a_byte = 8 / parse_rate(rate);
    lines_bytes = (size_t)pg->world_size * sizeof *lines;
    const int fd = (pg->rank == 0 ? make_memory : find_memory)(pg, key);
    CHECK(fd >= 0, "--simulate-network: this rank cannot share memory with rank 0: run all ranks "
                   "on one machine, or leave the option out");
    void *memory = mmap(NULL, lines_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED, "--simulate-network: cannot map memory: %s", strerror(errno));
    lines = memory;
    if (pg->rank > 0)
        close(fd);
}

/* ---- the lines ---- */

/* Returns the node set by process_group_set_nodes; if none, or only one, is set, each rank stands
 * for a node. */
static int node_of(const ProcessGroup *pg, int rank)
{
    return pg->nodes != NULL ? pg->nodes->node_of[rank] : rank;
}

/* Occupies a line for some time. Returns when it is free again. */
static double occupy(_Atomic int64_t *free_at, double seconds)
{
    const int64_t now = (int64_t)(1e9 * seconds_now()), span = (int64_t)ceil(1e9 * seconds);
    int64_t before = atomic_load(free_at), after;
    do
        after = (before > now ? before : now) + span;
    while (!atomic_compare_exchange_weak(free_at, &before, after));
    return 1e-9 * (double)after;
}

double network_arrival(Mesh *mesh, int from, size_t bytes)
{
    if (lines == NULL)
        return 0;
    const ProcessGroup *pg = process_group_root(mesh->collective->pg);
    const int theirs = node_of(pg, from), ours = node_of(pg, mesh->rank);
    if (theirs == ours)
        return 0;
    const double seconds = (double)bytes * seconds_a_byte;
    const double lag = seconds_awake() - seconds_now(); // all ranks share the lines' clock
    const double arrives = lag + fmax(occupy(&lines[theirs].out_free_at, seconds),
                                      occupy(&lines[ours].in_free_at, seconds));
    if (arrives > mesh->deadline)
        mesh_abort(mesh, NOBODY,
                   "at --simulate-network %s %.3g MB from rank %d arrive in %.3g s, after the "
                   "--timeout of %g s: raise one of the two",
                   rate, 1e-6 * (double)bytes, from, arrives - seconds_awake(), mesh->timeout);
    return arrives;
}
