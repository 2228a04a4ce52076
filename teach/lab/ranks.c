/* The ranks share a page of states: each runs, sends, receives, is at a barrier, or has ended. A
 * receiver copies the message from the sender's buffer and releases it. If no rank runs and no
 * sender and receiver match, all are stuck forever. */
#include "teach/lab/ranks.h"

#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "teach/lab/served.h"

#define BUFFER_BYTES ((size_t)64 << 20) // most bytes of a message; only what is used takes memory
#define CPU_SECONDS 60 // limit of processor time, for a rank that does not end
#define FAULTY 3 // exit status: its fault is in the page
#define STUCK 4 // exit status: it waits for a rank that cannot come
#define EARLY 6 // status given to a rank that ended by itself before its function had returned

typedef enum { RUNS, SENDS, RECEIVES, MEETS, ENDED } State;

static struct Page {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int world_size, meetings; // ranks; barriers that are complete
    bool stuck;
    char if_stuck[24], tried[128]; // a hint's name, and what the ranks try now
    char waits[512]; // the ranks that each rank waited for, in words
    struct {
        State state;
        int peer;
        size_t count;
        DType type;
        double clock;
        bool returned; // whether the harness's function has returned
        char stage[16]; // what the harness tries now
        char fault[512];
    } rank[LAB_RANKS];
} * page;
static char *buffer[LAB_RANKS];
static int me; // rank of this process

LabCount lab_count;

void *lab_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED, "no shared memory: %s", strerror(errno));
    return memory;
}

uint64_t lab_draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = seed;
    for (int i = 0; i < 4; i++) { // splitmix64
        x += 0x9e3779b97f4a7c15 + (i == 0 ? a : i == 1 ? b : c);
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        x ^= x >> 31;
    }
    return x;
}

noreturn void fault(const char *name, const char *format, ...)
{
    if (lab_is_served) // the judge found no fault before it served
        _exit(FAULTY);
    char *text = page->rank[me].fault;
    const int length = snprintf(text, sizeof page->rank[me].fault, "%s: ", name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof page->rank[me].fault - (size_t)length, format, arguments);
    va_end(arguments);
    _exit(FAULTY);
}

void lab_stage(const char *name)
{
    if (!lab_is_served)
        snprintf(page->rank[me].stage, sizeof page->rank[me].stage, "%s", name);
}

void lab_tries(const char *if_stuck, const char *text)
{
    pthread_mutex_lock(&page->lock); // all ranks write the same
    snprintf(page->if_stuck, sizeof page->if_stuck, "%s", if_stuck);
    snprintf(page->tried, sizeof page->tried, " in %s", text);
    pthread_mutex_unlock(&page->lock);
}

void lab_done(void)
{
    page->rank[me].returned = true;
}

/* Returns whether a rank runs, or a pair or a barrier could go on, or all have ended. */
static bool can_proceed(void)
{
    int meet = 0, ended = 0;
    for (int i = 0; i < page->world_size; i++) {
        const int peer = page->rank[i].peer;
        if (page->rank[i].state == RUNS)
            return true;
        if (page->rank[i].state == SENDS && page->rank[peer].state == RECEIVES &&
            page->rank[peer].peer == i)
            return true;
        meet += page->rank[i].state == MEETS;
        ended += page->rank[i].state == ENDED;
    }
    return meet == page->world_size || ended == page->world_size;
}

/* Notes which ranks are waited for, once none can go on. Call it with the lock, after a change. */
static void look(void)
{
    static const char *const doing[] = { "", "sends to", "receives from", "has returned",
                                         "has ended" };
    pthread_cond_broadcast(&page->changed);
    if (page->stuck || can_proceed())
        return;
    page->stuck = true;
    for (int i = 0; i < page->world_size; i++) {
        const State state = page->rank[i].state;
        const size_t length = strlen(page->waits);
        char peer[16] = "";
        if (state == SENDS || state == RECEIVES)
            snprintf(peer, sizeof peer, " rank %d", page->rank[i].peer);
        snprintf(page->waits + length, sizeof page->waits - length, "%srank %d %s%s",
                 i > 0 ? ", " : "", i, doing[state], peer);
    }
}

static noreturn void end_stuck(void)
{
    pthread_mutex_unlock(&page->lock);
    _exit(STUCK);
}

/* Waits, with the lock, until this rank's state is RUNS again. */
static void wait_to_run(void)
{
    look();
    while (page->rank[me].state != RUNS) {
        if (page->stuck)
            end_stuck();
        pthread_cond_wait(&page->changed, &page->lock);
    }
    pthread_mutex_unlock(&page->lock);
}

void lab_barrier(void)
{
    pthread_mutex_lock(&page->lock);
    page->rank[me].state = MEETS;
    int meet = 0;
    for (int i = 0; i < page->world_size; i++)
        meet += page->rank[i].state == MEETS;
    for (int i = 0; meet == page->world_size && i < meet; i++)
        page->rank[i].state = RUNS;
    wait_to_run();
}

void lab_reset(void)
{
    lab_barrier();
    lab_count = (LabCount){ .live = lab_count.live, .peak = lab_count.live };
    page->rank[me].clock = 0;
    lab_barrier();
}

static void note_peer(const char *call, int peer)
{
    if (peer < 0 || peer >= page->world_size)
        fault("modulo", "%s: there is no rank %d among %d", call, peer, page->world_size);
    if (peer == me)
        fault(page->world_size == 1 ? "alone" : "itself", "%s: rank %d calls itself", call, me);
    lab_count.peer[peer] = true;
}

void pg_send(ProcessGroup *pg, const void *data, size_t count, DType type, int to)
{
    const size_t bytes = count * dtype_size(type);
    (void)pg;
    if (lab_is_served) {
        served_send(data, count, type, to);
        return;
    }
    note_peer("pg_send", to);
    if (bytes > BUFFER_BYTES)
        fault("bytes", "a message of %zu bytes", bytes);
    memcpy(buffer[me], data, bytes);
    lab_count.sent += bytes;
    lab_count.longest = bytes > lab_count.longest ? bytes : lab_count.longest;
    pthread_mutex_lock(&page->lock);
    page->rank[me].count = count;
    page->rank[me].type = type;
    page->rank[me].peer = to;
    page->rank[me].state = SENDS;
    wait_to_run();
    lab_count.clock = page->rank[me].clock;
}

void pg_recv(ProcessGroup *pg, void *data, size_t count, DType type, int from)
{
    const size_t bytes = count * dtype_size(type);
    (void)pg;
    if (lab_is_served) {
        served_recv(data, count, type, from);
        return;
    }
    note_peer("pg_recv", from);
    pthread_mutex_lock(&page->lock);
    page->rank[me].peer = from;
    page->rank[me].state = RECEIVES;
    look();
    while (page->rank[from].state != SENDS || page->rank[from].peer != me) {
        if (page->stuck)
            end_stuck();
        pthread_cond_wait(&page->changed, &page->lock);
    }
    pthread_mutex_unlock(&page->lock);
    if (page->rank[from].count != count || page->rank[from].type != type)
        fault("sizes", "rank %d sends %zu %s, rank %d receives %zu %s", from,
              page->rank[from].count, dtype_name(page->rank[from].type), me, count,
              dtype_name(type));
    memcpy(data, buffer[from], bytes);
    pthread_mutex_lock(&page->lock);
    double *mine = &page->rank[me].clock, *other = &page->rank[from].clock;
    *mine = *other = (*mine > *other ? *mine : *other) + (double)bytes;
    lab_count.clock = *mine;
    page->rank[from].state = page->rank[me].state = RUNS;
    wait_to_run();
}

/* ---- the learner's malloc ---- */

static void *counted(void *memory)
{
    lab_count.live += malloc_usable_size(memory);
    if (lab_count.live > lab_count.peak)
        lab_count.peak = lab_count.live;
    return memory;
}

void lab_free(void *memory);
void *lab_malloc(size_t bytes);
void *lab_calloc(size_t count, size_t size);
void *lab_realloc(void *memory, size_t bytes);
void *lab_mem_alloc(size_t count, size_t size);
void *lab_mem_calloc(size_t count, size_t size);

void lab_free(void *memory)
{
    lab_count.live -= malloc_usable_size(memory);
    free(memory);
}

void *lab_malloc(size_t bytes)
{
    return counted(malloc(bytes));
}

void *lab_calloc(size_t count, size_t size)
{
    return counted(calloc(count, size));
}

void *lab_realloc(void *memory, size_t bytes)
{
    lab_count.live -= malloc_usable_size(memory);
    return counted(realloc(memory, bytes));
}

void *lab_mem_alloc(size_t count, size_t size)
{
    return counted(mem_alloc(count, size));
}

void *lab_mem_calloc(size_t count, size_t size)
{
    return counted(mem_calloc(count, size));
}

/* ---- the processes ---- */

static void init_page(int world_size)
{
    page = lab_shared(sizeof *page);
    page->world_size = world_size;
    strcpy(page->if_stuck, "deadlock");
    pthread_mutexattr_t lock;
    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&page->lock, &lock);
    pthread_condattr_t changed;
    pthread_condattr_init(&changed);
    pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&page->changed, &changed);
    for (int i = 0; i < world_size; i++)
        buffer[i] = lab_shared(BUFFER_BYTES);
}

int lab_run(int world_size, void (*body)(ProcessGroup *pg, void *context), void *context)
{
    init_page(world_size);
    pid_t pids[LAB_RANKS];
    fflush(NULL);
    for (me = 0; me < world_size; me++) {
        pids[me] = fork();
        SYS_CHECK(pids[me]);
        if (pids[me] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS + 1 });
            ProcessGroup pg = { .rank = me, .world_size = world_size, .mean_ranks = world_size };
            body(&pg, context);
            lab_done();
            _exit(EXIT_SUCCESS);
        }
    }

    int first = -1, crashed = -1; // ranks
    for (int left = world_size, status; left > 0; left--) {
        const pid_t pid = wait(&status);
        int rank = 0;
        while (pids[rank] != pid)
            rank++;
        const bool signalled = WIFSIGNALED(status);
        int code = signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (code == 0 && !page->rank[rank].returned)
            code = EARLY;
        if (code == FAULTY && (first < 0 || rank < first))
            first = rank;
        if (code != 0 && code != FAULTY && code != STUCK && crashed < 0) {
            crashed = rank; // a sanitizer, die or a signal: the reason is on standard error
            fprintf(stderr,
                    code == EARLY ? "rank %d of %d ended by itself, with status 0\n"
                                  : "rank %d of %d ended with status %d\n",
                    rank, world_size, code);
        }
        pthread_mutex_lock(&page->lock);
        page->rank[rank].state = ENDED;
        look();
        pthread_mutex_unlock(&page->lock);
    }
    if (crashed >= 0)
        printf("crash: %s\n", page->rank[crashed].stage);
    else if (first >= 0)
        printf("%s (rank %d of %d)\n", page->rank[first].fault, first, world_size);
    else if (page->stuck)
        printf("%s: no rank can go on%s: %s\n", page->if_stuck, page->tried, page->waits);
    else
        return EXIT_SUCCESS;
    return EXIT_FAILURE;
}
