/* simulation_state.h - shared by simulator.c and sockets.c. */
#ifndef SIMULATION_STATE_H
#define SIMULATION_STATE_H

#include <setjmp.h>
#include <ucontext.h>

#include "tests/simulation/simulator.h"

#define MAX_TASKS 16
#define MAX_SOCKETS 64
#define MAX_WATCHED 32
#define MAX_PIECES 64 // pieces in flight in one direction
#define BUFFER 1024
#define STACK (256 << 10)
#define STEP 20e-6 // maximum seconds for a call

typedef struct {
    jmp_buf here; // where the task continues
    void *(*run)(void *);
    void *argument;
    int process, joined; // joined: the task that it waits for (-1 if none)
    bool has_begun, is_main, is_done, is_waiting, is_free; // is_free: it was joined
    double wake; // when it stops waiting
    double next_look; // nothing it polls is ready before, unless sim.stale is set ...
    int num_drawn; // ... random numbers that a look draws, for the order of epolls
    const struct pollfd *polled;
    size_t count;
} Task;

typedef struct {
    double at; // when it arrives
    size_t end; // end offset of its bytes in the stream
} Piece;

typedef struct {
    bool is_used, is_bound, listens, is_new; // is_new: not accepted yet
    int kind, process, port, peer; // peer: index of the other end (-1 if none)
    double open_at, end_at, reset_at; // times of connection, of the peer's close and of its reset
    int error; // error of connect
    int num_pieces, num_watched;
    unsigned tasks; // bit set of tasks that have polled and wait for a change
    size_t written, arrived, read, room; // byte counts of the stream to this end
    Piece pieces[MAX_PIECES];
    struct epoll_event watch[MAX_WATCHED];
    int watched[MAX_WATCHED];
    unsigned char data[BUFFER];
} Socket;

typedef struct {
    Task task[MAX_TASKS];
    int num_tasks, current; // current: -1 in the scheduler
    int num_ports; // number of free ports
    Socket socket[MAX_SOCKETS];
    int num_sockets, num_new; // ever used; connections not accepted yet
    unsigned stale; // bit set of tasks that wait for a socket changed since they polled
    const char *stuck; // description of the run's failure
    double end; // when the run must have ended
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

static inline double earlier(double a, double b) // like fmin, but inline
{
    return a < b ? a : b;
}

static inline double until(double at, double limit) // the earlier of both, if `at` is in the future
{
    return at > sim.now ? earlier(at, limit) : limit;
}

static inline bool chance(double probability)
{
    return (double)(draw() % (1 << 30)) < probability * (1 << 30);
}

/* In simulator.c. */
void sim_note(const char *call, int64_t a, int64_t b);
void sim_step(void); // at each call another task may run, and this one may be paused
void sim_wait(double wake, const struct pollfd *polled, size_t count, int joined);
double sim_delay(void); // a message's random delay

/* In sockets.c. */
int sim_ready(int fd); // the events that poll would return
double sim_watch(int fd, unsigned tasks); // until when it is not ready, if no call changes it

/* Marks tasks that wait for the socket to poll again, because it may have become ready. */
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
