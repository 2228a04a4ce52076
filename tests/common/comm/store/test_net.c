/*
 * TCP with deadlines: where a listener can be reached from, that every wait ends in time with the
 * right error, and that neither signals nor vanished peers disturb it; and the words for errors.
 */
#include <fcntl.h>
#include <ifaddrs.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "tests/helpers/child.h"

#define TIMEOUT 300 // seconds allowed for immediate operations on a busy machine
#define NOT_OURS "203.0.113.7" // an address for documentation only (RFC 5737)

static double soon(double seconds)
{
    return seconds_now() + seconds;
}

static bool can_connect(const char *host, int port, double seconds)
{
    const int fd = net_connect(host, port, soon(seconds));
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Finds a numeric non-loopback address of this machine. Returns false if it has none. */
static bool own_address(int family, char *address)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (const struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != family)
            continue;
        const socklen_t size =
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        getnameinfo(one->ifa_addr, size, address, NI_MAXHOST, NULL, 0, NI_NUMERICHOST);
        found = strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0;
    }
    freeifaddrs(all);
    return found;
}

/* Opens both ends of a connection over loopback. */
static void connect_pair(int ends[2])
{
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port);
    assert_true(listener >= 0);
    ends[0] = net_connect("127.0.0.1", port, soon(TIMEOUT));
    ends[1] = net_accept(listener, soon(TIMEOUT));
    assert_true(ends[0] >= 0 && ends[1] >= 0);
    close(listener);
}

static void close_pair(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static void test_localhost_is_reached_from_this_machine_only(void **state)
{
    (void)state;
    const char *names[] = { "localhost", "127.0.0.1" };
    for (int i = 0; i < 2; i++) {
        int port = 0;
        const int listener = net_listen(names[i], &port);
        assert_true(listener >= 0);
        assert_in_range(port, 1, 65535);
        assert_true(can_connect("127.0.0.1", port, TIMEOUT));
        assert_true(can_connect("localhost", port, TIMEOUT)); // which may resolve to ::1 first
        char address[NI_MAXHOST];
        if (own_address(AF_INET, address))
            assert_false(can_connect(address, port, 0.05));
        close(listener);
    }
}

static void test_names_of_others_listen_everywhere(void **state)
{
    (void)state;
    const char *names[] = { "", NOT_OURS };
    for (int i = 0; i < 2; i++) {
        int port = 0;
        const int listener = net_listen(names[i], &port);
        assert_true(listener >= 0);
        assert_true(can_connect("127.0.0.1", port, TIMEOUT));
        char address[NI_MAXHOST];
        if (own_address(AF_INET, address))
            assert_true(can_connect(address, port, TIMEOUT));
        int other_port = 0;
        const int ipv6 = net_listen("::1", &other_port);
        assert_true(ipv6 < 0 || can_connect("::1", port, TIMEOUT));
        assert_true(ipv6 < 0 || can_connect("[::1]", port, TIMEOUT));
        close(ipv6);
        close(listener);
    }
}

static void test_own_address_listens_there_alone(void **state)
{
    (void)state;
    char address[NI_MAXHOST];
    if (!own_address(AF_INET, address))
        skip();
    int port = 0;
    const int listener = net_listen(address, &port);
    assert_true(listener >= 0);
    assert_true(can_connect(address, port, TIMEOUT));
    assert_false(can_connect("127.0.0.1", port, 0.05));
    close(listener);
}

static void test_names_of_this_machine(void **state)
{
    (void)state;
    const char *own[] = { "localhost", "localhost4", "127.0.0.1", "127.9.9.9", "::1", "[::1]" };
    const char *others[] = { "", "local", "128.0.0.1", "1.127.0.0", "::", "::2", "[::1" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_true(net_is_loopback(own[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(net_is_loopback(others[i]));
}

static void test_hosts(void **state)
{
    (void)state;
    static const struct {
        const char *host, *copy; // NULL: no host
    } cases[] = {
        { "a", "a" },
        { "node-1.org", "node-1.org" },
        { "[::1]", "::1" },
        { "fe80::1", "fe80::1" },
        { "[a", "[a" },
        { "[", "[" },
        { "", NULL },
        { "[]", NULL },
        { "a:1", NULL },
        { "a b", NULL },
        { "a/", NULL },
        { "12345678901", "12345678901" },
        { "123456789012", NULL }, // as long as the buffer
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char copy[12] = "";
        const bool is_host = cases[i].copy != NULL;
        assert_int_equal(net_copy_host(copy, sizeof copy, cases[i].host, strlen(cases[i].host)),
                         is_host);
        if (is_host)
            assert_string_equal(copy, cases[i].copy);
    }
    char copy[12];
    assert_true(net_copy_host(copy, sizeof copy, "node1:29500", 5));
    assert_string_equal(copy, "node1");
}

static int next_descriptor(void)
{
    const int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

/* Also, a refusal leaves no descriptor open. */
static void test_port_in_use_is_refused(void **state)
{
    (void)state;
    int port = 0;
    const int listener = net_listen("localhost", &port), next = next_descriptor();
    assert_int_equal(net_listen("localhost", &port), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(net_listen("", &port), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(next_descriptor(), next);
    close(listener);
    assert_int_equal(net_connect("localhost", port, seconds_now()), -1);
    assert_int_equal(next_descriptor(), listener);
}

static void test_no_port_is_refused(void **state)
{
    (void)state;
    assert_int_equal(net_listen("localhost", &(int){ 65536 + 29500 }), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(net_connect("localhost", 65536, seconds_now()), -1);
    assert_int_equal(errno, EINVAL);
}

static void test_sockets_are_quick_and_stay_in_this_program(void **state)
{
    (void)state;
    int ends[2];
    connect_pair(ends);
    for (int i = 0; i < 2; i++) {
        int no_delay = 0;
        socklen_t size = sizeof no_delay;
        assert_int_equal(getsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
        assert_true(no_delay);
        assert_true(fcntl(ends[i], F_GETFD) & FD_CLOEXEC);
    }
    close_pair(ends);
}

/* Asserts that a call failed for this reason, after this many seconds and at most 30 more. */
#define assert_fails_after(call, reason, seconds) \
    do { \
        const double start = seconds_now(); \
        assert_int_equal(call, -1); \
        assert_int_equal(errno, reason); \
        assert_true(seconds_now() - start >= (seconds)); \
        assert_true(seconds_now() - start < (seconds) + 30); \
    } while (0)

static void test_every_wait_ends(void **state)
{
    (void)state;
    int port = 0, ends[2];
    char byte;
    const int listener = net_listen("127.0.0.1", &port);
    assert_fails_after(net_accept(listener, soon(0.1)), ETIMEDOUT, 0.1);
    assert_fails_after(net_accept(listener, 0), ETIMEDOUT, 0);
    close(listener);
    assert_fails_after(net_connect("127.0.0.1", port, soon(0.1)), ECONNREFUSED, 0.1);

    connect_pair(ends);
    assert_fails_after(net_recv(ends[0], &byte, 1, soon(0.1)), ETIMEDOUT, 0.1);
    const size_t bytes = 64 << 20; // more than the kernel buffers for a sleeping reader
    void *data = mem_calloc(bytes, 1);
    assert_fails_after(net_send(ends[0], data, bytes, soon(0.1)), ETIMEDOUT, 0.1);
    free(data);
    close_pair(ends);
}

static void test_closed_connection_is_an_error(void **state)
{
    (void)state;
    int ends[2];
    char bytes[2];
    connect_pair(ends);
    assert_int_equal(net_send(ends[1], "x", 1, soon(TIMEOUT)), 0);
    close(ends[1]);
    assert_int_equal(net_recv(ends[0], bytes, 2, soon(TIMEOUT)),
                     -1); // one byte has arrived, two have not
    assert_int_equal(errno, ECONNRESET);
    int failed = 0;
    for (const double end = soon(TIMEOUT); failed == 0 && seconds_now() < end;) // without SIGPIPE
        failed = net_send(ends[0], bytes, sizeof bytes, soon(TIMEOUT));
    assert_int_equal(failed, -1);
    assert_true(errno == EPIPE || errno == ECONNRESET);
    close(ends[0]);
}

static void *listen_later(void *argument)
{
    int port = (int)(intptr_t)argument;
    usleep(150000);
    return (void *)(intptr_t)net_listen("127.0.0.1", &port);
}

static void test_connect_waits_for_the_listener(void **state)
{
    (void)state;
    const int port = net_free_port();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, listen_later, (void *)(intptr_t)port), 0);
    const int fd = net_connect("localhost", port, soon(TIMEOUT));
    assert_true(fd >= 0);
    void *listener;
    pthread_join(thread, &listener);
    close((int)(intptr_t)listener);
    close(fd);
}

static volatile sig_atomic_t num_signals;

static void count_signal(int number)
{
    (void)number;
    num_signals++;
}

static void *send_among_signals(void *fd)
{
    sigset_t all;
    sigfillset(&all); // because the signals are for the receiver
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    const char *text = "patience";
    for (int i = 0; i < 64; i++) {
        usleep(5000);
        kill(getpid(), SIGUSR1);
        if (i % 4 == 0 && i < 32)
            net_send(*(int *)fd, &text[i / 4], 1, soon(TIMEOUT));
    }
    return NULL;
}

static void test_signals_interrupt_nothing(void **state)
{
    (void)state;
    int ends[2];
    connect_pair(ends);
    struct sigaction action = { .sa_handler = count_signal }, before; // no SA_RESTART
    sigaction(SIGUSR1, &action, &before);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_among_signals, &ends[1]), 0);
    char text[9] = "";
    assert_int_equal(net_recv(ends[0], text, 8, soon(TIMEOUT)), 0);
    assert_string_equal(text, "patience");
    assert_fails_after(net_recv(ends[0], text, 1, soon(0.1)), ETIMEDOUT, 0.1);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &before, NULL);
    assert_true(num_signals > 0); // 64 unless signals were merged while pending
    close_pair(ends);
}

static void *send_all(void *argument)
{
    const int fd = *(int *)argument;
    uint32_t *data = mem_calloc(4 << 20, sizeof *data);
    for (uint32_t i = 0; i < 4 << 20; i++)
        data[i] = i * 2654435761u;
    const int sent = net_send(fd, data, (4 << 20) * sizeof *data, soon(TIMEOUT));
    free(data);
    return (void *)(intptr_t)sent;
}

static void test_long_messages_arrive_whole(void **state)
{
    (void)state;
    int ends[2];
    connect_pair(ends);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_all, &ends[0]), 0);
    for (uint32_t i = 0; i < 4 << 20; i += 1 << 20) {
        static uint32_t part[1 << 20];
        assert_int_equal(net_recv(ends[1], part, sizeof part, soon(TIMEOUT)), 0);
        for (uint32_t j = 0; j < 1 << 20; j++)
            if (part[j] != (i + j) * 2654435761u)
                fail_msg("word %u is wrong", i + j);
    }
    void *sent;
    pthread_join(thread, &sent);
    assert_int_equal((intptr_t)sent, 0);
    close_pair(ends);
}

/* Connections that this end has closed stay in TIME_WAIT. */
static void test_a_port_can_be_used_again_at_once(void **state)
{
    (void)state;
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port);
    const int caller = net_connect("127.0.0.1", port, soon(TIMEOUT));
    close(net_accept(listener, soon(TIMEOUT)));
    char byte;
    assert_int_equal(net_recv(caller, &byte, 1, soon(TIMEOUT)), -1);
    close(caller);
    close(listener);
    assert_int_equal(net_listen("127.0.0.1", &port), listener);
    close(listener);
    assert_int_equal(net_listen("127.0.0.1", &(int){ -1 }), -1);
    assert_int_equal(errno, EINVAL);
    assert_true(net_connect("127.0.0.1", 65535, 0) >= 0 || errno == ECONNREFUSED);
}

static void test_reasons(void **state)
{
    (void)state;
    char text[NET_REASON_BYTES];
    assert_string_equal(net_reason(ENXIO), "no such host is known");
    assert_string_equal(net_reason(ECONNREFUSED), "nobody listens there");
    assert_string_equal(net_reason(ETIMEDOUT), "no answer");
    assert_string_equal(net_reason(EACCES), "Permission denied");
    assert_string_equal(net_listen_reason(EACCES, 1, text), "Permission denied");
    int port = 0;
    const int listener = net_listen("127.0.0.1", &port);
    const char *owner = has_extras ? " by test_net (pid " : "";
    assert_has(net_listen_reason(EADDRINUSE, port, text), "Address already in use");
    assert_has(text, owner);
    close(listener);
}

int main(void)
{
    alarm(900); // nothing here may hang
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_localhost_is_reached_from_this_machine_only),
        cmocka_unit_test(test_names_of_others_listen_everywhere),
        cmocka_unit_test(test_own_address_listens_there_alone),
        cmocka_unit_test(test_names_of_this_machine),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_port_in_use_is_refused),
        cmocka_unit_test(test_no_port_is_refused),
        cmocka_unit_test(test_sockets_are_quick_and_stay_in_this_program),
        cmocka_unit_test(test_every_wait_ends),
        cmocka_unit_test(test_closed_connection_is_an_error),
        cmocka_unit_test(test_connect_waits_for_the_listener),
        cmocka_unit_test(test_signals_interrupt_nothing),
        cmocka_unit_test(test_long_messages_arrive_whole),
        cmocka_unit_test(test_a_port_can_be_used_again_at_once),
        cmocka_unit_test(test_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
