/*
 * Two ranks on one machine agree on memory that both see.
 *
 * The lower rank makes it, a file without a name (memfd_create), and tells the other over their
 * connection where it is: which machine, which process, which descriptor. The higher rank opens
 * that through /proc and looks for the random number that must be in there. On another machine, or
 * in a container that does not see the process, it fails, and the two go on without. Nothing has a
 * name and nobody keeps a descriptor: whatever ends the ranks, the memory goes with them.
 */
#include "common/dist/tcp_shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/log_topics.h"
#include "common/base/memory.h"
#include "common/dist/net.h"
#include "common/dist/tcp_pipe.h"

#define MACHINE_BYTES 64

typedef struct {
    char machine[MACHINE_BYTES]; // see machine_id
    unsigned char nonce[sizeof((PipeMemory *)NULL)->nonce];
    uint64_t bytes; // of the memory
    int32_t pid, fd; // 0 and -1: there is none
} Offer;

static bool is_disabled(void)
{
    const char *value = getenv("DDP_SHM_DISABLE");
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* Differs between machines, between two lives of one, and between networks that one machine
 * pretends to have: "" where the system does not tell. */
static void machine_id(char id[MACHINE_BYTES])
{
    char boot[40];
    struct stat network;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    memset(id, 0, MACHINE_BYTES);
    if (file == NULL)
        return;
    if (fscanf(file, "%39s", boot) == 1 && stat("/proc/self/ns/net", &network) == 0)
        snprintf(id, MACHINE_BYTES, "%s %ju", boot, (uintmax_t)network.st_ino);
    fclose(file);
}

static PipeMemory *map(int fd)
{
    void *memory = mmap(NULL, sizeof(PipeMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Memory of a size that nobody can change: to read behind its end would be the end. Returns the
 * descriptor, or -1. */
static int make_memory(PipeMemory **memory)
{
    const int fd = memfd_create("ddp.c", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, sizeof **memory) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 && (*memory = map(fd)) != NULL)
        return fd;
    close(fd);
    return -1;
}

/* NULL: what is there is not what was offered. */
static PipeMemory *find_memory(const Offer *offer)
{
    char path[64], machine[MACHINE_BYTES];
    machine_id(machine);
    if (is_disabled() || offer->pid <= 0 || offer->bytes != sizeof(PipeMemory) ||
        machine[0] == '\0' || memcmp(machine, offer->machine, sizeof machine) != 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", offer->pid, offer->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct stat status;
    const int seals = fcntl(fd, F_GET_SEALS);
    PipeMemory *memory = NULL;
    if (fstat(fd, &status) == 0 && status.st_size == sizeof *memory && seals >= 0 &&
        (seals & F_SEAL_SHRINK) != 0)
        memory = map(fd);
    close(fd);
    if (memory != NULL && memcmp(memory->nonce, offer->nonce, sizeof offer->nonce) != 0) {
        munmap(memory, sizeof *memory);
        memory = NULL;
    }
    return memory;
}

static Pipe *pipe_new(PipeMemory *memory, bool lower, int bell)
{
    Pipe *pipe = mem_calloc(1, sizeof *pipe);
    *pipe = (Pipe){ memory, &memory->end[!lower], &memory->end[lower], bell, 0, 0, 0, 0 };
    return pipe;
}

/* Returns the descriptor of the memory that is offered; or -1. */
static int offer_memory(Mesh *mesh, int peer)
{
    Offer offer = { .bytes = sizeof(PipeMemory), .fd = -1 };
    PipeMemory *memory;
    machine_id(offer.machine);
    if (!is_disabled() && (offer.fd = make_memory(&memory)) >= 0) {
        offer.pid = getpid();
        SYS_CHECK(getrandom(offer.nonce, sizeof offer.nonce, 0));
        memcpy(memory->nonce, offer.nonce, sizeof offer.nonce);
        mesh->peer[peer].pipe = pipe_new(memory, true, mesh->peer[peer].data);
    }
    CHECK(net_send(mesh->peer[peer].data, &offer, sizeof offer, mesh->deadline) == 0,
          "rank %d is gone: %s", peer, net_reason(errno));
    return offer.fd;
}

static void answer_offer(Mesh *mesh, int peer)
{
    const int data = mesh->peer[peer].data;
    Offer offer;
    CHECK(net_recv(data, &offer, sizeof offer, mesh->deadline) == 0,
          "rank %d does not say whether it shares memory: %s", peer, net_reason(errno));
    PipeMemory *memory = find_memory(&offer);
    const char yes = memory != NULL;
    if (yes)
        mesh->peer[peer].pipe = pipe_new(memory, false, data);
    CHECK(net_send(data, &yes, 1, mesh->deadline) == 0, "rank %d is gone: %s", peer,
          net_reason(errno));
}

static void drop(Peer *peer)
{
    if (peer->pipe != NULL)
        munmap(peer->pipe->memory, sizeof *peer->pipe->memory);
    free(peer->pipe);
    peer->pipe = NULL;
}

static void hear_answer(Mesh *mesh, int peer, int fd)
{
    char yes = 0;
    CHECK(net_recv(mesh->peer[peer].data, &yes, 1, mesh->deadline) == 0,
          "rank %d does not say whether it shares memory: %s", peer, net_reason(errno));
    if (yes != 1)
        drop(&mesh->peer[peer]);
    if (fd >= 0)
        close(fd);
}

void shared_init(Mesh *mesh)
{
    int *fd = mem_calloc((size_t)mesh->world_size, sizeof *fd);
    for (int peer = mesh->rank + 1; peer < mesh->world_size; peer++)
        fd[peer] = offer_memory(mesh, peer);
    for (int peer = 0; peer < mesh->rank; peer++)
        answer_offer(mesh, peer);
    for (int peer = mesh->rank + 1; peer < mesh->world_size; peer++)
        hear_answer(mesh, peer, fd[peer]);
    free(fd);
    for (int peer = 0; peer < mesh->world_size; peer++)
        if (peer != mesh->rank)
            log_detail(LOG_DISTRIBUTED, "data for rank %d goes through %s", peer,
                       mesh->peer[peer].pipe != NULL ? "shared memory" : "its connection");
}

void shared_free(Mesh *mesh)
{
    for (int peer = 0; peer < mesh->world_size; peer++)
        drop(&mesh->peer[peer]);
}
