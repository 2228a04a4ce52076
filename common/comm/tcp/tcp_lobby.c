/*
 * If callers were read one after the other, a stranger that connects and sends nothing would delay
 * the ranks after it, and a thousand of them would keep ranks out for good. So every caller gets a
 * place, and the first with a complete hello is served first.
 */
#include "common/comm/tcp/tcp_lobby.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

#define HELLO_SECONDS 1.0
#define MAX_WARNINGS 8

void lobby_turn_away(Lobby *lobby, int fd)
{
    close(fd);
    if (++lobby->num_turned_away <= MAX_WARNINGS)
        log_warning("turned away a connection that is not of this group%s",
                    lobby->num_turned_away == MAX_WARNINGS ? " (and says no more of such)" : "");
}

static Caller leave(Lobby *lobby, int place)
{
    const Caller caller = lobby->caller[place];
    lobby->num_callers--;
    memmove(&lobby->caller[place], &lobby->caller[place + 1],
            (size_t)(lobby->num_callers - place) * sizeof caller);
    return caller;
}

/* Accepts one more caller, if there is one. False: cannot, and dropping others would not help. */
static bool enter(Lobby *lobby)
{
    const int fd = net_accept(lobby->listen_fd, 0);
    if (fd < 0 && errno == ETIMEDOUT)
        return true;
    if (fd < 0 && lobby->num_callers == 0)
        return false;
    if (fd < 0 || lobby->num_callers == LOBBY_PLACES) // out of descriptors or places
        lobby_turn_away(lobby, leave(lobby, 0).fd);
    if (fd >= 0)
        lobby->caller[lobby->num_callers++] = (Caller){ .fd = fd, .since = seconds_now() };
    return true;
}

/* Reads what has arrived of a hello. False: drop the caller. */
static bool listen_to(Caller *caller)
{
    const ssize_t n = recv(caller->fd, caller->hello + caller->bytes,
                           LOBBY_HELLO_BYTES - caller->bytes, MSG_DONTWAIT);
    if (n > 0)
        caller->bytes += (size_t)n;
    const bool is_silent = n < 0 && (errno == EAGAIN || errno == EINTR);
    return n > 0 || (is_silent && seconds_now() < caller->since + HELLO_SECONDS);
}

/* Sleeps until a connection or bytes arrive, a caller's time is up, or the deadline. */
static void wait_for_callers(const Lobby *lobby, double deadline)
{
    struct pollfd pollfds[LOBBY_PLACES + 1] = { { .fd = lobby->listen_fd, .events = POLLIN } };
    for (int i = 0; i < lobby->num_callers; i++)
        pollfds[i + 1] = (struct pollfd){ .fd = lobby->caller[i].fd, .events = POLLIN };
    if (lobby->num_callers > 0)
        deadline = fmin(deadline, lobby->caller[0].since + HELLO_SECONDS);
    const double left = fmax(deadline - seconds_now(), 0);
    poll(pollfds, (nfds_t)lobby->num_callers + 1, (int)ceil(1e3 * fmin(left, 1e3)));
}

int lobby_next(Lobby *lobby, unsigned char hello[LOBBY_HELLO_BYTES], double deadline)
{
    for (;;) {
        for (int i = lobby->num_callers - 1; i >= 0; i--) {
            const bool stays = listen_to(&lobby->caller[i]);
            if (lobby->caller[i].bytes == LOBBY_HELLO_BYTES) {
                memcpy(hello, lobby->caller[i].hello, LOBBY_HELLO_BYTES);
                return leave(lobby, i).fd;
            }
            if (!stays)
                lobby_turn_away(lobby, leave(lobby, i).fd);
        }
        if (seconds_now() >= deadline) {
            errno = ETIMEDOUT;
            return -1;
        }
        wait_for_callers(lobby, deadline);
        if (!enter(lobby))
            return -1;
    }
}

void lobby_close(Lobby *lobby)
{
    while (lobby->num_callers > 0)
        close(leave(lobby, lobby->num_callers - 1).fd);
}
