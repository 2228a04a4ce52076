/* simulation_state.h - what simulator.c and sockets.c share. */
#ifndef SIMULATION_STATE_H
#define SIMULATION_STATE_H

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
    ucontext_t context;
    char *stack;
    void *(*run)(void *);
    void *argument;
    int process, joined; // joined: the task that it waits for, or -1
    bool is_main, is_done, is_waiting, is_free; // is_free: it was joined
    double wake; // at which it stops waiting
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
    unsigned char data[BUFFER];
    size_t written, arrived, read, room; // of the stream to this end
    Piece pieces[MAX_PIECES];
    int num_pieces;
    struct epoll_event watch[MAX_WATCHED];
    int watched[MAX_WATCHED], num_watched;
} Socket;

typedef struct {
    Task task[MAX_TASKS];
    int num_tasks, current; // -1: the scheduler
    int num_ports; // free ones
    Socket socket[MAX_SOCKETS];
    double now, kill_at[MAX_TASKS];
    bool is_dead[MAX_TASKS];
    uint64_t state, hash;
    SimFaults faults;
    ucontext_t scheduler;
} Simulation;

extern Simulation sim;

/* In simulator.c. */
void sim_note(const char *call, int64_t a, int64_t b);
void sim_step(void); // at each call another task may go on, and this one may be stopped for a while
void sim_wait(double wake, const struct pollfd *polled, size_t count, int joined);
double sim_delay(void); // of a message

int sim_ready(int fd); // in sockets.c: what poll would say of it

#endif
