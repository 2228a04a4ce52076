#include "teach/lab/served.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

#define UNSERVED 5 // exit status: the judge has gone, or breaks the protocol

bool lab_is_served;
static int wire = -1;

static void put_all(const void *data, size_t bytes)
{
    for (const char *from = data; bytes > 0;) {
        const ssize_t count = send(wire, from, bytes, MSG_NOSIGNAL);
        if (count <= 0)
            _exit(UNSERVED);
        from += count, bytes -= (size_t)count;
    }
}

static void take_all(void *data, size_t bytes)
{
    for (char *to = data; bytes > 0;) {
        const ssize_t count = read(wire, to, bytes);
        if (count <= 0)
            _exit(UNSERVED);
        to += count, bytes -= (size_t)count;
    }
}

void lab_send(Kind kind, const int32_t word[7], const void *data, size_t bytes)
{
    Order order = { .kind = (int32_t)kind, .bytes = bytes };
    for (int i = 0; word != NULL && i < 7; i++)
        order.word[i] = word[i];
    put_all(&order, sizeof order);
    put_all(data, bytes);
}

void lab_receive(Kind kind, void *data, size_t bytes)
{
    Order order;
    take_all(&order, sizeof order);
    if (order.kind != (int32_t)kind || order.bytes != bytes)
        _exit(UNSERVED);
    take_all(data, bytes);
}

void served_send(const void *data, size_t count, DType type, int to)
{
    lab_send(SENDING, (int32_t[7]){ to, (int32_t)count, (int32_t)type }, data,
             count * dtype_size(type));
    lab_receive(GO, NULL, 0);
}

void served_recv(void *data, size_t count, DType type, int from)
{
    lab_send(RECEIVING, (int32_t[7]){ from, (int32_t)count, (int32_t)type }, NULL, 0);
    lab_receive(ARRIVED, data, count * dtype_size(type));
}

_Noreturn void lab_serve(char **argv,
                         void (*answer)(ProcessGroup *pg, const Order *order, void *data))
{
    const int ranks = atoi(argv[3]);
    ProcessGroup pg = { .rank = atoi(argv[2]), .world_size = ranks, .mean_ranks = ranks };
    wire = atoi(argv[4]);
    lab_is_served = true;
    for (;;) {
        Order order;
        take_all(&order, sizeof order);
        void *data = malloc(order.bytes > 0 ? order.bytes : 1);
        CHECK(data != NULL, "no memory for %zu bytes", (size_t)order.bytes);
        take_all(data, order.bytes);
        answer(&pg, &order, data);
        free(data);
    }
}
