/*
 * nccl_wire.h - the transport of the stand-in of NCCL, by memory that processes share.
 *
 * A wire belongs to one thread of each rank. If a rank is missing, the others wait, like NCCL's
 * kernels.
 */
#ifndef TESTS_NCCL_WIRE_H
#define TESTS_NCCL_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "include/nccl.h"

enum { WIRE_MAX_RANKS = 8 };

typedef struct {
    int rank, num_ranks;
    struct WireMemory *memory;
    atomic_bool aborted; // nothing is waited for any more
} Wire;

typedef enum {
    WIRE_ALL_REDUCE,
    WIRE_BROADCAST,
    WIRE_REDUCE,
    WIRE_ALL_GATHER,
    WIRE_REDUCE_SCATTER,
    WIRE_SEND,
    WIRE_RECV,
} WireKind;

/* A rank's call, with input and output in host memory. */
typedef struct {
    WireKind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; // root or peer
    size_t count;
    const char *in;
    char *out;
    size_t moved; // bytes of a message moved so far
    size_t window; // arrays' position in a symmetric window, equal on all ranks
} WireCall;

size_t wire_element_bytes(ncclDataType_t type); // 0 if unknown

/* Opens a wire; waits for all ranks with the same name. */
void wire_open(Wire *wire, const char *name, int rank, int num_ranks);
void wire_close(Wire *wire);

/* Carries out one collective, or several messages at once. */
void wire_carry_out(Wire *wire, WireCall *calls, int num_calls);

#endif
