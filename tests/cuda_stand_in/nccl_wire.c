/*
 * Every rank has a tray in shared memory, into which it writes its numbers, piece by piece; when
 * all have done so, each reads what it needs from the others' trays. Messages go through a box for
 * each two ranks and direction.
 */
#include "nccl_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

enum { TRAY_BYTES = 1 << 16, BOX_BYTES = 1 << 14, SPINS = 100 };

typedef struct {
    atomic_size_t bytes; // 0 if empty
    char data[BOX_BYTES];
} Box;

/* The shared memory, zeroed by the system. */
typedef struct WireMemory {
    atomic_int attached;
    atomic_int arrived; // ranks that have reached the barrier
    atomic_uint barriers; // completed barriers
    size_t window[WIRE_MAX_RANKS]; // window positions of the ranks' current call
    _Alignas(64) char tray[WIRE_MAX_RANKS][TRAY_BYTES];
    Box box[WIRE_MAX_RANKS][WIRE_MAX_RANKS]; // from, to
} WireMemory;

size_t wire_element_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclUint8:
        return 1;
    case ncclBfloat16:
        return 2;
    case ncclFloat32:
    case ncclInt32:
        return 4;
    case ncclFloat64:
    case ncclInt64:
        return 8;
    }
    return 0;
}

static void rest(int *spins)
{
    const struct timespec nap = { .tv_nsec = *spins < SPINS ? 1000 : 100000 };
    ++*spins;
    nanosleep(&nap, NULL);
}

void wire_open(Wire *wire, const char *name, int rank, int num_ranks)
{
    if (num_ranks > WIRE_MAX_RANKS)
        stand_in_fail("NCCL has room for %d ranks", WIRE_MAX_RANKS);
    wire->rank = rank;
    wire->num_ranks = num_ranks;
    const int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(WireMemory)) < 0)
        stand_in_fail("shared memory %s: %s", name, strerror(errno));
    wire->memory = mmap(NULL, sizeof(WireMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (wire->memory == MAP_FAILED)
        stand_in_fail("shared memory %s: %s", name, strerror(errno));
    close(fd);
    if (atomic_fetch_add(&wire->memory->attached, 1) == num_ranks - 1)
        shm_unlink(name); // the name is no longer needed
    for (int spins = 0; atomic_load(&wire->memory->attached) < num_ranks && !wire->aborted;)
        rest(&spins);
    if (wire->aborted)
        shm_unlink(name);
}

void wire_close(Wire *wire)
{
    munmap(wire->memory, sizeof(WireMemory));
}

static void wire_barrier(Wire *wire)
{
    WireMemory *memory = wire->memory;
    const unsigned barriers = atomic_load(&memory->barriers);
    if (atomic_fetch_add(&memory->arrived, 1) == wire->num_ranks - 1) {
        atomic_store(&memory->arrived, 0);
        atomic_fetch_add(&memory->barriers, 1);
        return;
    }
    for (int spins = 0; atomic_load(&memory->barriers) == barriers && !wire->aborted;)
        rest(&spins);
}

static float from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define REDUCE(Element, Number, NUMBER, ELEMENT) \
    for (size_t i = 0; i < count; i++) { \
        Element *result = (Element *)to + i; \
        for (int rank = 0; rank < wire->num_ranks; rank++) { \
            const Element element = ((const Element *)wire->memory->tray[rank])[i]; \
            const Number value = NUMBER(element), so_far = rank > 0 ? NUMBER(*result) : value; \
            const Number larger = value > so_far ? value : so_far; \
            const Number smaller = value < so_far ? value : so_far; \
            *result = rank == 0             ? element \
                      : call->op == ncclMax ? ELEMENT(larger) \
                      : call->op == ncclMin ? ELEMENT(smaller) \
                                            : ELEMENT(so_far + value); \
        } \
        if (call->op == ncclAvg) \
            *result = ELEMENT(NUMBER(*result) / (Number)wire->num_ranks); \
    } \
    break

/* Reduces all trays, in rank order. Integers are added as unsigned. */
static void reduce_trays(const Wire *wire, const WireCall *call, void *to, size_t count)
{
    switch (call->type) {
    case ncclFloat32:
        REDUCE(float, float, , );
    case ncclFloat64:
        REDUCE(double, double, , );
    case ncclBfloat16:
        REDUCE(uint16_t, float, from_bf16, to_bf16);
    case ncclInt32:
        REDUCE(int32_t, int64_t, , (int32_t));
    case ncclInt64:
        REDUCE(int64_t, __int128, , (int64_t));
    case ncclUint8:
        REDUCE(uint8_t, uint8_t, , (uint8_t));
    }
}

/* Transfers a piece of one share, from byte `in` of the input to byte `out` of the output. */
static void carry_piece(Wire *wire, const WireCall *c, size_t in, size_t out, size_t bytes,
                        int only)
{
    char *to = (char *)c->out + out;
    const bool is_only = only < 0 || only == wire->rank;
    const bool puts_in = c->kind != WIRE_BROADCAST || c->root == wire->rank;
    if (puts_in)
        memcpy(wire->memory->tray[wire->rank], (const char *)c->in + in, bytes);
    wire->memory->window[wire->rank] = c->window;
    wire_barrier(wire);
    for (int rank = 0; rank < wire->num_ranks && !wire->aborted; rank++)
        if (wire->memory->window[rank] != c->window)
            stand_in_fail("NCCL: a collective at %zu of a symmetric window, and on rank %d at %zu",
                          c->window, rank, wire->memory->window[rank]);
    const size_t share = c->count * wire_element_bytes(c->type);
    if (c->kind == WIRE_ALL_GATHER)
        for (int rank = 0; rank < wire->num_ranks; rank++)
            memcpy(to + (size_t)rank * share, wire->memory->tray[rank], bytes);
    else if (c->kind == WIRE_BROADCAST)
        memcpy(to, wire->memory->tray[c->root], bytes);
    else if (is_only)
        reduce_trays(wire, c, to, bytes / wire_element_bytes(c->type));
    wire_barrier(wire);
}

static void carry_collective(Wire *wire, const WireCall *c)
{
    const size_t share = c->count * wire_element_bytes(c->type);
    const int rounds = c->kind == WIRE_REDUCE_SCATTER ? wire->num_ranks : 1;
    for (int round = 0; round < rounds; round++)
        for (size_t at = 0; at < share; at += TRAY_BYTES) {
            const size_t bytes = share - at < TRAY_BYTES ? share - at : TRAY_BYTES;
            const int only = c->kind == WIRE_REDUCE_SCATTER ? round
                             : c->kind == WIRE_REDUCE       ? c->root
                                                            : -1;
            carry_piece(wire, c, (size_t)round * share + at, at, bytes, only);
        }
}

/* Moves as much of a message as possible now. Returns true if it is complete. */
static bool carry_message(Wire *wire, WireCall *call)
{
    const size_t left = call->count * wire_element_bytes(call->type) - call->moved;
    const bool sends = call->kind == WIRE_SEND;
    Box *box = sends ? &wire->memory->box[wire->rank][call->root]
                     : &wire->memory->box[call->root][wire->rank];
    const size_t waiting = atomic_load(&box->bytes);
    if (left == 0 || sends != (waiting == 0))
        return left == 0;
    const size_t bytes = !sends ? waiting : left < BOX_BYTES ? left : BOX_BYTES;
    if (bytes > left)
        stand_in_fail("NCCL: a message is longer than expected");
    if (sends)
        memcpy(box->data, call->in + call->moved, bytes);
    else
        memcpy(call->out + call->moved, box->data, bytes);
    call->moved += bytes;
    atomic_store(&box->bytes, sends ? bytes : 0);
    return bytes == left;
}

void wire_carry_out(Wire *wire, WireCall *calls, int num_calls)
{
    if (calls[0].kind != WIRE_SEND && calls[0].kind != WIRE_RECV) {
        carry_collective(wire, &calls[0]);
        return;
    }
    int done = 0;
    for (int spins = 0; done < num_calls && !wire->aborted; rest(&spins)) {
        done = 0;
        for (int i = 0; i < num_calls; i++)
            done += carry_message(wire, &calls[i]);
    }
}
