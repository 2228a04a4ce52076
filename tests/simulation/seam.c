// clang-format off
/* The seam: with -Wl,--wrap (tests/rules.mk) the linker gives these the system calls of common/, the library as it is. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/simulator.h"

int __real_close(int fd);
#define PORT(address) ntohs(((const struct sockaddr_in *)(address))->sin_port)

int __wrap_socket(int family, int type, int protocol)
{
    (void)type, (void)protocol;
    errno = EAFNOSUPPORT;
    return family == AF_INET ? sim_socket(SIM_STREAM) : -1;
}

static int put_address(int fd, bool peer, struct sockaddr *address, socklen_t *bytes)
{
    const struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons((uint16_t)sim_port(fd, peer)),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    memcpy(address, &here, sizeof here);
    return *bytes = sizeof here, 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return (void)bytes, sim_bind(fd, PORT(address));
}

int __wrap_listen(int fd, int backlog)
{
    return (void)backlog, sim_listen(fd);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return (void)bytes, sim_connect(fd, PORT(address));
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    return (void)address, (void)bytes, (void)flags, sim_accept(fd);
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return put_address(fd, false, address, bytes);
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return put_address(fd, true, address, bytes);
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    (void)level, (void)option, (void)bytes;
    *(int *)value = sim_error(fd);
    return 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
    return (void)fd, (void)level, (void)option, (void)value, (void)bytes, 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    return (void)flags, sim_send(fd, data, bytes);
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    return sim_recv(fd, data, bytes, (flags & MSG_PEEK) != 0);
}

int __wrap_shutdown(int fd, int how)
{
    return (void)how, sim_shutdown(fd);
}

int __wrap_close(int fd)
{
    return fd >= SIM_FIRST_FD ? sim_close(fd) : fd < 0 ? -1 : __real_close(fd);
}

int __wrap_poll(struct pollfd *polled, nfds_t count, int milliseconds)
{
    return sim_poll(polled, count, milliseconds);
}

/* A pause stops one process, but all share one clock, so it does not stand still. */
double __wrap_seconds_awake(void) { return sim_now(); }
int __wrap_poll_awake(struct pollfd *polled, unsigned long count, double seconds)
{
    return sim_poll(polled, count, seconds > 0 ? (int)ceil(fmin(1e3 * seconds, 1e6)) : 0);
}

int __wrap_eventfd(unsigned count, int flags)
{
    return (void)count, (void)flags, sim_socket(SIM_EVENT);
}

int __wrap_eventfd_write(int fd, eventfd_t value)
{
    return (void)value, (int)sim_send(fd, "", 1) - 1;
}

int __wrap_epoll_create1(int flags)
{
    return (void)flags, sim_socket(SIM_EPOLL);
}

int __wrap_epoll_ctl(int fd, int operation, int watched, struct epoll_event *event)
{
    return sim_epoll_ctl(fd, operation, watched, event);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int milliseconds)
{
    return sim_epoll_wait(fd, events, most, milliseconds);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    const double seconds = sim_now();
    *now = (struct timespec){ (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };
    return 0;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument)
{
    (void)how;
    *thread = (pthread_t)sim_thread(run, argument);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    return (void)result, sim_join((int)thread), 0;
}

int __wrap_kill(pid_t process, int signal) { return (void)process, (void)signal, 0; }
pid_t __wrap_getpid(void) { return 4711; } // otherwise it would differ in each run
void __wrap_comfort_port_owner(int port, char *text, size_t bytes) { (void)port, (void)text, (void)bytes; } // there are no outside processes
void *__wrap_mem_calloc(size_t count, size_t size) { return calloc(count, size); } // does not touch unused pages
void __wrap__exit(int status) { (void)status, sim_exit(); }
