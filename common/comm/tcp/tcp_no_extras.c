/* Stands in for the extras of the tcp backend: all data goes through sockets, and all ranks are
 * connected from the start. */
#include "common/comm/tcp/tcp_mesh.h"

struct Pipe *pipe_open(const Mesh *mesh, int peer, int data, double deadline)
{
    (void)mesh, (void)peer, (void)data, (void)deadline;
    return NULL;
}

void pipe_close(struct Pipe *pipe)
{
    (void)pipe;
}

ssize_t pipe_send(struct Pipe *pipe, const struct iovec part[2])
{
    (void)pipe, (void)part;
    return -1;
}

ssize_t pipe_receive(struct Pipe *pipe, struct iovec part[2])
{
    (void)pipe, (void)part;
    return -1;
}

void pipe_release(struct Pipe *pipe)
{
    (void)pipe;
}

bool pipes_sleep(Mesh *mesh, const int peer[2], struct pollfd data[2])
{
    (void)mesh, (void)peer, (void)data;
    return true;
}

int pipes_wake(Mesh *mesh, const int peer[2])
{
    (void)mesh, (void)peer;
    return NOBODY;
}

void pipes_schedule(const Mesh *mesh, bool computes)
{
    (void)mesh, (void)computes;
}

bool on_demand_form(Mesh *mesh, const ProcessGroup *pg)
{
    (void)mesh, (void)pg;
    return false;
}

void on_demand_close(Mesh *mesh)
{
    (void)mesh;
}

void on_demand_connect(Mesh *mesh, int peer)
{
    (void)mesh, (void)peer;
}

void on_demand_arrive(Mesh *mesh)
{
    (void)mesh;
}

void on_demand_receive(Mesh *mesh, const Notice *notice)
{
    (void)mesh, (void)notice;
}

bool on_demand_query(Mesh *mesh, int waits_for)
{
    (void)mesh, (void)waits_for;
    return false;
}

double network_arrival(Mesh *mesh, int from, size_t bytes)
{
    (void)mesh, (void)from, (void)bytes;
    return 0;
}

bool interface_choose(char *host, size_t bytes)
{
    (void)host, (void)bytes;
    return false;
}

const char *interface_advice(void)
{
    return "";
}
