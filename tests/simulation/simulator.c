/* Tasks are coroutines, so a run has one order of events, which random numbers from the seed choose. Connections are
 * streams of bytes: messages are late, never lost or overtaken, as with TCP; but a connection may end at any time. */
#include "tests/simulation/simulation_state.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Simulation sim;
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

double sim_delay(void)
{
    return SIM_MAX_DELAY * (double)(1 + sim_random(1000)) / 1000 * (sim_chance(0.7) ? 0.01 : 1);
}

void sim_note(const char *call, int64_t a, int64_t b)
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
    sim_note("returns", 0, 0);
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
    for (int i = 0; i < sim.num_tasks; i++)
        if (sim.task[i].is_free)
            return start_task(i, process, run, argument, true), i;
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
void sim_step(void)
{
    if (sim.current < 0)
        return;
    sim.now += STEP * (double)(1 + sim_random(100)) / 100;
    if (sim_chance(sim.faults.pause))
        sim_sleep(0.1 + (double)sim_random(8000) / 1000);
    else if (sim_chance(0.5))
        yield();
}

void sim_wait(double wake, const struct pollfd *polled, size_t count, int joined)
{
    Task *task = &sim.task[sim.current];
    task->is_waiting = true, task->wake = wake, task->polled = polled, task->count = count, task->joined = joined;
    yield();
    task->is_waiting = false, task->joined = -1;
}

void sim_sleep(double seconds)
{
    sim_wait(sim.now + seconds, NULL, 0, -1);
}

void sim_join(int task)
{
    while (!sim.task[task].is_done)
        sim_wait(INFINITY, NULL, 0, task);
    sim.task[task].is_free = true;
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
    sim_note("dies", process, 0);
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

void sim_limit_ports(int count)
{
    sim.num_ports = count;
}

void sim_kill_at(double seconds, int process)
{
    sim.kill_at[process] = seconds;
}

/* ---- the scheduler ---- */

static bool can_go_on(const Task *task)
{
    if (task->is_done || !task->is_waiting)
        return !task->is_done;
    bool found = task->wake <= sim.now || (task->joined >= 0 && sim.task[task->joined].is_done);
    for (size_t i = 0; i < task->count && !found; i++)
        found = (sim_ready(task->polled[i].fd) & (task->polled[i].events | POLLERR | POLLHUP | POLLNVAL)) != 0;
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
    sim.faults = faults, sim.num_ports = 10000;
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
    sim_note("end", 0, 0);
}
