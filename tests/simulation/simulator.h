/* simulator.h - processes, threads, a clock and a network, determined by a seed.
 *
 * - sim_begin, then sim_start for the main thread of each process; sim_run until all have ended.
 * - The library's system calls come here through seam.c. Only one task runs at a time, until its
 * next call, where it may lose its turn. So the same seed gives the same run.
 * - Time passes only while no task can run, except for microseconds with each call. */
#ifndef SIMULATION_SIMULATOR_H
#define SIMULATION_SIMULATOR_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#define SIM_FIRST_FD 100 // lower descriptors are real ones
#define SIM_MAX_DELAY 0.2 // maximum seconds for a message without faults

typedef struct {
    double stall,
        reset; // probability that a message is late by many seconds, or ends its connection
    double pause; // probability that a task pauses for seconds, as on a loaded machine
} SimFaults;

void sim_begin(uint64_t seed, SimFaults faults);
int sim_start(int process, void *(*run)(void *), void *argument); // returns the task
void sim_kill_at(double seconds, int process); // like SIGKILL
void sim_limit_ports(int count); // number of free ports, so that ports are soon reused
const char *sim_run(double limit); // limit in seconds; returns NULL or an error
void sim_end(void);

uint64_t sim_random(uint64_t below);
bool sim_chance(double probability);
double sim_now(void);
uint64_t sim_hash(void); // hash of all events; the same seed gives the same hash
bool sim_is_dead(int process);
bool sim_has_ended(int process); // true if its main thread has returned or it is dead
void sim_sleep(double seconds);
extern bool sim_prints; // true to print every call

/* ---- for seam.c; -1 and errno as in the calls they replace ---- */

enum { SIM_STREAM, SIM_EVENT, SIM_EPOLL };
int sim_socket(int kind);
int sim_bind(int fd, int port); // port 0 for any free one
int sim_port(int fd, bool peer);
int sim_listen(int fd);
int sim_connect(int fd, int port);
int sim_accept(int fd);
int sim_error(int fd);
ssize_t sim_send(int fd, const void *data, size_t bytes);
ssize_t sim_recv(int fd, void *data, size_t bytes, bool peek);
int sim_close(int fd);
int sim_shutdown(int fd);
int sim_poll(struct pollfd *polled, size_t count, int milliseconds);
int sim_epoll_ctl(int fd, int operation, int watched, const struct epoll_event *event);
int sim_epoll_wait(int fd, struct epoll_event *events, int most, int milliseconds);
void sim_join(int task);
int sim_thread(void *(*run)(void *), void *argument); // starts a thread of this process
_Noreturn void sim_exit(void); // ends this process
#endif
