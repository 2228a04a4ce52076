/* Tasks are coroutines, so a run has one order of events, which random numbers from the seed choose. Connections are
 * streams of bytes: messages are late, never lost or overtaken, as with TCP; but a connection may end at any time. */
#include "tests/simulation/simulator.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

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
    bool is_main, is_done, is_waiting;
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

static struct {
    Task task[MAX_TASKS];
    int num_tasks, current; // -1: the scheduler
    Socket socket[MAX_SOCKETS];
    double now, kill_at[MAX_TASKS];
    bool is_dead[MAX_TASKS];
    uint64_t state, hash;
    SimFaults faults;
    ucontext_t scheduler;
} sim;
static char *stacks[MAX_TASKS]; // used again by the next run
bool sim_prints;

/* ---- chance ---- */

uint64_t sim_random(uint64_t below)
{
    uint64_t z = sim.state += 0x9e3779b97f4a7c15u; // splitmix64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

bool sim_chance(double probability)
{
    return (double)sim_random(1 << 30) < probability * (1 << 30);
}

static double delay(void)
{
    return SIM_MAX_DELAY * (double)(1 + sim_random(1000)) / 1000 * (sim_chance(0.7) ? 0.01 : 1);
}

static void note(const char *call, int64_t a, int64_t b)
{
    const uint64_t values[] = { (uint64_t)sim.current, (uint64_t)call[0], (uint64_t)a, (uint64_t)b, (uint64_t)(sim.now * 1e9) };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        sim.hash = (sim.hash ^ values[i]) * 0x100000001b3u;
    if (sim_prints)
        printf("%11.6f process %d task %d: %s %lld %lld\n", sim.now, sim.current < 0 ? -1 : sim.task[sim.current].process,
               sim.current, call, (long long)a, (long long)b);
}

double sim_now(void)
{
    return sim.now;
}

uint64_t sim_hash(void)
{
    return sim.hash;
}

/* ---- tasks ---- */

static void enter(void)
{
    Task *task = &sim.task[sim.current];
    task->run(task->argument);
    task->is_done = true;
    note("returns", 0, 0);
    setcontext(&sim.scheduler);
}

static void start_task(int number, int process, void *(*run)(void *), void *argument, bool is_main)
{
    Task *task = &sim.task[number];
    if (stacks[number] == NULL)
        stacks[number] = malloc(STACK);
    *task = (Task){ .stack = stacks[number], .run = run, .argument = argument, .process = process, .joined = -1, .is_main = is_main };
    getcontext(&task->context);
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = STACK;
    makecontext(&task->context, enter, 0);
}

int sim_start(int process, void *(*run)(void *), void *argument)
{
    if (sim.num_tasks == MAX_TASKS)
        abort();
    start_task(sim.num_tasks, process, run, argument, true);
    return sim.num_tasks++;
}

int sim_thread(void *(*run)(void *), void *argument)
{
    const int task = sim_start(sim.task[sim.current].process, run, argument);
    sim.task[task].is_main = false;
    return task;
}

/* The current task loses its turn. */
static void yield(void)
{
    Task *task = &sim.task[sim.current];
    const int error = errno;
    swapcontext(&task->context, &sim.scheduler);
    errno = error;
}

/* At each call another task may go on, and this one may be stopped for a while. */
static void step(void)
{
    if (sim.current < 0)
        return;
    sim.now += STEP * (double)(1 + sim_random(100)) / 100;
    if (sim_chance(sim.faults.pause))
        sim_sleep(0.1 + (double)sim_random(8000) / 1000);
    else if (sim_chance(0.5))
        yield();
}

static void wait_until(double wake, const struct pollfd *polled, size_t count, int joined)
{
    Task *task = &sim.task[sim.current];
    task->is_waiting = true, task->wake = wake, task->polled = polled, task->count = count, task->joined = joined;
    yield();
    task->is_waiting = false, task->joined = -1;
}

void sim_sleep(double seconds)
{
    wait_until(sim.now + seconds, NULL, 0, -1);
}

void sim_join(int task)
{
    while (!sim.task[task].is_done)
        wait_until(INFINITY, NULL, 0, task);
}

bool sim_is_dead(int process)
{
    return sim.is_dead[process];
}

bool sim_has_ended(int process)
{
    for (int i = 0; i < sim.num_tasks; i++)
        if (sim.task[i].process == process && sim.task[i].is_main && !sim.task[i].is_done)
            return false;
    return true;
}

static void kill_process(int process)
{
    note("dies", process, 0);
    sim.is_dead[process] = true;
    for (int i = 0; i < sim.num_tasks; i++)
        if (sim.task[i].process == process)
            sim.task[i].is_done = true;
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (sim.socket[i].is_used && sim.socket[i].process == process)
            sim_close(i + SIM_FIRST_FD);
}

_Noreturn void sim_exit(void)
{
    const int process = sim.task[sim.current].process;
    kill_process(process);
    sim.is_dead[process] = false; // it ended by itself
    setcontext(&sim.scheduler);
    abort();
}

void sim_kill_at(double seconds, int process)
{
    sim.kill_at[process] = seconds;
}

/* ---- the network ---- */

static Socket *at(int fd)
{
    const int i = fd - SIM_FIRST_FD;
    return i >= 0 && i < MAX_SOCKETS && sim.socket[i].is_used ? &sim.socket[i] : NULL;
}

static int fail(int reason)
{
    errno = reason;
    return -1;
}

static int new_socket(int kind, int process)
{
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (!sim.socket[i].is_used) {
            Socket *s = &sim.socket[i];
            memset(s, 0, offsetof(Socket, data));
            s->written = s->arrived = s->read = 0, s->num_pieces = s->num_watched = 0;
            s->is_used = true, s->kind = kind, s->process = process, s->peer = -1;
            s->open_at = s->end_at = s->reset_at = INFINITY;
            s->room = 16 + sim_random(BUFFER - 16);
            return i;
        }
    return fail(EMFILE);
}

int sim_socket(int kind)
{
    const int i = new_socket(kind, sim.task[sim.current].process);
    return i < 0 ? -1 : i + SIM_FIRST_FD;
}

static bool port_is_used(int port)
{
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (sim.socket[i].is_used && sim.socket[i].is_bound && sim.socket[i].port == port)
            return true;
    return false;
}

int sim_bind(int fd, int port)
{
    while (port == 0 || (port >= 50000 && port_is_used(port)))
        port = 50000 + (int)sim_random(10000);
    if (port_is_used(port))
        return fail(EADDRINUSE);
    at(fd)->port = port, at(fd)->is_bound = true;
    return 0;
}

int sim_port(int fd, bool peer)
{
    return peer ? (at(fd)->peer < 0 ? 0 : sim.socket[at(fd)->peer].port) : at(fd)->port;
}

int sim_listen(int fd)
{
    at(fd)->listens = true;
    note("listen", fd, at(fd)->port);
    return 0;
}

int sim_connect(int fd, int port)
{
    step();
    Socket *s = at(fd);
    s->port = 30000 + (int)sim_random(10000);
    s->open_at = sim.now + 2 * delay();
    s->error = ECONNREFUSED;
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (sim.socket[i].is_used && sim.socket[i].listens && sim.socket[i].port == port) {
            const int there = new_socket(SIM_STREAM, sim.socket[i].process);
            if (there < 0 || sim_chance(sim.faults.stall)) { // no answer
                s->open_at = INFINITY;
                if (there >= 0)
                    sim.socket[there].is_used = false;
                break;
            }
            Socket *other = &sim.socket[there];
            other->is_new = true, other->port = port, other->peer = fd - SIM_FIRST_FD;
            other->open_at = s->open_at - delay() * 0.5 < sim.now ? sim.now : sim.now + (s->open_at - sim.now) / 2;
            s->peer = there, s->error = 0;
        }
    note("connect", fd, port);
    return fail(EINPROGRESS);
}

static int pending(const Socket *listener)
{
    int first = -1;
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (sim.socket[i].is_used && sim.socket[i].is_new && sim.socket[i].port == listener->port &&
            sim.socket[i].open_at <= sim.now && (first < 0 || sim.socket[i].open_at < sim.socket[first].open_at))
            first = i;
    return first;
}

int sim_accept(int fd)
{
    step();
    const int i = pending(at(fd));
    note("accept", fd, i);
    if (i < 0)
        return fail(EAGAIN);
    sim.socket[i].is_new = false;
    return i + SIM_FIRST_FD;
}

int sim_error(int fd)
{
    return at(fd)->error;
}

static void arrive(Socket *s)
{
    int done = 0;
    for (; done < s->num_pieces && s->pieces[done].at <= sim.now; done++)
        s->arrived = s->pieces[done].end;
    memmove(s->pieces, s->pieces + done, (size_t)(s->num_pieces - done) * sizeof *s->pieces);
    s->num_pieces -= done;
}

static size_t room(const Socket *s)
{
    return s->num_pieces == MAX_PIECES ? 0 : s->room - (s->written - s->read);
}

ssize_t sim_send(int fd, const void *data, size_t bytes)
{
    step();
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    if (s->kind == SIM_EVENT)
        return (ssize_t)(s->arrived = s->written = s->read + 1, 1);
    if (s->reset_at <= sim.now)
        return fail(ECONNRESET);
    if (s->peer < 0) { // it has closed, and will say so
        s->reset_at = fmin(s->reset_at, sim.now + delay());
        return (ssize_t)bytes;
    }
    Socket *to = &sim.socket[s->peer];
    size_t count = bytes < room(to) ? bytes : room(to);
    if (count == 0)
        return fail(EAGAIN);
    if (sim_chance(0.25))
        count = 1 + sim_random(count);
    for (size_t i = 0; i < count; i++)
        to->data[(to->written + i) % BUFFER] = ((const unsigned char *)data)[i];
    to->written += count;
    double when = sim.now + delay() + (sim_chance(sim.faults.stall) ? 1 + (double)sim_random(40) : 0);
    if (to->num_pieces > 0)
        when = fmax(when, to->pieces[to->num_pieces - 1].at);
    to->pieces[to->num_pieces++] = (Piece){ when, to->written };
    if (sim_chance(sim.faults.reset))
        s->reset_at = sim.now + delay(), to->reset_at = sim.now + delay();
    note("send", fd, (int64_t)count);
    return (ssize_t)count;
}

ssize_t sim_recv(int fd, void *data, size_t bytes, bool peek)
{
    step();
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    arrive(s);
    if (s->reset_at <= sim.now)
        return fail(ECONNRESET);
    size_t count = s->arrived - s->read < bytes ? s->arrived - s->read : bytes;
    if (count == 0)
        return s->end_at <= sim.now && s->read == s->written ? 0 : fail(EAGAIN);
    if (sim_chance(0.25))
        count = 1 + sim_random(count);
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)data)[i] = s->data[(s->read + i) % BUFFER];
    s->read += peek ? 0 : count;
    note("recv", fd, (int64_t)count);
    return (ssize_t)count;
}

int sim_close(int fd)
{
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    note("close", fd, 0);
    s->is_used = false;
    if (s->peer >= 0) {
        Socket *other = &sim.socket[s->peer];
        const double last = other->num_pieces > 0 ? other->pieces[other->num_pieces - 1].at : 0;
        double *end = s->read < s->written || s->is_new ? &other->reset_at : &other->end_at;
        *end = fmin(*end, fmax(last, sim.now + delay()));
        other->peer = -1;
        if (other->is_new) // it was not accepted yet: it will be, and found closed
            other->end_at = fmin(other->end_at, fmax(last, sim.now + delay()));
    }
    for (int i = 0; i < MAX_SOCKETS; i++) {
        Socket *other = &sim.socket[i];
        for (int j = 0; other->is_used && j < other->num_watched; j++)
            if (other->watched[j] == fd)
                other->watch[j] = other->watch[--other->num_watched], other->watched[j] = other->watched[other->num_watched], j--;
        if (s->listens && other->is_used && other->is_new && other->port == s->port)
            sim_close(i + SIM_FIRST_FD);
    }
    return 0;
}

static int ready(int fd);

static int epoll_ready(const Socket *s, struct epoll_event *events, int most)
{
    int count = 0;
    const int first = s->num_watched > 0 ? (int)sim_random((uint64_t)s->num_watched) : 0;
    for (int i = 0; i < s->num_watched && count < most; i++) { // in any order
        const int j = (first + i) % s->num_watched;
        const uint32_t found = (uint32_t)ready(s->watched[j]) & (s->watch[j].events | EPOLLERR | EPOLLHUP);
        if (found != 0 && events != NULL)
            events[count] = (struct epoll_event){ found, s->watch[j].data };
        count += found != 0;
    }
    return count;
}

/* What poll would say of it; POLLIN and so on have the values of EPOLLIN and so on. */
static int ready(int fd)
{
    Socket *s = at(fd);
    if (s == NULL)
        return POLLNVAL;
    if (s->kind == SIM_EPOLL)
        return epoll_ready(s, NULL, 1) > 0 ? POLLIN : 0;
    if (s->listens)
        return pending(s) >= 0 ? POLLIN : 0;
    arrive(s);
    if (s->kind == SIM_EVENT)
        return s->arrived > s->read ? POLLIN : 0;
    if (s->open_at > sim.now)
        return 0;
    if (s->error != 0 || s->reset_at <= sim.now)
        return POLLIN | POLLOUT | POLLERR | POLLHUP;
    return (s->arrived > s->read || (s->end_at <= sim.now && s->read == s->written) ? POLLIN : 0) |
           (s->peer < 0 || room(&sim.socket[s->peer]) > 0 ? POLLOUT : 0);
}

static int look(struct pollfd *polled, size_t count)
{
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        polled[i].revents = (short)(ready(polled[i].fd) & (polled[i].events | POLLERR | POLLHUP | POLLNVAL));
        found += polled[i].revents != 0;
    }
    return found;
}

int sim_poll(struct pollfd *polled, size_t count, int milliseconds)
{
    step();
    const double end = milliseconds < 0 ? INFINITY : sim.now + milliseconds / 1e3;
    int found = look(polled, count);
    while (found == 0 && sim.now < end) {
        wait_until(end, polled, count, -1);
        found = look(polled, count);
    }
    note("poll", (int64_t)count, found);
    return found;
}

int sim_epoll_ctl(int fd, int operation, int watched, const struct epoll_event *event)
{
    Socket *s = at(fd);
    int i = 0;
    while (i < s->num_watched && s->watched[i] != watched)
        i++;
    if ((i == s->num_watched) != (operation == EPOLL_CTL_ADD))
        return fail(operation == EPOLL_CTL_ADD ? EEXIST : ENOENT);
    if (operation == EPOLL_CTL_DEL) {
        s->watch[i] = s->watch[--s->num_watched], s->watched[i] = s->watched[s->num_watched];
        return 0;
    }
    if (i == MAX_WATCHED)
        return fail(ENOSPC);
    s->num_watched += operation == EPOLL_CTL_ADD;
    s->watch[i] = *event, s->watched[i] = watched;
    return 0;
}

int sim_epoll_wait(int fd, struct epoll_event *events, int most, int milliseconds)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    return sim_poll(&polled, 1, milliseconds) > 0 ? epoll_ready(at(fd), events, most) : 0;
}

/* ---- the scheduler ---- */

static bool can_go_on(const Task *task)
{
    if (task->is_done || !task->is_waiting)
        return !task->is_done;
    bool found = task->wake <= sim.now || (task->joined >= 0 && sim.task[task->joined].is_done);
    for (size_t i = 0; i < task->count && !found; i++)
        found = (ready(task->polled[i].fd) & (task->polled[i].events | POLLERR | POLLHUP | POLLNVAL)) != 0;
    return found;
}

static double sooner(double a, double b)
{
    return b > sim.now && b < a ? b : a;
}

static double next_event(void)
{
    double next = INFINITY;
    for (int i = 0; i < sim.num_tasks; i++)
        if (!sim.task[i].is_done)
            next = sooner(next, sim.task[i].wake);
    for (int i = 0; i < MAX_SOCKETS; i++) {
        const Socket *s = &sim.socket[i];
        if (!s->is_used)
            continue;
        next = sooner(sooner(sooner(next, s->open_at), s->end_at), s->reset_at);
        for (int j = 0; j < s->num_pieces; j++)
            next = sooner(next, s->pieces[j].at);
    }
    for (int i = 0; i < MAX_TASKS; i++)
        next = sim.is_dead[i] ? next : sooner(next, sim.kill_at[i]);
    return next;
}

void sim_begin(uint64_t seed, SimFaults faults)
{
    sim.num_tasks = 0, sim.current = -1, sim.now = 1000, sim.state = seed * 0xd1342543de82ef95u + 1, sim.hash = 0xcbf29ce484222325u;
    sim.faults = faults;
    for (int i = 0; i < MAX_SOCKETS; i++)
        sim.socket[i].is_used = false;
    for (int i = 0; i < MAX_TASKS; i++)
        sim.is_dead[i] = false, sim.kill_at[i] = INFINITY;
}

/* Runs one of the tasks that can go on, until it loses its turn. False: none can. */
static bool run_one(void)
{
    int able[MAX_TASKS], count = 0;
    for (int i = 0; i < sim.num_tasks; i++)
        if (can_go_on(&sim.task[i]))
            able[count++] = i;
    if (count == 0)
        return false;
    sim.current = able[sim_random((uint64_t)count)];
    sim.task[sim.current].is_waiting = false;
    swapcontext(&sim.scheduler, &sim.task[sim.current].context);
    sim.current = -1;
    return true;
}

const char *sim_run(double limit)
{
    const double end = sim.now + limit;
    for (;;) {
        for (int i = 0; i < MAX_TASKS; i++)
            if (sim.kill_at[i] <= sim.now && !sim.is_dead[i] && !sim_has_ended(i))
                kill_process(i);
        bool all_done = true;
        for (int i = 0; i < sim.num_tasks; i++)
            all_done &= sim.task[i].is_done;
        if (all_done)
            return NULL;
        if (!run_one())
            sim.now = next_event();
        if (sim.now == INFINITY)
            return "nobody can go on";
        if (sim.now > end)
            return "it does not end";
    }
}

void sim_end(void)
{
    note("end", 0, 0);
}
