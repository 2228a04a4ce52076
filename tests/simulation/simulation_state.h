/* simulation_state.h - what simulator.c and sockets.c share. */
#ifndef SIMULATION_STATE_H
#define SIMULATION_STATE_H

#include <setjmp.h>
#include <ucontext.h>

#include "tests/simulation/simulator.h"

#define MAX_TASKS 16
#define MAX_SOCKETS 64
#define MAX_WATCHED 32
#define MAX_PIECES 64 // on their way in one direction
#define BUFFER 1024
#define STACK (256 << 10)
#define STEP 20e-6 // seconds for a call, at most

typedef struct {
    jmp_buf here; // where it goes on
    void *(*run)(void *);
    void *argument;
    int process, joined; // joined: the task that it waits for, or -1
    bool has_begun, is_main, is_done, is_waiting, is_free; // is_free: it was joined
    double wake; // at which it stops waiting
    double next_look; // nothing that it polls is ready before, unless sim.stale says so ...
    int num_drawn; // ... and a look draws so many random numbers, for the order of epolls
    const struct pollfd *polled;
    size_t count;
} Task;

typedef struct {
    double at; // when it arrives
    size_t end; // of its bytes in the stream
} Piece;

typedef struct {
    bool is_used, is_bound, listens, is_new; // is_new: not accepted yet
    int kind, process, port, peer; // peer: index of the other end, or -1
    double open_at, end_at, reset_at; // connected; the other end closed, in order or not
    int error; // of connect
    int num_pieces, num_watched;
    unsigned tasks; // a bit for each that has looked, and waits for a change
    size_t written, arrived, read, room; // of the stream to this end
    Piece pieces[MAX_PIECES];
    struct epoll_event watch[MAX_WATCHED];
    int watched[MAX_WATCHED];
    unsigned char data[BUFFER];
} Socket;

typedef struct {
    Task task[MAX_TASKS];
    int num_tasks, current; // -1: the scheduler
    int num_ports; // free ones
    Socket socket[MAX_SOCKETS];
    int num_sockets, num_new; // those that were ever used; connections that nobody has accepted
    unsigned stale; // a bit for each task that waits for a socket that has changed since it looked
    const char *stuck; // what was wrong with the run
    double end; // at which it must have ended
    double now, kill_at[MAX_TASKS], next_kill;
    bool is_dead[MAX_TASKS];
    uint64_t state, hash;
    SimFaults faults;
    jmp_buf scheduler;
} Simulation;

extern Simulation sim;

static inline uint64_t draw(void)
{
    uint64_t z = sim.state += 0x9e3779b97f4a7c15u; // splitmix64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline double earlier(double a, double b) // as fmin, which is a call
{
    return a < b ? a : b;
}

static inline double until(double at, double limit) // the earlier of both, if `at` is to come
{
    return at > sim.now ? earlier(at, limit) : limit;
}

static inline bool chance(double probability)
{
    return (double)(draw() % (1 << 30)) < probability * (1 << 30);
}

/* In simulator.c. */
void sim_note(const char *call, int64_t a, int64_t b);
void sim_step(void); // at each call another task may go on, and this one may be stopped for a while
void sim_wait(double wake, const struct pollfd *polled, size_t count, int joined);
double sim_delay(void); // of a message

/* In sockets.c. */
int sim_ready(int fd); // what poll would say of it
double sim_watch(int fd, unsigned tasks); // it is not ready: until when, if no call changes it

/* Tasks that wait for the socket look again, now or later: it may have become ready. */
static inline void sim_touch(int socket)
{
    if (socket >= 0)
        sim.stale |= sim.socket[socket].tasks;
}

static inline void sim_touch_at(double when, const Socket *s)
{
    for (unsigned i = 0; s->tasks >> i != 0; i++)
        if (s->tasks >> i & 1)
            sim.task[i].next_look = earlier(sim.task[i].next_look, when);
}

#endif
