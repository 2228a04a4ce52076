/*
 * Kernels: the blocks of a grid one after the other, the threads of a block from barrier to
 * barrier. An instruction that a whole warp executes together (ptx.c) is a barrier for the warp.
 *
 * A thread that reaches a barrier must stop in the middle of a function, so threads run on their
 * own stacks (fibers). A fiber whose thread has ended runs the next one, so only as many are needed
 * as threads wait at once: one without barriers. Fibers are entered by makecontext once and
 * switched by _setjmp and _longjmp, which unlike swapcontext cost no system call.
 */
#undef _FORTIFY_SOURCE // its longjmp reports another stack as an error

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "include/kernel_launch.h"
#include "stand_in.h"

enum { MAX_THREADS = 1024, WARP = 32, STACK_BYTES = 1 << 17, PAGE = 4096, NONSENSE = 0xff };
enum { AHEAD = 32 }; // average number of instructions that a warp executes in a row
enum { PAUSE_MICROSECONDS = 50, MOST_SECONDS = 60 }; // pauses for other processes

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

typedef struct {
    StandInLaunch launch;
    _Alignas(64) char arguments[];
} Queued;

typedef struct {
    ucontext_t entry;
    jmp_buf context;
    bool entered;
    const char *file; // file of its thread's barrier (NULL if the fiber is free)
    int line;
    StandInPtx instruction; // waits for the block if text is NULL, else for its warp
    uint3 index; // its thread's index
} Fiber;

static Fiber fibers[MAX_THREADS];
static Fiber *current;
static ucontext_t fiber_end; // never reached
static jmp_buf scheduler;

/* The running block. */
static const StandInLaunch *launch;
static void *arguments;
static int order[MAX_THREADS]; // the order of its threads
static int num_threads, next_thread, num_ended;
static bool used_barriers;
static time_t began;

static void shuffle_threads(void)
{
    for (int i = num_threads - 1; i > 0; i--) {
        const int j = (int)stand_in_random(i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static uint3 thread_index(int thread)
{
    const int x = blockDim.x, y = blockDim.y;
    return (uint3){ thread % x, thread / x % y, thread / x / y };
}

static int thread_number(uint3 index)
{
    return (int)(index.x + blockDim.x * (index.y + blockDim.y * index.z));
}

/* Runs threads that have not begun, then waits until the fiber is needed again. */
static void fiber_main(void)
{
    for (;;) {
        while (next_thread < num_threads) {
            threadIdx = thread_index(order[next_thread++]);
            launch->thread(arguments);
            num_ended++;
        }
        if (_setjmp(current->context) == 0)
            _longjmp(scheduler, 1);
    }
}

static void resume(Fiber *fiber)
{
    current = fiber;
    if (_setjmp(scheduler) != 0)
        return;
    if (fiber->entered)
        _longjmp(fiber->context, 1);
    fiber->entered = true;
    char *stack = mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, PAGE, PROT_NONE) != 0)
        stand_in_fail("no memory for the stacks of a block's threads");
    getcontext(&fiber->entry);
    fiber->entry.uc_stack = (stack_t){ .ss_sp = stack + PAGE, .ss_size = STACK_BYTES };
    fiber->entry.uc_link = &fiber_end;
    makecontext(&fiber->entry, fiber_main, 0);
    setcontext(&fiber->entry);
}

static void wait_at(const char *file, int line, const StandInPtx *instruction)
{
    Fiber *fiber = current;
    fiber->instruction = *instruction;
    fiber->file = file;
    fiber->line = line;
    fiber->index = threadIdx;
    used_barriers = true;
    if (_setjmp(fiber->context) == 0)
        _longjmp(scheduler, 1);
    fiber = current;
    fiber->file = NULL;
    threadIdx = fiber->index;
}

void stand_in_barrier(const char *file, int line)
{
    wait_at(file, line, &(StandInPtx){ 0 });
}

void stand_in_ptx(const char *file, int line, const StandInPtx *instruction)
{
    wait_at(file, line, instruction);
}

void stand_in_pause(void)
{
    const char *most = getenv("CUDA_STAND_IN_PAUSE_SECONDS");
    if (time(NULL) - began > (most != NULL ? atoi(most) : MOST_SECONDS))
        stand_in_fail("%s: thread (%u, %u, %u) of block %u waits for memory that nobody writes",
                      launch->name, threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x);
    usleep(PAUSE_MICROSECONDS);
}

static bool same_place(const Fiber *a, const Fiber *b)
{
    return a->line == b->line && strcmp(a->file, b->file) == 0;
}

/* Executes the instruction at which all lanes of a warp wait, and resumes them. Returns false if
 * some are elsewhere. */
static bool run_warp(Fiber *lanes[WARP])
{
    StandInPtx instructions[WARP];
    for (int lane = 0; lane < WARP; lane++) {
        const Fiber *fiber = lanes[lane];
        if (fiber == NULL || fiber->instruction.text == NULL || !same_place(fiber, lanes[0]))
            return false;
        instructions[lane] = fiber->instruction;
    }
    stand_in_execute(launch, instructions);
    for (int i = 0, first = (int)stand_in_random(WARP); i < WARP; i++)
        resume(lanes[(first + i) % WARP]);
    return true;
}

/* Returns true if a thread waits for its warp, with the fibers of all such threads in `thread`. */
static bool find_waiting(int num_fibers, Fiber *thread[MAX_THREADS])
{
    bool found = false;
    memset(thread, 0, (num_threads + WARP - 1) / WARP * WARP * sizeof *thread);
    for (Fiber *fiber = fibers; fiber < fibers + num_fibers; fiber++)
        if (fiber->file != NULL) {
            thread[thread_number(fiber->index)] = fiber;
            found = found || fiber->instruction.text != NULL;
        }
    return found;
}

/* Runs all warps until each waits for the block or has ended. One runs ahead of the others by a
 * random number of instructions. */
static void run_warps(int num_fibers)
{
    Fiber *thread[MAX_THREADS];
    const int num_warps = (num_threads + WARP - 1) / WARP;
    int first = 0;
    bool moved = true;
    while (moved && find_waiting(num_fibers, thread)) {
        if (stand_in_random(AHEAD) == 0)
            first = (int)stand_in_random(num_warps);
        moved = false;
        for (int i = 0; i < num_warps && !moved; i++)
            moved = run_warp(thread + (first + i) % num_warps * WARP);
    }
}

/* Dies unless all threads of the block wait at the same barrier, when no thread can continue. */
static void check_barrier(int num_fibers)
{
    const Fiber *first = NULL;
    for (const Fiber *fiber = fibers; fiber < fibers + num_fibers; fiber++) {
        if (first == NULL && fiber->file != NULL)
            first = fiber;
        if (fiber->file != NULL && !same_place(fiber, first))
            stand_in_fail(
                "%s: of a block, thread (%u, %u, %u) waits at %s:%d, (%u, %u, %u) at %s:%d",
                launch->name, first->index.x, first->index.y, first->index.z, first->file,
                first->line, fiber->index.x, fiber->index.y, fiber->index.z, fiber->file,
                fiber->line);
    }
    if (first != NULL && num_ended > 0)
        stand_in_fail("%s: of a block, thread (%u, %u, %u) waits at %s:%d, %d others have ended",
                      launch->name, first->index.x, first->index.y, first->index.z, first->file,
                      first->line, num_ended);
    if (first != NULL && first->instruction.text != NULL)
        stand_in_fail("%s: %d threads wait at %s:%d for a whole warp of %d", launch->name,
                      num_threads, first->file, first->line, WARP);
}

static void run_block(void)
{
    if (used_barriers && launch->shared_begin != NULL)
        memset(launch->shared_begin, NONSENSE, launch->shared_end - launch->shared_begin);
    used_barriers = false;
    next_thread = num_ended = 0;
    stand_in_copies_begin(launch);
    shuffle_threads();
    int waiting = 0; // fibers[0] to fibers[waiting - 1]
    while (next_thread < num_threads) {
        resume(&fibers[waiting]);
        waiting += fibers[waiting].file != NULL;
    }
    run_warps(waiting);
    check_barrier(waiting);
    while (waiting > 0 && num_ended == 0) {
        stand_in_drift();
        shuffle_threads();
        for (int i = 0; i < num_threads; i++)
            resume(&fibers[order[i]]);
        run_warps(waiting);
        check_barrier(waiting);
    }
}

/* Returns true if the blocks run backwards; equal in all processes for a kernel's n-th launch, as
 * blocks that wait for each other would be on their GPUs at the same time. */
static bool is_backwards(const char *name)
{
    static unsigned launches[256];
    unsigned hash = 0;
    for (; *name != '\0'; name++)
        hash = 31 * hash + (unsigned char)*name;
    const unsigned n = ++launches[hash % 256] + hash;
    return (n * 0x9E3779B9u) >> 31;
}

static void run_grid(void *memory)
{
    Queued *queued = memory;
    stand_in_count.launches++;
    launch = &queued->launch;
    arguments = queued->arguments;
    gridDim = launch->grid;
    blockDim = launch->block;
    num_threads = (int)(blockDim.x * blockDim.y * blockDim.z);
    used_barriers = true;
    for (int i = 0; i < num_threads; i++)
        order[i] = i;
    const unsigned num_blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool backwards = is_backwards(launch->name);
    began = time(NULL);
    for (unsigned i = 0; i < num_blocks; i++) {
        const unsigned block = backwards ? num_blocks - 1 - i : i;
        blockIdx = (uint3){ block % gridDim.x, block / gridDim.x % gridDim.y,
                            block / gridDim.x / gridDim.y };
        run_block();
    }
}

void stand_in_launch(const StandInLaunch *started, const void *given, size_t bytes,
                     cudaStream_t stream)
{
    LOCKED;
    const dim3 grid = started->grid, block = started->block;
    if (stand_in_open() != cudaSuccess)
        stand_in_fail("%s is launched where there is no GPU, or after a fork", started->name);
    if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
        (uint64_t)block.x * block.y * block.z - 1 >= MAX_THREADS)
        stand_in_fail("%s: a block of %u x %u x %u threads", started->name, block.x, block.y,
                      block.z);
    if (grid.x - 1 >= INT32_MAX || grid.y - 1 >= 65535 || grid.z - 1 >= 65535)
        stand_in_fail("%s: a grid of %u x %u x %u blocks", started->name, grid.x, grid.y, grid.z);
    if (stand_in_stream_device(stream) != stand_in_device())
        stand_in_fail("%s: device %d is current, the stream is of device %d", started->name,
                      stand_in_device(), stand_in_stream_device(stream));
    const char *load = getenv("CUDA_STAND_IN_LOAD");
    if (load != NULL) {
        stand_in_error((cudaError_t)atoi(load));
        return;
    }
    Queued *queued = aligned_alloc(64, (sizeof *queued + bytes + 63) / 64 * 64);
    queued->launch = *started;
    memcpy(queued->arguments, given, bytes);
    stand_in_push(stream, &(Work){ .name = started->name,
                                   .run = run_grid,
                                   .arguments = queued,
                                   .bytes = sizeof *queued + bytes });
    free(queued);
}

void stand_in_check_pointer(const char *kernel, int argument, const void *pointer,
                            cudaStream_t stream)
{
    LOCKED;
    const MemoryRange range = stand_in_memory(pointer);
    if (pointer == NULL || range.kind == MEMORY_PINNED)
        return;
    if (range.kind != MEMORY_DEVICE)
        stand_in_fail("%s: argument %d points to no device memory", kernel, argument);
    if (range.device != stand_in_stream_device(stream) &&
        range.opened_by != stand_in_stream_device(stream))
        stand_in_fail("%s on device %d: argument %d points to memory of device %d", kernel,
                      stand_in_stream_device(stream), argument, range.device);
}
