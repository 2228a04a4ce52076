/*
 * served.h - a rank that the judge serves: "try serve RANK RANKS DESCRIPTOR".
 *
 * The rank is a process of its own. From the descriptor it receives what to call, with numbers that
 * it alone gets, and it returns the result there. Its messages take the same way: the judge
 * (teach/lab/witness.py) forwards and counts them. So a rung is passed only by the results of all
 * ranks.
 */
#ifndef TEACH_LAB_SERVED_H
#define TEACH_LAB_SERVED_H

#include <stdint.h>

#include "common/comm/process_group.h"

typedef enum { CALLED, RESULT, SENDING, RECEIVING, ARRIVED, GO, STARTED, WAITING, MARKED } Kind;

/* Header of a message between the two; `bytes` of data follow. */
typedef struct {
    int32_t kind, word[7];
    uint64_t bytes;
} Order;

extern bool lab_is_served;

/* Calls answer for each order, with its data, until the judge ends it; it does not return.
 * The arguments are those of main. */
_Noreturn void lab_serve(char **argv,
                         void (*answer)(ProcessGroup *pg, const Order *order, void *data));

void lab_send(Kind kind, const int32_t word[7], const void *data, size_t bytes);

/* Waits for data of exactly `bytes` bytes; ends the process if something else arrives. */
void lab_receive(Kind kind, void *data, size_t bytes);

/* Replace pg_send and pg_recv on such a rank. */
void served_send(const void *data, size_t count, DType type, int to);
void served_recv(void *data, size_t count, DType type, int from);

#endif
