/*
 * Two ranks on one machine set up shared memory.
 *
 * The lower rank creates it, a file in no folder (memfd_create), and sends the other its pid and
 * descriptor over their connection. The higher rank opens it through /proc and checks its name,
 * which contains a random number. On another machine, or in a container that does not see the
 * process, there is no such file, and the two do without. Neither keeps a descriptor: however the
 * ranks end, the memory goes with them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "extras/shared_memory/pipe.h"

#define NAME_BYTES 64

/* The location of the memory. */
typedef struct {
    int32_t pid, fd; // fd is -1 if there is no memory
    uint64_t nonce;
} Offer;

static bool is_disabled(void)
{
    const char *value = getenv("DDP_SHM_DISABLE");
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* Includes the network namespace, because nodes simulated on one machine must behave as several. */
static void name_of(uint64_t nonce, char name[NAME_BYTES])
{
    struct stat network = { 0 };
    stat("/proc/self/ns/net", &network);
    snprintf(name, NAME_BYTES, "ddp.c %ju %016jx", (uintmax_t)network.st_ino, (uintmax_t)nonce);
}

static PipeMemory *map(int fd)
{
    void *memory = mmap(NULL, sizeof(PipeMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Returns NULL and no offer if the system refuses, or DDP_SHM_DISABLE is set. */
static PipeMemory *make_memory(Offer *offer)
{
    char name[NAME_BYTES];
    PipeMemory *memory = NULL;
    *offer = (Offer){ .pid = getpid(), .fd = -1 };
    if (is_disabled())
        return NULL;
    SYS_CHECK(getrandom(&offer->nonce, sizeof offer->nonce, 0));
    name_of(offer->nonce, name);
    // Sealed against shrinking: access beyond the end of a file would be fatal.
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, sizeof *memory) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 && (memory = map(fd)) != NULL) {
        offer->fd = fd;
        return memory;
    }
    log_detail(LOG_DISTRIBUTED, "no memory can be shared: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* Returns NULL if it is not the memory that was offered. */
static PipeMemory *find_memory(const Offer *offer)
{
    char path[64], name[NAME_BYTES], due[NAME_BYTES + 32], found[sizeof due] = "";
    name_of(offer->nonce, name);
    snprintf(due, sizeof due, "/memfd:%s (deleted)", name);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", offer->pid, offer->fd);
    if (is_disabled() || readlink(path, found, sizeof found - 1) < 0 || strcmp(found, due) != 0)
        return NULL;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    PipeMemory *memory = lseek(fd, 0, SEEK_END) == sizeof(PipeMemory) ? map(fd) : NULL;
    close(fd);
    return memory;
}

static Pipe *make_pipe(const Mesh *mesh, int peer, int data, PipeMemory *memory)
{
    Pipe *pipe = mem_calloc(1, sizeof *pipe);
    *pipe = (Pipe){ .memory = memory,
                    .own = &memory->end[mesh->rank > peer],
                    .theirs = &memory->end[mesh->rank < peer],
                    .bell = data };
    return pipe;
}

/* Returns NULL, too, if the peer is gone: the first message will detect that. */
static Pipe *offer_memory(const Mesh *mesh, int peer, int data, double deadline)
{
    char yes = 0;
    Offer offer;
    PipeMemory *memory = make_memory(&offer);
    if (net_send(data, &offer, sizeof offer, deadline) < 0 || net_recv(data, &yes, 1, deadline) < 0)
        yes = 0;
    if (memory == NULL)
        return NULL;
    close(offer.fd);
    if (yes)
        return make_pipe(mesh, peer, data, memory);
    munmap(memory, sizeof *memory);
    return NULL;
}

static Pipe *answer_offer(const Mesh *mesh, int peer, int data, double deadline)
{
    Offer offer;
    if (net_recv(data, &offer, sizeof offer, deadline) < 0)
        return NULL;
    PipeMemory *memory = find_memory(&offer);
    const char yes = memory != NULL;
    net_send(data, &yes, 1, deadline);
    return yes ? make_pipe(mesh, peer, data, memory) : NULL;
}

Pipe *pipe_open(const Mesh *mesh, int peer, int data, double deadline)
{
    return (mesh->rank < peer ? offer_memory : answer_offer)(mesh, peer, data, deadline);
}

void pipe_close(Pipe *pipe)
{
    munmap(pipe->memory, sizeof *pipe->memory);
    free(pipe);
}

/* The connection of a pipe is silent unless its other side is asked to write a byte there. */
bool pipes_sleep(Mesh *mesh, const int peer[2], struct pollfd data[2])
{
    bool may_sleep = true;
    for (int i = 0; i < 2; i++) {
        Pipe *pipe = peer[i] != NOBODY ? mesh->peer[peer[i]].pipe : NULL;
        if (pipe != NULL && !pipe_sleep(pipe, data[i].events))
            may_sleep = false;
        if (pipe != NULL)
            data[i].events = POLLIN;
    }
    return may_sleep;
}

int pipes_wake(Mesh *mesh, const int peer[2])
{
    int lost = NOBODY;
    for (int i = 0; i < 2; i++) {
        Pipe *pipe = peer[i] != NOBODY ? mesh->peer[peer[i]].pipe : NULL;
        if (pipe != NULL && !pipe_wake(pipe, i == 0 ? POLLOUT : POLLIN))
            lost = peer[i];
    }
    return lost;
}

/* Sets how a thread that drives shares a core with others (sched(7)). With a short time slice it
 * runs as soon as it is woken, and soon again after sched_yield, however many others want the core
 * (from Linux 6.12 on); its share of the core stays the same. A caller whose rank has a core keeps
 * the usual slice: two ranks that run for long at the same time pass many short messages. Messages
 * through shared memory keep a core busy all the time, so the progress thread then leaves it to
 * those that compute: with SCHED_BATCH it does not preempt them. */
void pipes_schedule(const Mesh *mesh, bool computes)
{
    const int next = (mesh->rank + 1) % mesh->world_size;
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice, deadline, period; // nanoseconds
    } own; // what the user has chosen, as with nice(1) and chrt(1)

    if (computes && mesh->has_core)
        return;
    if (!computes && mesh->peer[next].pipe != NULL) {
        pthread_setschedparam(pthread_self(), SCHED_BATCH, &(struct sched_param){ 0 });
    } else if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) == 0) {
        own.slice = 100 * 1000;
        syscall(SYS_sched_setattr, 0, &own, 0);
    }
}
