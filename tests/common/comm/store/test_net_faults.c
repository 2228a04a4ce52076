/* The calls of net.h over a C library that fails on request: interrupted, slow and aborted ones,
 * names with several addresses or none, a connection to itself; and its limits. */
#include <dlfcn.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "tests/helpers/child.h"

#define TIMEOUT 300 // seconds allowed for immediate operations on a busy machine

/* ---- the C library ---- */

typedef struct {
    const char *call; // which call fails
    int error;
} Fault;

static Fault plan[8]; // the next ones, in this order
static int num_connects, num_lookups;
static bool connects_to_itself, ipv6_is_alone; // the latter as with net.ipv6.bindv6only=1
static double slept, longest; // seconds: of slow lookups, and of what was asked of poll_awake

double __real_seconds_now(void), __wrap_seconds_now(void);
int __real_poll_awake(struct pollfd *polled, nfds_t count, double seconds);
int __wrap_poll_awake(struct pollfd *polled, nfds_t count, double seconds);

double __wrap_seconds_now(void)
{
    return __real_seconds_now() + slept;
}

int __wrap_poll_awake(struct pollfd *polled, nfds_t count, double seconds)
{
    longest = seconds > longest ? seconds : longest;
    return __real_poll_awake(polled, count, seconds);
}

#define PLAN(...) memcpy(plan, (Fault[8]){ __VA_ARGS__ }, sizeof plan)

/* Returns whether this call is the next of the plan, and is to fail. */
static bool fails(const char *call)
{
    if (plan[0].call == NULL || strcmp(plan[0].call, call) != 0)
        return false;
    errno = plan[0].error;
    memmove(plan, plan + 1, sizeof plan - sizeof *plan);
    return true;
}

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    return fails("send") ? -1 : REAL(send, fd, data, bytes, flags);
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    return fails("recv") ? -1 : REAL(recv, fd, data, bytes, flags);
}

int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    return fails("ppoll") ? -1 : REAL(ppoll, polled, count, time, mask);
}

int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    return fails("accept4") ? -1 : REAL(accept4, fd, address, bytes, flags);
}

int socket(int domain, int type, int protocol)
{
    const int fd = REAL(socket, domain, type, protocol);
    if (ipv6_is_alone && domain == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 1 }, sizeof(int));
    return fd;
}

int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return fails("bind") ? -1 : REAL(bind, fd, address, bytes);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return fails("getsockname") ? -1 : REAL(getsockname, fd, address, bytes);
}

int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    num_connects++;
    if (connects_to_itself)
        bind(fd, address, bytes);
    const int result = REAL(connect, fd, address, bytes);
    if (!fails("connect"))
        return result;
    return errno == 0 ? 0 : -1; // with 0 it is connected at once
}

static int pauses[32], num_pauses; // ms, between attempts to connect

int poll(struct pollfd *polled, nfds_t count, int ms)
{
    if (count == 0)
        pauses[num_pauses++ % 32] = ms;
    return REAL(poll, polled, count, ms);
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    if (option != SO_ERROR || !fails("SO_ERROR"))
        return REAL(getsockopt, fd, level, option, value, bytes);
    *(int *)value = errno;
    return 0;
}

/* Knows five names besides the usual ones. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    static const char *const names[][3] = {
        { "own.test", "127.0.1.1" }, // as many systems resolve their own name
        { "own6.test", "::1" },       { "both.test", "::1", "127.0.0.1" },
        { "slow.test", "127.0.0.1" }, { "localhost", "::1", "127.0.0.1" },
    };
    const char *address = host, *next = NULL;
    num_lookups++;
    if (fails("getaddrinfo"))
        return EAI_SYSTEM;
    if (host != NULL && strcmp(host, "none.test") == 0)
        return EAI_NONAME;
    if (host != NULL && strcmp(host, "slow.test") == 0)
        slept += 1.2;
    for (size_t i = 0; host != NULL && i < LENGTH(names); i++)
        if (strcmp(host, names[i][0]) == 0) {
            address = names[i][1];
            next = names[i][2];
        }
    const int failure = REAL(getaddrinfo, address, service, hints, found);
    if (failure == 0 && next != NULL)
        return REAL(getaddrinfo, next, service, hints, &(*found)->ai_next);
    return failure;
}

static double soon(double seconds)
{
    return seconds_awake() + seconds;
}

static int next_descriptor(void)
{
    const int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

static bool can_connect(const char *host, int port)
{
    const int fd = net_connect(host, port, soon(0.05));
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* ---- the tests ---- */

/* Only some errors of a call are reasons to try again. */
static void test_interrupted_calls(void **state)
{
    (void)state;
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port), next = next_descriptor();
    PLAN({ "connect", 0 });
    const int first = net_connect("127.0.0.1", port, soon(TIMEOUT));
    assert_int_equal(first, next);
    close(net_accept(listener, soon(TIMEOUT)));
    close(first);
    PLAN({ "connect", EINTR }, { "ppoll", EINTR });
    const int caller = net_connect("127.0.0.1", port, soon(TIMEOUT));
    assert_int_equal(caller, next);
    PLAN({ "accept4", EINTR }, { "accept4", ECONNABORTED }, { "accept4", EAGAIN });
    const int accepted = net_accept(listener, soon(TIMEOUT));
    assert_int_equal(accepted, next + 1);
    PLAN({ "accept4", EMFILE });
    assert_int_equal(net_accept(listener, soon(TIMEOUT)), -1);
    assert_int_equal(errno, EMFILE);

    char text[4] = "";
    PLAN({ "send", EINTR }, { "send", EAGAIN }, { "recv", EINTR }, { "recv", EAGAIN });
    assert_int_equal(net_send(caller, "abc", 3, soon(TIMEOUT)), 0);
    assert_int_equal(net_recv(accepted, text, 3, soon(TIMEOUT)), 0);
    assert_string_equal(text, "abc");
    PLAN({ "send", EPIPE }, { "recv", ETIMEDOUT }, { "recv", EAGAIN }, { "ppoll", EINVAL });
    assert_int_equal(net_send(caller, "abc", 3, soon(TIMEOUT)), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(net_recv(accepted, text, 3, soon(TIMEOUT)), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(net_recv(accepted, text, 3, soon(TIMEOUT)), -1);
    assert_int_equal(errno, EINVAL);
    PLAN({ "send", EAGAIN }, { "ppoll", EINVAL });
    assert_int_equal(net_send(caller, "abc", 3, soon(TIMEOUT)), -1);
    assert_int_equal(errno, EINVAL);
    assert_null(plan[0].call);
    close(accepted);
    close(caller);
    close(listener);
}

/* At once, or when the other side's answer has come; each leaves no descriptor open. */
static void test_connections_that_fail(void **state)
{
    (void)state;
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port), next = next_descriptor();
    PLAN({ "connect", EHOSTUNREACH });
    assert_int_equal(net_connect("127.0.0.1", port, 0), -1);
    assert_int_equal(errno, EHOSTUNREACH);
    PLAN({ "connect", EINPROGRESS }, { "SO_ERROR", ENETUNREACH });
    assert_int_equal(net_connect("127.0.0.1", port, soon(0)), -1);
    assert_int_equal(errno, ENETUNREACH);
    PLAN({ "connect", EINPROGRESS }, { "ppoll", EINVAL });
    assert_int_equal(net_connect("127.0.0.1", port, soon(0)), -1);
    assert_int_equal(errno, EINVAL);
    close(listener);
    connects_to_itself = true; // the kernel may pick the very port
    assert_int_equal(net_connect("127.0.0.1", port, soon(0)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    connects_to_itself = false;
    assert_int_equal(next_descriptor(), listener);
    assert_int_equal(next, listener + 1);
}

static void test_attempts_become_rare(void **state)
{
    (void)state;
    const int port = net_free_port();
    num_connects = num_pauses = 0;
    assert_int_equal(net_connect("127.0.0.1", port, soon(1.1)), -1);
    assert_in_range(num_pauses, 3, 10);
    assert_int_equal(num_connects, num_pauses + 1);
    for (int i = 0; i < num_pauses - 1; i++) // the last is what time is left
        assert_int_equal(pauses[i], i < 7 ? 4 << i : 500);
}

static void test_names_of_several_addresses(void **state)
{
    (void)state;
    static const char *const hosts[] = { "own.test", "own6.test", "both.test", "localhost" };
    for (size_t i = 0; i < LENGTH(hosts); i++) { // a name that is loopback only here: everywhere
        int port = 0;
        const int listener = net_listen(hosts[i], &port);
        assert_true(listener >= 0);
        assert_true(can_connect("127.0.0.1", port));
        close(listener);
    }
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port);
    num_lookups = 0;
    const int fd = net_connect("both.test", port, soon(TIMEOUT)); // the second one answers
    assert_true(fd >= 0);
    assert_int_equal(num_lookups, 1);
    close(fd);
    close(listener);
}

/* The clock of deadlines stands still while a name is looked up; that must not make it later. */
static void test_a_slow_lookup_counts(void **state)
{
    (void)state;
    const int port = net_free_port();
    static const struct {
        double seconds;
        int lookups; // of 1.2 s
    } cases[] = { { 0.5, 1 }, { 2, 2 }, { 3, 3 } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        num_lookups = 0;
        assert_int_equal(net_connect("slow.test", port, seconds_awake() + cases[i].seconds), -1);
        assert_int_equal(num_lookups, cases[i].lookups);
    }
}

/* An address that does not answer is given up after 5 s, since the name's next one may. */
static void test_one_address_has_five_seconds(void **state)
{
    (void)state;
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port);
    static const double limits[] = { 1000, 5, 4 };
    for (size_t i = 0; i < LENGTH(limits); i++) {
        longest = 0;
        PLAN({ "connect", EINPROGRESS });
        close(net_connect("127.0.0.1", port, seconds_awake() + limits[i]));
        const double most = limits[i] < 5 ? limits[i] : 5;
        assert_true(longest <= most && longest > most - 1);
    }
    close(listener);
}

/* Errors of an address: whether the name's next one is tried, or every interface. */
static void test_addresses_that_cannot_be_used(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        Fault fault;
        bool listens;
    } cases[] = {
        { "localhost", { "bind", EADDRNOTAVAIL }, true }, // then ::1
        { "localhost", { "bind", EADDRINUSE }, false },
        { "localhost", { "bind", EACCES }, false },
        { "203.0.113.7", { "bind", EADDRNOTAVAIL }, true },
        { "203.0.113.7", { "bind", EADDRINUSE }, false },
        { "203.0.113.7", { "bind", EACCES }, false },
        { "127.0.0.1", { "bind", EADDRNOTAVAIL }, false },
        { "127.0.0.1", { "getsockname", ENOBUFS }, false },
    };
    const int next = next_descriptor();
    for (size_t i = 0; i < LENGTH(cases); i++) {
        int port = 0;
        PLAN(cases[i].fault);
        const int fd = net_listen(cases[i].host, &port);
        assert_int_equal(fd, cases[i].listens ? next : -1);
        assert_true(fd >= 0 || errno == cases[i].fault.error);
        assert_null(plan[0].call);
        if (fd >= 0)
            close(fd);
        assert_int_equal(next_descriptor(), next);
    }
}

static void test_every_interface_is_also_ipv4s(void **state)
{
    (void)state;
    int port = 0;
    ipv6_is_alone = true;
    const int listener = net_listen("", &port);
    ipv6_is_alone = false;
    assert_true(can_connect("127.0.0.1", port));
    close(listener);
}

static void look_for_nobody(const void *context)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net_connect("none.test", 1, soon(0.02)), -1);
        assert_int_equal(errno, ENXIO);
    }
    int port = 0;
    close(net_listen("none.test", &port));
}

static void test_unknown_names_are_logged_once(void **state)
{
    (void)state;
    assert_int_equal(child_run(look_for_nobody, NULL), 0);
    const char *line = strstr(err, "warning: no host \"none.test\" is known here: still trying\n");
    assert_non_null(line);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    PLAN({ "getaddrinfo", EMFILE });
    assert_int_equal(net_connect("127.0.0.1", 1, 0), -1);
    assert_int_equal(errno, EMFILE);
}

static void listen_at(const void *host)
{
    int port = 0;
    assert_true(net_listen(host, &port) >= 0);
}

static void test_a_port_open_to_all_is_logged(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        { "", " is open on every interface: no host is named\n" },
        { "203.0.113.7", " is open on every interface: 203.0.113.7 is no address that this machine "
                         "could listen on alone\n" },
        { "own.test", " is open on every interface: own.test is no address that this" },
        { "localhost", "" },
        { "127.0.0.1", "" },
    };
    for (size_t i = 0; i < LENGTH(lines); i++) {
        assert_int_equal(child_run(listen_at, lines[i][0]), 0);
        assert_has(err, lines[i][1]);
        assert_int_equal(err[0] == '\0', lines[i][1][0] == '\0');
    }
}

/* A program may be started with its standard input closed: then 0 is a socket as any other. */
static void use_descriptor_0(const void *context)
{
    (void)context;
    static const char *const hosts[] = { "localhost", "0.0.0.0" };
    close(0);
    const int free_port = net_free_port();
    CHECK(free_port >= 1024, "port %d, which is for root", free_port);
    for (size_t i = 0; i < LENGTH(hosts); i++) {
        CHECK(net_listen(hosts[i], &(int){ 0 }) == 0, "it does not listen on %s", hosts[i]);
        close(0);
    }
    int port = 0;
    CHECK(net_listen("", &port) == 0, "it does not listen"); // so both of localhost's addresses do
    const int listener = dup(0);
    close(0);
    CHECK(net_connect("localhost", port, soon(TIMEOUT)) == 0, "it does not connect");
    CHECK(dup(0) >= 0 && close(0) == 0 && net_accept(listener, soon(TIMEOUT)) == 0, "no caller");
}

static void test_the_first_descriptor(void **state)
{
    (void)state;
    if (child_run(use_descriptor_0, NULL) != 0)
        fail_msg("%s", err);
}

static struct rlimit limit; // of the files that this process may open

int getrlimit(__rlimit_resource_t resource, struct rlimit *found)
{
    if (resource != RLIMIT_NOFILE) // which a sanitizer sets, too
        return prlimit(0, resource, NULL, found);
    *found = limit;
    return 0;
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *wanted)
{
    if (resource != RLIMIT_NOFILE)
        return prlimit(0, resource, wanted, NULL);
    if (wanted->rlim_cur > limit.rlim_max)
        return -1;
    limit = *wanted;
    return 0;
}

static void reserve(const void *count)
{
    net_reserve_descriptors(*(const long *)count, 7);
}

static void test_descriptors(void **state)
{
    (void)state;
    static const struct {
        rlim_t now, most; // before
        long reached;
    } limits[] = {
        { 30, 100, 100 },      { 100, 100, 100 },       { 100, 65536, 65536 },
        { 100, 65537, 65536 }, { 65537, 65537, 65536 }, // keeps what it has
    };
    for (size_t i = 0; i < LENGTH(limits); i++) {
        const long reached = limits[i].reached, more = reached + 1;
        limit = (struct rlimit){ limits[i].now, limits[i].most };
        assert_int_equal(net_raise_descriptors(), reached);
        assert_int_equal(limit.rlim_cur, limits[i].now == 65537 ? 65537 : reached);
        assert_int_equal(child_run(reserve, &reached), 0);
        char line[128];
        snprintf(line, sizeof line,
                 "7 ranks take %ld descriptors here, and a process may open %ld: raise that "
                 "(ulimit -n %ld)",
                 more, reached, more);
        assert_dies_saying(reserve, &more, 1, line);
    }
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interrupted_calls),
        cmocka_unit_test(test_connections_that_fail),
        cmocka_unit_test(test_attempts_become_rare),
        cmocka_unit_test(test_names_of_several_addresses),
        cmocka_unit_test(test_a_slow_lookup_counts),
        cmocka_unit_test(test_one_address_has_five_seconds),
        cmocka_unit_test(test_addresses_that_cannot_be_used),
        cmocka_unit_test(test_every_interface_is_also_ipv4s),
        cmocka_unit_test(test_unknown_names_are_logged_once),
        cmocka_unit_test(test_a_port_open_to_all_is_logged),
        cmocka_unit_test(test_the_first_descriptor),
        cmocka_unit_test(test_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
