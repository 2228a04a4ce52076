/* The network: sockets are byte streams, which arrive late and in parts. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/simulation/simulation_state.h"

static Socket *at(int fd)
{
    const int i = fd - SIM_FIRST_FD;
    return i >= 0 && i < sim.num_sockets && sim.socket[i].is_used ? &sim.socket[i] : NULL;
}

static int fail(int reason)
{
    errno = reason;
    return -1;
}

static int new_socket(int kind, int process)
{
    for (int i = 0; i < MAX_SOCKETS; i++)
        if (i == sim.num_sockets || !sim.socket[i].is_used) {
            Socket *s = &sim.socket[i];
            sim.num_sockets += i == sim.num_sockets;
            memset(s, 0, offsetof(Socket, pieces));
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
    for (int i = 0; i < sim.num_sockets; i++)
        if (sim.socket[i].is_used && sim.socket[i].is_bound && sim.socket[i].port == port)
            return true;
    return false;
}

int sim_bind(int fd, int port)
{
    while (port == 0 || (port >= 50000 && port_is_used(port)))
        port = 50000 + (int)sim_random((uint64_t)sim.num_ports);
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
    sim_touch(fd - SIM_FIRST_FD);
    sim_note("listen", fd, at(fd)->port);
    return 0;
}

int sim_connect(int fd, int port)
{
    sim_step();
    Socket *s = at(fd);
    s->port = 30000 + (int)sim_random(10000);
    s->open_at = sim.now + 2 * sim_delay();
    s->error = ECONNREFUSED;
    for (int i = 0; i < sim.num_sockets; i++)
        if (sim.socket[i].is_used && sim.socket[i].listens && sim.socket[i].port == port) {
            const int there = new_socket(SIM_STREAM, sim.socket[i].process);
            if (there < 0 || chance(sim.faults.stall)) { // no answer
                s->open_at = INFINITY;
                if (there >= 0)
                    sim.socket[there].is_used = false;
                break;
            }
            Socket *other = &sim.socket[there];
            sim.num_new++, other->is_new = true, other->port = port,
                           other->peer = fd - SIM_FIRST_FD;
            other->open_at = s->open_at - sim_delay() * 0.5 < sim.now
                                 ? sim.now
                                 : sim.now + (s->open_at - sim.now) / 2;
            s->peer = there, s->error = 0;
            sim_touch(i);
        }
    sim_touch(fd - SIM_FIRST_FD);
    sim_note("connect", fd, port);
    return fail(EINPROGRESS);
}

static int pending(const Socket *listener)
{
    int first = -1;
    for (int i = 0; i < sim.num_sockets && sim.num_new > 0; i++)
        if (sim.socket[i].is_used && sim.socket[i].is_new && sim.socket[i].port == listener->port &&
            sim.socket[i].open_at <= sim.now &&
            (first < 0 || sim.socket[i].open_at < sim.socket[first].open_at))
            first = i;
    return first;
}

int sim_accept(int fd)
{
    sim_step();
    const int i = pending(at(fd));
    sim_note("accept", fd, i);
    if (i < 0)
        return fail(EAGAIN);
    sim.num_new--, sim.socket[i].is_new = false;
    return i + SIM_FIRST_FD;
}

int sim_error(int fd)
{
    return at(fd)->error;
}

static void arrive(Socket *s)
{
    int done = 0;
    if (s->num_pieces == 0 || s->pieces[0].at > sim.now)
        return;
    for (; done < s->num_pieces && s->pieces[done].at <= sim.now; done++)
        s->arrived = s->pieces[done].end;
    memmove(s->pieces, s->pieces + done, (size_t)(s->num_pieces - done) * sizeof *s->pieces);
    if (s->num_pieces == MAX_PIECES)
        sim_touch(s->peer); // there is room now
    s->num_pieces -= done;
}

static size_t room(const Socket *s)
{
    return s->num_pieces == MAX_PIECES ? 0 : s->room - (s->written - s->read);
}

ssize_t sim_send(int fd, const void *data, size_t bytes)
{
    sim_step();
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    if (s->kind == SIM_EVENT)
        return sim_touch(fd - SIM_FIRST_FD), (ssize_t)(s->arrived = s->written = s->read + 1, 1);
    if (s->reset_at <= sim.now)
        return fail(ECONNRESET);
    if (s->peer < 0) { // the peer has closed, and will send a reset
        s->reset_at = earlier(s->reset_at, sim.now + sim_delay());
        sim_touch_at(s->reset_at, s);
        return (ssize_t)bytes;
    }
    Socket *to = &sim.socket[s->peer];
    size_t count = bytes < room(to) ? bytes : room(to);
    if (count == 0)
        return fail(EAGAIN);
    if (chance(0.25))
        count = 1 + sim_random(count);
    for (size_t i = 0; i < count; i++)
        to->data[(to->written + i) % BUFFER] = ((const unsigned char *)data)[i];
    to->written += count;
    const bool may_fail = s->process != to->process; // no network inside a process
    double when = sim.now + sim_delay() +
                  (chance(sim.faults.stall) && may_fail ? 1 + (double)sim_random(40) : 0);
    if (to->num_pieces > 0)
        when = fmax(when, to->pieces[to->num_pieces - 1].at);
    to->pieces[to->num_pieces++] = (Piece){ when, to->written };
    if (chance(sim.faults.reset) && may_fail)
        s->reset_at = sim.now + sim_delay(), to->reset_at = sim.now + sim_delay();
    sim_touch_at(s->reset_at, s), sim_touch_at(earlier(when, to->reset_at), to);
    sim_note("send", fd, (int64_t)count);
    return (ssize_t)count;
}

ssize_t sim_recv(int fd, void *data, size_t bytes, bool peek)
{
    sim_step();
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    arrive(s);
    if (s->reset_at <= sim.now)
        return fail(ECONNRESET);
    size_t count = s->arrived - s->read < bytes ? s->arrived - s->read : bytes;
    if (count == 0)
        return s->end_at <= sim.now && s->read == s->written ? 0 : fail(EAGAIN);
    if (chance(0.25))
        count = 1 + sim_random(count);
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)data)[i] = s->data[(s->read + i) % BUFFER];
    if (s->peer >= 0 && room(s) == 0)
        sim_touch(s->peer);
    if (s->end_at < INFINITY)
        sim_touch(fd - SIM_FIRST_FD);
    s->read += peek ? 0 : count;
    sim_note("recv", fd, (int64_t)count);
    return (ssize_t)count;
}

int sim_close(int fd)
{
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    sim_note("close", fd, 0);
    s->is_used = false, sim.num_new -= s->is_new;
    sim_touch(fd - SIM_FIRST_FD), sim_touch(s->peer);
    if (s->peer >= 0) {
        Socket *other = &sim.socket[s->peer];
        const double last = other->num_pieces > 0 ? other->pieces[other->num_pieces - 1].at : 0;
        double *end = s->read < s->written || s->is_new ? &other->reset_at : &other->end_at;
        *end = earlier(*end, fmax(last, sim.now + sim_delay()));
        other->peer = -1;
        if (other->is_new) // not accepted yet: it will be accepted and found closed
            other->end_at = earlier(other->end_at, fmax(last, sim.now + sim_delay()));
    }
    for (int i = 0; i < sim.num_sockets; i++) {
        Socket *other = &sim.socket[i];
        for (int j = 0; other->is_used && j < other->num_watched; j++)
            if (other->watched[j] == fd)
                other->watch[j] = other->watch[--other->num_watched],
                other->watched[j] = other->watched[other->num_watched], j--;
        if (s->listens && other->is_used && other->is_new && other->port == s->port)
            sim_close(i + SIM_FIRST_FD);
    }
    return 0;
}

int sim_shutdown(int fd)
{
    Socket *s = at(fd);
    if (s == NULL)
        return fail(EBADF);
    if (s->kind == SIM_STREAM && !s->listens)
        s->reset_at = earlier(s->reset_at, sim.now);
    sim_touch(fd - SIM_FIRST_FD);
    return 0;
}

static int epoll_ready(const Socket *s, struct epoll_event *events, int most)
{
    int count = 0;
    const int first = s->num_watched > 0 ? (int)sim_random((uint64_t)s->num_watched) : 0;
    for (int i = 0; i < s->num_watched && count < most; i++) { // in any order
        const int j = first + i < s->num_watched ? first + i : first + i - s->num_watched;
        const uint32_t found =
            (uint32_t)sim_ready(s->watched[j]) & (s->watch[j].events | EPOLLERR | EPOLLHUP);
        if (found != 0 && events != NULL)
            events[count] = (struct epoll_event){ found, s->watch[j].data };
        count += found != 0;
    }
    return count;
}

/* Returns the events that poll would; POLLIN and so on have the values of EPOLLIN and so on. */
int sim_ready(int fd)
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

double sim_watch(int fd, unsigned tasks)
{
    Socket *s = at(fd);
    s->tasks |= tasks;
    double next = until(s->open_at, until(s->end_at, until(s->reset_at, INFINITY)));
    for (int i = 0; i < s->num_watched; i++)
        next = earlier(next, sim_watch(s->watched[i], tasks));
    for (int i = 0; i < sim.num_sockets && s->listens && sim.num_new > 0; i++)
        if (sim.socket[i].is_used && sim.socket[i].is_new)
            next = until(sim.socket[i].open_at, next);
    return s->num_pieces > 0 ? until(s->pieces[0].at, next) : next;
}

static int look(struct pollfd *polled, size_t count)
{
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        polled[i].revents =
            (short)(sim_ready(polled[i].fd) & (polled[i].events | POLLERR | POLLHUP | POLLNVAL));
        found += polled[i].revents != 0;
    }
    return found;
}

int sim_poll(struct pollfd *polled, size_t count, int milliseconds)
{
    sim_step();
    const double end = milliseconds < 0 ? INFINITY : sim.now + milliseconds / 1e3;
    int found = look(polled, count);
    while (found == 0 && sim.now < end) {
        sim_wait(end, polled, count, -1);
        found = look(polled, count);
    }
    sim_note("poll", (int64_t)count, found);
    return found;
}

int sim_epoll_ctl(int fd, int operation, int watched, const struct epoll_event *event)
{
    Socket *s = at(fd);
    int i = 0;
    sim_touch(fd - SIM_FIRST_FD);
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
