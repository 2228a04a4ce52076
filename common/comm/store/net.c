/* TCP with non-blocking sockets: every call tries at once and, if it would block, sleeps in poll
 * until its deadline at most. So no rank waits forever for a dead one. */
#include "common/comm/store/net.h"

#include <arpa/inet.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"

#define MOST_DESCRIPTORS (1 << 16) // a system may grant a billion
#define ATTEMPT_SECONDS 5.0 // per address, since the name's next one may work

static int fail(int reason)
{
    errno = reason;
    return -1;
}

static int wait_ready(int fd, short events, double deadline)
{
    for (;;) {
        const double left = deadline - seconds_awake();
        struct pollfd pollfd = { .fd = fd, .events = events };
        const int ready = poll_awake(&pollfd, 1, left);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (!(left > 0))
            return fail(ETIMEDOUT);
    }
}

static int close_failed(int fd)
{
    const int reason = errno;
    close(fd);
    return fail(reason);
}

/* Turns off Nagle's algorithm, which delays a short message until the last is acknowledged. */
static int without_delay(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return fd;
}

bool net_copy_host(char *to, size_t bytes, const char *host, size_t length)
{
    const bool has_brackets = length > 1 && host[0] == '[' && host[length - 1] == ']';
    host += has_brackets;
    length -= has_brackets ? 2 : 0;
    const char *colon = memchr(host, ':', length); // one is before a port, an IPv6 address has more
    return length > 0 && (colon == NULL || memrchr(host, ':', length) != colon) &&
           strcspn(host, " \t\r\n/\\,;'\"$") >= length &&
           snprintf(to, bytes, "%.*s", (int)length, host) < (int)bytes;
}

/* Returns all addresses of a name; NULL and ENXIO if it has none, EINVAL for a bad port. */
static struct addrinfo *resolve(const char *host, int port, int flags)
{
    if (port < 0 || port > UINT16_MAX) { // the C library would take it modulo 65536
        errno = EINVAL;
        return NULL;
    }
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo *addresses = NULL;
    char name[NI_MAXHOST];
    if (host != NULL && net_copy_host(name, sizeof name, host, strlen(host)))
        host = name;
    const int failure = getaddrinfo(host, service, &hints, &addresses);
    if (failure != 0 && failure != EAI_SYSTEM)
        errno = ENXIO;
    return failure == 0 ? addresses : NULL;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool net_is_loopback(const char *host)
{
    return strncmp(host, "localhost", 9) == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0;
}

static int listen_at(const struct addrinfo *at)
{
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    // A restarted job must not wait for the old one's connections in TIME_WAIT.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (at->ai_family == AF_INET6) // "::" takes IPv4 too
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    return close_failed(fd);
}

/* Returns whether the address is local, but cannot be used: other addresses are not tried. */
static bool is_in_use(int error)
{
    return error == EADDRINUSE || error == EACCES;
}

/* Listens on one of a host's addresses that is local, of the first family if it can; on all
 * interfaces if host is NULL. */
static int listen_host(const char *host, int port, int first_family)
{
    struct addrinfo *addresses = resolve(host, port, AI_PASSIVE);
    if (addresses == NULL)
        return -1;
    int fd = -1;
    errno = EADDRNOTAVAIL;
    for (int others = 0; others < 2; others++)
        for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next)
            // Many systems resolve their own name to loopback; other machines resolve it correctly.
            if (fd < 0 && !is_in_use(errno) && (at->ai_family != first_family) == others &&
                (host == NULL || net_is_loopback(host) || !is_loopback(at->ai_addr)))
                fd = listen_at(at);
    freeaddrinfo(addresses);
    return fd;
}

int net_listen(const char *host, int *port)
{
    // IPv4 first: every client of localhost can reach 127.0.0.1, but not every one ::1. But "::"
    // first, which accepts both.
    const bool is_named = host[0] != '\0';
    int fd = is_named ? listen_host(host, *port, AF_INET) : -1;
    const bool is_known = !is_named || errno != ENXIO;
    const bool is_everywhere = !is_named || (fd < 0 && !is_in_use(errno) && !net_is_loopback(host));
    if (is_everywhere)
        fd = listen_host(NULL, *port, AF_INET6);
    if (fd < 0)
        return -1;
    struct sockaddr_in6 address; // the port is at the same offset for IPv4
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return close_failed(fd);
    *port = ntohs(address.sin6_port);
    if (is_everywhere && is_known) // an unknown name ends the job anyway
        log_info("port %d is open on every interface: %s%s", *port,
                 is_named ? host : "no host is named",
                 is_named ? " is no address that this machine could listen on alone" : "");
    return fd;
}

int net_free_port(void)
{
    int port = 0;
    const int fd = net_listen("localhost", &port);
    CHECK(fd >= 0, "no port of localhost is free: %s", net_reason(errno));
    close(fd);
    return port;
}

int net_accept(int listen_fd, double deadline)
{
    for (;;) {
        const int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            return without_delay(fd);
        if (errno == EAGAIN ? wait_ready(listen_fd, POLLIN, deadline) < 0
                            : errno != EINTR && errno != ECONNABORTED)
            return -1;
    }
}

/* Detects a socket connected to itself: if a local port is retried, the kernel may pick that very
 * port for this end (TCP simultaneous open), and the real server could never listen there. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

static int connect_to(const struct addrinfo *to, double deadline)
{
    const int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int failure = 0;
    if ((connect(fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS && errno != EINTR) ||
        wait_ready(fd, POLLOUT, deadline) < 0)
        return close_failed(fd);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &(socklen_t){ sizeof failure });
    if (failure == 0 && is_self_connected(fd))
        failure = ECONNREFUSED;
    errno = failure;
    if (failure != 0)
        return close_failed(fd);
    return without_delay(fd);
}

/* Moves the deadline by a slow lookup, in which the clock of deadlines is not read. */
static int connect_host(const char *host, int port, double *deadline)
{
    const double begun = seconds_now() - seconds_awake();
    struct addrinfo *addresses = resolve(host, port, 0);
    *deadline -= seconds_now() - seconds_awake() - begun;
    if (addresses == NULL)
        return -1;
    int fd = -1;
    for (const struct addrinfo *to = addresses; to != NULL && fd < 0; to = to->ai_next)
        fd = connect_to(to, fmin(*deadline, seconds_awake() + ATTEMPT_SECONDS));
    freeaddrinfo(addresses);
    return fd;
}

int net_connect(const char *host, int port, double deadline)
{
    static atomic_bool warned; // once for each process
    for (double pause = 0.004;; pause = fmin(2 * pause, 0.5)) {
        const int fd = connect_host(host, port, &deadline);
        const double left = deadline - seconds_awake();
        if (fd >= 0 || !(left > 0))
            return fd;
        if (errno == ENXIO && !atomic_exchange(&warned, true))
            log_warning("no host \"%s\" is known here: still trying", host);
        poll(NULL, 0, (int)ceil(1e3 * fmin(pause, left))); // a signal only makes the retry earlier
    }
}

int net_send(int fd, const void *data, size_t bytes, double deadline)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = send(fd, (const uint8_t *)data + done, bytes - done, MSG_NOSIGNAL);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN ? wait_ready(fd, POLLOUT, deadline) < 0 : errno != EINTR)
            return -1;
    }
    return 0;
}

int net_recv(int fd, void *data, size_t bytes, double deadline)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = recv(fd, (uint8_t *)data + done, bytes - done, 0);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            return fail(ECONNRESET);
        else if (errno == EAGAIN ? wait_ready(fd, POLLIN, deadline) < 0 : errno != EINTR)
            return -1;
    }
    return 0;
}

const char *net_reason(int error)
{
    if (error == ENXIO)
        return "no such host is known";
    if (error == ECONNREFUSED)
        return "nobody listens there";
    return error == ETIMEDOUT ? "no answer" : strerror(error);
}

const char *net_listen_reason(int error, int port, char text[NET_REASON_BYTES])
{
    char owner[NET_REASON_BYTES / 2] = "";
    if (error == EADDRINUSE)
        comfort_port_owner(port, owner, sizeof owner);
    snprintf(text, NET_REASON_BYTES, "%s%s", net_reason(error), owner);
    return text;
}

long net_raise_descriptors(void)
{
    struct rlimit limit;
    SYS_CHECK(getrlimit(RLIMIT_NOFILE, &limit));
    const rlim_t most = limit.rlim_max < MOST_DESCRIPTORS ? limit.rlim_max : MOST_DESCRIPTORS;
    limit.rlim_cur = limit.rlim_cur > most ? limit.rlim_cur : most;
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, &limit));
    return (long)most;
}

void net_reserve_descriptors(long count, int num_ranks)
{
    const long most = net_raise_descriptors();
    CHECK(count <= most,
          "%d ranks take %ld descriptors here, and a process may open %ld: raise that (ulimit -n "
          "%ld)",
          num_ranks, count, most, count);
}
