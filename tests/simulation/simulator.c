/* Tasks are coroutines, so a run has one order of events, chosen by random numbers from the seed.
 * Connections are byte streams: as with TCP, messages are late, but never lost or reordered; but a
 * connection may end at any time. */
#undef _FORTIFY_SOURCE // because it reports a longjmp to another stack as an error
#include "tests/simulation/simulation_state.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Simulation sim;
static char *stacks[MAX_TASKS]; // reused by the next run,
static jmp_buf begins[MAX_TASKS]; // as is the first frame on each
bool sim_prints;

/* ---- chance ---- */

uint64_t sim_random(uint64_t below)
{
    const uint64_t drawn = draw();
    return below == 1 ? 0 : drawn % below; // because a division is slow
}

bool sim_chance(double probability)
{
    return chance(probability);
}

double sim_delay(void)
{
    return SIM_MAX_DELAY * (double)(1 + sim_random(1000)) / 1000 * (chance(0.7) ? 0.01 : 1);
}

void sim_note(const char *call, int64_t a, int64_t b)
{
    const uint64_t values[] = { (uint64_t)sim.current, (uint64_t)call[0], (uint64_t)a, (uint64_t)b,
                                (uint64_t)(sim.now * 1e9) };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        sim.hash = (sim.hash ^ values[i]) * 0x100000001b3u;
    if (sim_prints)
        printf("%11.6f process %d task %d: %s %lld %lld\n", sim.now,
               sim.current < 0 ? -1 : sim.task[sim.current].process, sim.current, call,
               (long long)a, (long long)b);
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

static int next_task(void);

/* Continues in another task, or with -1 in sim_run. Does not use setcontext or swapcontext, whose
 * system calls for the signal mask took half of a run's time. */
static void resume(int next)
{
    sim.current = next;
    if (next < 0)
        _longjmp(sim.scheduler, 1);
    Task *task = &sim.task[next];
    if (task->has_begun)
        _longjmp(task->here, 1);
    task->has_begun = true;
    _longjmp(begins[next], 1);
}

/* Is the first frame on a stack and never returns: the next task of this number begins here. */
static void stay(int number)
{
    if (_setjmp(begins[number]) == 0)
        _longjmp(sim.scheduler, 1);
    Task *task = &sim.task[sim.current];
    task->run(task->argument);
    task->is_done = true;
    sim_note("returns", 0, 0);
    resume(next_task());
}

static void make_stack(int number)
{
    static ucontext_t context;
    stacks[number] = malloc(STACK);
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[number];
    context.uc_stack.ss_size = STACK;
    makecontext(&context, (void (*)(void))stay, 1, number);
    if (_setjmp(sim.scheduler) == 0)
        setcontext(&context);
}

static void start_task(int number, int process, void *(*run)(void *), void *argument, bool is_main)
{
    sim.task[number] = (Task){
        .run = run, .argument = argument, .process = process, .joined = -1, .is_main = is_main
    };
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

/* Ends the current task's turn and continues with the next task, which may be the same one. */
static void yield(void)
{
    Task *task = &sim.task[sim.current];
    const int error = errno, self = sim.current, next = next_task();
    if (next == self)
        sim.current = self;
    else if (_setjmp(task->here) == 0)
        resume(next);
    errno = error;
}

/* At each call another task may run, and this one may be paused. */
void sim_step(void)
{
    if (sim.current < 0)
        return;
    sim.now += STEP * (double)(1 + sim_random(100)) / 100;
    if (chance(sim.faults.pause))
        sim_sleep(0.1 + (double)sim_random(8000) / 1000);
    else if (chance(0.5))
        yield();
}

void sim_wait(double wake, const struct pollfd *polled, size_t count, int joined)
{
    Task *task = &sim.task[sim.current];
    sim.stale |= 1u << sim.current;
    task->is_waiting = true, task->wake = wake, task->polled = polled, task->count = count,
    task->joined = joined;
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
    for (int i = 0; i < sim.num_sockets; i++)
        if (sim.socket[i].is_used && sim.socket[i].process == process)
            sim_close(i + SIM_FIRST_FD);
}

_Noreturn void sim_exit(void)
{
    const int process = sim.task[sim.current].process;
    kill_process(process);
    sim.is_dead[process] = false; // it ended by itself
    resume(next_task());
    abort();
}

void sim_limit_ports(int count)
{
    sim.num_ports = count;
}

void sim_kill_at(double seconds, int process)
{
    sim.kill_at[process] = seconds;
    sim.next_kill = fmin(sim.next_kill, seconds);
}

/* ---- the scheduler ---- */

/* Returns true if a descriptor that the task polls is ready. */
static bool polls_ready(Task *task, unsigned own)
{
    if (!(sim.stale & own) && sim.now < task->next_look) {
        for (int i = 0; i < task->num_drawn; i++)
            draw();
        return false;
    }
    sim.stale &= ~own;
    for (size_t i = 0; i < task->count; i++)
        if ((sim_ready(task->polled[i].fd) &
             (task->polled[i].events | POLLERR | POLLHUP | POLLNVAL)) != 0) {
            sim.stale |= own;
            return true;
        }
    task->next_look = INFINITY, task->num_drawn = 0;
    for (size_t i = 0; i < task->count; i++) {
        const Socket *s = &sim.socket[task->polled[i].fd - SIM_FIRST_FD];
        task->next_look = earlier(task->next_look, sim_watch(task->polled[i].fd, own));
        task->num_drawn += s->kind == SIM_EPOLL && s->num_watched > 0;
    }
    return false;
}

static bool can_go_on(int number)
{
    Task *task = &sim.task[number];
    if (task->is_done || !task->is_waiting)
        return !task->is_done;
    return task->wake <= sim.now || (task->joined >= 0 && sim.task[task->joined].is_done) ||
           polls_ready(task, 1u << number);
}

static double next_event(void)
{
    double next = INFINITY;
    for (int i = 0; i < sim.num_tasks; i++)
        if (!sim.task[i].is_done)
            next = until(sim.task[i].wake, next);
    for (int i = 0; i < sim.num_sockets; i++) {
        const Socket *s = &sim.socket[i];
        if (!s->is_used)
            continue;
        next = until(s->reset_at, until(s->end_at, until(s->open_at, next)));
        int first = 0; // the first piece still to come; pieces are in order
        while (first < s->num_pieces && s->pieces[first].at <= sim.now)
            first++;
        if (first < s->num_pieces)
            next = until(s->pieces[first].at, next);
    }
    for (int i = 0; i < MAX_TASKS; i++)
        next = sim.is_dead[i] ? next : until(sim.kill_at[i], next);
    return next;
}

void sim_begin(uint64_t seed, SimFaults faults)
{
    sim.num_tasks = 0, sim.current = -1, sim.now = 1000, sim.state = seed * 0xd1342543de82ef95u + 1,
    sim.hash = 0xcbf29ce484222325u;
    sim.faults = faults, sim.num_ports = 10000, sim.num_sockets = sim.num_new = 0, sim.stale = 0,
    sim.next_kill = INFINITY;
    for (int i = 0; i < MAX_SOCKETS; i++)
        sim.socket[i].is_used = false;
    for (int i = 0; i < MAX_TASKS; i++)
        sim.is_dead[i] = false, sim.kill_at[i] = INFINITY;
}

static void kill_on_time(void)
{
    sim.next_kill = INFINITY;
    for (int i = 0; i < MAX_TASKS; i++) {
        if (sim.kill_at[i] <= sim.now && !sim.is_dead[i] && !sim_has_ended(i))
            kill_process(i);
        if (!sim.is_dead[i])
            sim.next_kill = sim.kill_at[i] < sim.next_kill ? sim.kill_at[i] : sim.next_kill;
    }
}

/* Returns a task that can run, after advancing time until there is one, or -1 if the run ends, for
 * the reason in sim.stuck. */
static int next_task(void)
{
    sim.current = -1;
    while (sim.now <= sim.end) {
        int able[MAX_TASKS], count = 0;
        bool all_done = true;
        if (sim.next_kill <= sim.now)
            kill_on_time();
        for (int i = 0; i < sim.num_tasks; i++) {
            all_done &= sim.task[i].is_done;
            if (can_go_on(i))
                able[count++] = i;
        }
        if (all_done)
            return -1;
        if (count > 0) {
            const int next = able[sim_random((uint64_t)count)];
            sim.task[next].is_waiting = false;
            return next;
        }
        sim.now = next_event();
    }
    sim.stuck = sim.now == INFINITY ? "nobody can go on" : "it does not end";
    return -1;
}

const char *sim_run(double limit)
{
    sim.end = sim.now + limit;
    sim.stuck = NULL;
    for (int i = 0; i < MAX_TASKS; i++)
        if (stacks[i] == NULL)
            make_stack(i);
    const int next = next_task();
    if (next >= 0 && _setjmp(sim.scheduler) == 0)
        resume(next);
    return sim.stuck;
}

void sim_end(void)
{
    sim_note("end", 0, 0);
}
