/* Tasks that make random calls, to test the simulator itself. An optimized simulator must still
 * produce the same traces as before (simulation.bats has their hash). */
#include <stdint.h>

#include "tests/simulation/scenario.h"
#include "tests/simulation/simulator.h"

#define PORT 29500
#define CLIENTS 3
#define LIFE 1.5 // seconds
#define SERVED 4 // connections at a time

static char bytes[2048];
static int served[SERVED]; // descriptors (0 if none)
static int wake_up; // event descriptor

static short some_events(void)
{
    static const short events[] = { POLLIN, POLLOUT, POLLIN | POLLOUT };
    return events[sim_random(3)];
}

static void talk(int fd)
{
    if (sim_chance(0.5))
        sim_send(fd, bytes, 1 + sim_random(sizeof bytes));
    else
        sim_recv(fd, bytes, 1 + sim_random(sizeof bytes), sim_chance(0.2));
}

static void let_go(int epoll, int i)
{
    if (sim_chance(0.5))
        sim_epoll_ctl(epoll, EPOLL_CTL_DEL, served[i], NULL);
    sim_close(served[i]);
    served[i] = 0;
}

static void take(int epoll, int fd)
{
    for (int i = 0; i < SERVED; i++)
        if (served[i] == 0) {
            struct epoll_event event = { .events = (uint32_t)some_events(),
                                         .data.u64 = (uint64_t)i };
            served[i] = fd;
            sim_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            return;
        }
    sim_close(fd);
}

/* Runs a thread beside the server that polls the same connections. */
static void *disturb(void *unused)
{
    while (sim_now() < 1000 + LIFE) {
        struct pollfd polled[SERVED];
        size_t count = 0;
        for (int i = 0; i < SERVED; i++)
            if (served[i] != 0)
                polled[count++] = (struct pollfd){ .fd = served[i], .events = some_events() };
        if (count == 0 || sim_chance(0.2))
            sim_sleep((double)sim_random(200) / 1e3);
        else
            sim_poll(polled, count, (int)sim_random(100));
        if (sim_chance(0.2))
            sim_send(wake_up, "", 1);
    }
    return unused;
}

static void *serve(void *unused)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = SERVED }, ready[3];
    const int listener = sim_socket(SIM_STREAM), epoll = sim_socket(SIM_EPOLL);
    wake_up = sim_socket(SIM_EVENT);
    sim_bind(listener, PORT);
    sim_listen(listener);
    sim_epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    event.data.u64++;
    sim_epoll_ctl(epoll, EPOLL_CTL_ADD, wake_up, &event);
    const int thread = sim_thread(disturb, NULL);
    while (sim_now() < 1000 + LIFE) {
        const int count = sim_epoll_wait(epoll, ready, 3, (int)sim_random(300));
        for (int i = 0; i < count; i++) {
            const int at = (int)ready[i].data.u64;
            const int fd = at == SERVED ? sim_accept(listener) : 0;
            if (fd > 0)
                take(epoll, fd);
            else if (at > SERVED)
                sim_recv(wake_up, bytes, 8, false);
            else if (at < SERVED && served[at] != 0 && sim_chance(0.1))
                let_go(epoll, at);
            else if (at < SERVED && served[at] != 0)
                talk(served[at]);
        }
    }
    sim_join(thread);
    if (sim_chance(0.5))
        sim_close(listener);
    return unused;
}

static void *call(void *unused)
{
    while (sim_now() < 1000 + LIFE) {
        const int fd = sim_socket(SIM_STREAM);
        struct pollfd polled = { .fd = fd, .events = POLLOUT };
        sim_sleep((double)sim_random(200) / 1e3);
        sim_connect(fd, PORT);
        sim_poll(&polled, 1, (int)sim_random(1000));
        for (int talks = (int)sim_random(20); talks > 0 && sim_error(fd) == 0; talks--) {
            polled.events = some_events();
            sim_poll(&polled, 1, (int)sim_random(100));
            talk(fd);
        }
        if (sim_chance(0.3))
            sim_shutdown(fd);
        sim_close(fd);
    }
    return unused;
}

const char *run_network(void)
{
    for (int i = 0; i < SERVED; i++)
        served[i] = 0;
    sim_start(0, serve, NULL);
    for (int i = 1; i <= CLIENTS; i++)
        sim_start(i, call, NULL);
    if (sim_chance(0.5))
        sim_kill_at(1000 + (double)sim_random(1500) / 1e3, (int)sim_random(CLIENTS + 1));
    return sim_run(100);
}
