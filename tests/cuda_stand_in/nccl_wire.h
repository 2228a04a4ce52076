/*
 * nccl_wire.h - how the stand-in of NCCL moves numbers: by memory that processes share.
 *
 * A wire belongs to one thread of each rank. Where a rank is missing the others wait, as NCCL's
 * kernels do.
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

/* What a rank hands in and gets back, in host memory. */
typedef struct {
    WireKind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; // or peer
    size_t count;
    const char *in;
    char *out;
    size_t moved; // bytes of a message, so far
    size_t window; // where its arrays are in a symmetric window, which all ranks must agree on
} WireCall;

size_t wire_element_bytes(ncclDataType_t type); // 0: unknown

/* Waits for all ranks that give the same name. */
void wire_open(Wire *wire, const char *name, int rank, int num_ranks);
void wire_close(Wire *wire);

/* Carries out one collective, or several messages at once. */
void wire_carry_out(Wire *wire, WireCall *calls, int num_calls);

#endif
