/* How one rank of four connects to the others, and disconnects: what it sends and expects, with the
 * store, the network and the clock in the test's hands. */
#include <math.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"

enum { N = 4, OWN = 1, MOST = 16 };
#define TIMEOUT 100.0
#define KEY "group 3/"

static const Key256 key = { { 1, 2, 3 } };
static const char *version; // rank 0's

/* ---- in place of the program's own (tests/rules.mk) ---- */

static double clock_now; // the time
static bool is_late; // the store's keys do not come
static double waited; // how long for a key
static char set_key[STORE_KEY_BYTES], set_value[MESH_ADDRESS_BYTES]; // in the store
static size_t set_bytes;
static bool forms; // extras/on_demand does it
static int num_ended, num_warnings; // calls of on_demand_close and log_warning

/* The other ends of connections, in the order in which they are made. */
static int made[MOST], num_made, closed_first = -1; // the one that gets descriptor 0
static const Opening *callers[MOST]; // how those begin that are accepted; NULL: with nothing
static int num_callers, num_accepted;
static int wanted[MOST]; // the ports that it has connected to
static char answer;
static double accept_deadline, recv_deadline;

double __wrap_seconds_awake(void);
bool __wrap_store_try_wait(Store *store, const char *name, double seconds);
void __wrap_store_set(Store *store, const char *name, const void *value, size_t bytes);
size_t __wrap_store_get(Store *store, const char *name, void *value, size_t bytes);
int __wrap_net_listen(const char *host, int *port),
    __wrap_net_accept(int listener, double deadline);
int __wrap_net_connect(const char *host, int port, double deadline);
int __wrap_net_recv(int fd, void *bytes, size_t count, double deadline);
bool __wrap_on_demand_form(Mesh *mesh, const ProcessGroup *pg);
void __wrap_on_demand_close(Mesh *mesh);
void __wrap_log_warning(const char *format, ...);
bool __wrap_interface_choose(char *host, size_t bytes);

double __wrap_seconds_awake(void)
{
    return clock_now;
}

bool __wrap_store_try_wait(Store *store, const char *name, double seconds)
{
    assert_true(store != NULL && strncmp(name, KEY, strlen(KEY)) == 0);
    waited = seconds;
    return !is_late;
}

void __wrap_store_set(Store *store, const char *name, const void *value, size_t bytes)
{
    assert_true(store != NULL && bytes < sizeof set_value);
    snprintf(set_key, sizeof set_key, "%s", name);
    memcpy(set_value, value, bytes);
    set_value[bytes] = '\0';
    set_bytes = bytes;
}

size_t __wrap_store_get(Store *store, const char *name, void *value, size_t bytes)
{
    assert_false(is_late); // it would wait for longer than it may
    char text[MESH_ADDRESS_BYTES] = "";
    int rank = 0;
    size_t length = 8 + sizeof key;
    if (sscanf(name, KEY "tcp address %d", &rank) == 1) {
        length = (size_t)snprintf(text, sizeof text, "host%d %d", rank, 5000 + rank);
    } else {
        assert_string_equal(name, KEY "tcp version 0");
        memcpy(text, version, 8);
        memcpy(text + 8, &key, sizeof key);
        length = store->has_secret ? 8 : length;
    }
    memcpy(value, text, length < bytes ? length : bytes);
    return length;
}

int __wrap_net_listen(const char *host, int *port)
{
    assert_string_equal(host, "here");
    *port = 4711;
    return dup(STDERR_FILENO);
}

/* Returns an end of a new connection; the other has sent these bytes. */
static int make(const void *bytes, size_t count)
{
    int pair[2];
    assert_true(num_made < MOST);
    if (num_made == closed_first)
        close(STDIN_FILENO);
    SYS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    assert_int_equal(write(pair[1], bytes, count), count);
    made[num_made++] = pair[1];
    return pair[0];
}

int __wrap_net_connect(const char *host, int port, double deadline)
{
    char name[16];
    snprintf(name, sizeof name, "host%d", port - 5000);
    assert_string_equal(host, name);
    assert_true(deadline > clock_now);
    wanted[num_made] = port;
    return make(&answer, 1);
}

int __wrap_net_accept(int listener, double deadline)
{
    assert_true(listener >= 0);
    accept_deadline = deadline;
    if (num_accepted == num_callers)
        return clock_now = fmax(clock_now, deadline), -1;
    const Opening *opening = callers[num_accepted++];
    return make(opening, opening != NULL ? sizeof *opening : 0);
}

int __wrap_net_recv(int fd, void *bytes, size_t count, double deadline)
{
    recv_deadline = deadline;
    return recv(fd, bytes, count, MSG_DONTWAIT) == (ssize_t)count ? 0 : -1;
}

bool __wrap_on_demand_form(Mesh *mesh, const ProcessGroup *pg)
{
    assert_true(mesh->rank == pg->rank && mesh->timeout == pg->timeout);
    return forms;
}

void __wrap_on_demand_close(Mesh *mesh)
{
    assert_non_null(mesh->on_demand);
    num_ended++;
}

void __wrap_log_warning(const char *format, ...)
{
    assert_string_equal(format, "turned away a connection that is not of this group");
    num_warnings++;
}

bool __wrap_interface_choose(char *host, size_t bytes)
{
    snprintf(host, bytes, "here");
    return true;
}

/* ---- a rank by hand ---- */

static Mesh *mesh;
static Store store;
static ProcessGroup pg;

static int set_up(void **state)
{
    (void)state;
    clock_now = 1000;
    num_made = num_accepted = num_callers = num_ended = num_warnings = 0;
    is_late = forms = false;
    answer = HANDSHAKE_WELCOME;
    version = has_extras ? "ddp.tcpA" : "ddp.tcpB";
    store = (Store){ .fd = -1 };
    pg = (ProcessGroup){ .rank = OWN, .world_size = N, .timeout = TIMEOUT, .number = 3 };
    pg.store = &store;
    mesh = mem_calloc(1, sizeof *mesh);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (num_made > 0)
        close(made[--num_made]);
    free(mesh);
    return 0;
}

/* Returns true if the group cannot be formed, and is revoked; its line goes to `line`. */
static bool fails(void)
{
    pg.survivor = mesh->survivor = &pg;
    pg.revoked = false;
    const int screen = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    dup2(fileno(file), STDERR_FILENO);
    if (setjmp(mesh->unwind) == 0)
        mesh_init(mesh, &pg);
    dup2(screen, STDERR_FILENO);
    close(screen);
    read_back(file, err);
    return pg.revoked;
}

static Opening open_of(int caller, int answerer, int channel)
{
    return (Opening){ key, caller, answerer, channel };
}

/* Forms the group with ranks that do all as they should. */
static void form(void)
{
    static Opening opening[4];
    const int first = OWN + 1;
    for (int i = 0; i < 4; i++) {
        opening[i] = open_of(first + i % 2, OWN, i / 2);
        callers[i] = &opening[i];
    }
    num_callers = 4;
    mesh_init(mesh, &pg);
}

/* ---- the key ---- */

static void test_rank_0_draws_the_key(void **state)
{
    (void)state;
    mesh->rank = pg.rank = 0;
    Key256 drawn[2];
    for (int i = 0; i < 2; i++) {
        drawn[i] = mesh_agree_on_key(mesh, &pg);
        assert_string_equal(set_key, KEY "tcp version 0");
        assert_int_equal(set_bytes, 8 + sizeof(Key256));
        assert_memory_equal(set_value, version, 8);
        assert_memory_equal(set_value + 8, &drawn[i], sizeof drawn[i]);
    }
    assert_memory_not_equal(&drawn[0], &drawn[1], sizeof *drawn);
    store.has_secret = true; // which makes the keys
    mesh_agree_on_key(mesh, &pg);
    assert_int_equal(set_bytes, 8);
}

static void agree(const void *context)
{
    version = context;
    mesh_agree_on_key(mesh, &pg);
}

static void test_others_get_the_key(void **state)
{
    (void)state;
    const Key256 got = mesh_agree_on_key(mesh, &pg);
    assert_memory_equal(&got, &key, sizeof key);
    static const char other[] =
        "fatal: rank 0 runs another version of this program: build the same";
    assert_dies_saying(agree, "ddp.tcp0", 1, other);
    assert_dies_saying(agree, has_extras ? "ddp.tcpB" : "ddp.tcpA", 1, other);
}

static void test_a_group_that_survives_does_not_wait(void **state)
{
    (void)state;
    is_late = true;
    assert_true(fails());
    mesh_free(mesh);
    assert_true(pg.revoked && pg.missing == NOBODY && waited == FORM_SECONDS);
    pg.timeout = 2; // the shorter of the two
    assert_true(fails());
    mesh_free(mesh);
    assert_true(waited == 2);
    assert_true(mesh_connect_timeout(&pg) == 2);
    mesh->deadline = clock_now - 1; // no negative time
    errno = 0;
    assert_int_equal(mesh_call(&pg, &store, 0, mesh->deadline), -1);
    assert_true(waited == 0 && errno == ETIMEDOUT);
}

/* ---- connecting ---- */

static void test_all_connect(void **state)
{
    (void)state;
    form();
    assert_string_equal(set_key, KEY "tcp address 1");
    assert_string_equal(set_value, "here 4711");
    assert_true(mesh->world_size == N && mesh->timeout == TIMEOUT && mesh->deadline == 1100);
    assert_int_equal(num_made, 6); // two to rank 0, two from each of the others
    for (int channel = 0; channel < 2; channel++) {
        Opening opening;
        assert_int_equal(recv(made[channel], &opening, sizeof opening, MSG_DONTWAIT),
                         sizeof opening);
        const Opening due = open_of(OWN, 0, channel);
        assert_memory_equal(&opening, &due, sizeof due);
        assert_int_equal(wanted[channel], 5000);
    }
    assert_int_equal(mesh->listen_fd, -1);
    for (int rank = 0; rank < N; rank++) {
        const Peer *peer = &mesh->peer[rank];
        int whole = 0;
        socklen_t length = sizeof whole;
        assert_true((peer->data < 0) == (rank == OWN) && (peer->notices < 0) == (rank == OWN));
        assert_true(peer->reported_at == -INFINITY && peer->pipe == NULL);
        assert_int_equal(mesh->watched[rank].fd, peer->notices);
        if (rank == OWN)
            continue;
        assert_int_equal(mesh->watched[rank].events, POLLIN | POLLRDHUP);
        SYS_CHECK(getsockopt(peer->notices, SOL_SOCKET, SO_RCVLOWAT, &whole, &length));
        assert_int_equal(whole, sizeof(Notice));
        SYS_CHECK(getsockopt(peer->data, SOL_SOCKET, SO_RCVLOWAT, &whole, &length));
        assert_int_equal(whole, 1);
    }
    for (int i = 2; i < 6; i++) { // those who have called are welcome, and on the right channel
        char welcome = 0;
        assert_int_equal(recv(made[i], &welcome, 1, MSG_DONTWAIT), 1);
        assert_int_equal(welcome, HANDSHAKE_WELCOME);
        const Peer *peer = &mesh->peer[2 + i % 2];
        assert_int_equal(write(made[i], "xy", 2), 2);
        assert_int_equal(recv(i / 2 == 1 ? peer->data : peer->notices, &welcome, 1, MSG_DONTWAIT),
                         1);
    }
    mesh->survivor = &pg;
    pg.revoked = true;
    mesh_free(mesh);
    char text[2];
    assert_int_equal(recv(made[1], text, sizeof text, MSG_DONTWAIT), 0); // without a notice
}

static void test_who_is_turned_away(void **state)
{
    (void)state;
    Opening calls[] = {
        open_of(2, OWN, 0), // with another key
        open_of(2, 0, 0),   open_of(OWN, OWN, 0), open_of(N, OWN, 0),
        open_of(0, OWN, 0), open_of(2, OWN, -1),  open_of(2, OWN, NUM_CHANNELS),
        open_of(2, OWN, 0), // says nothing
        open_of(2, OWN, 0), open_of(2, OWN, 0), // a second time
        open_of(2, OWN, 1), open_of(3, OWN, 0),   open_of(3, OWN, 1),
    };
    calls[0].key.bytes[31] = 1;
    for (num_callers = 0; num_callers < (int)LENGTH(calls); num_callers++)
        callers[num_callers] = num_callers == 7 ? NULL : &calls[num_callers];
    mesh_init(mesh, &pg);
    assert_true(num_accepted == num_callers && num_warnings == num_callers - 4);
    assert_true(recv_deadline == 1000 + HANDSHAKE_SECONDS && accept_deadline == 1100);
    for (int i = 0; i < num_accepted; i++) {
        char welcome = 0;
        assert_int_equal(recv(made[2 + i], &welcome, 1, MSG_DONTWAIT),
                         i == 8 || i > 9); // 0: closed
    }
    mesh_free(mesh);
}

static void test_the_first_who_does_not_connect(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) { // rank 2's data, its notices and rank 3's data come

        Opening opening[3];
        tear_down(NULL);
        set_up(NULL);
        num_callers = i;
        for (int k = 0; k < num_callers; k++) {
            opening[k] = open_of(2 + k / 2, OWN, k % 2);
            callers[k] = &opening[k];
        }
        pg.timeout = 3;
        assert_true(fails());
        assert_true(clock_now == 1003 && mesh->listen_fd >= 0);
        assert_has(err, i < 2 ? "rank 2 did not connect" : "rank 3 did not connect");
        mesh_free(mesh); // also the listening socket
    }
}

static void form_late(const void *context)
{
    answer = *(const char *)context;
    mesh_init(mesh, &pg);
}

static void test_the_line_of_who_does_not_connect(void **state)
{
    (void)state;
    assert_dies_saying(
        form_late, &answer, 1,
        "fatal: rank 2 did not connect to here 4711 within 100 s: Connection timed out");
    assert_dies_saying(form_late, "x", 1, "fatal: cannot reach rank 0: ");
}

/* ---- the end ---- */

static void test_all_are_told_and_waited_for(void **state)
{
    (void)state;
    form();
    Notice notice;
    static const Notice last[2];
    for (int i = 1; i < 6; i += i == 1 ? 3 : 1) // the notices of ranks 0, 2 and 3
        assert_int_equal(write(made[i], last, sizeof last), sizeof last);
    int before[3] = { mesh->peer[0].notices, mesh->peer[2].notices, mesh->peer[3].notices };
    for (int i = 0; i < 3; i++)
        before[i] = dup(before[i]); // what is left unread
    clock_now = 2000;
    mesh_free(mesh);
    assert_true(recv_deadline == 2000 + TIMEOUT);
    for (int i = 0; i < 3; i++) {
        const int far = made[i == 0 ? 1 : 3 + i];
        assert_int_equal(recv(before[i], &notice, 1, MSG_DONTWAIT), -1);
        assert_true(recv(far, &notice, i == 0 ? sizeof(Opening) : 1, MSG_DONTWAIT) > 0);
        assert_int_equal(recv(far, &notice, sizeof notice, MSG_DONTWAIT), sizeof notice);
        assert_true(notice.kind == NOTICE_CLOSE && notice.waits_for == NOBODY);
        assert_int_equal(recv(far, &notice, 1, MSG_DONTWAIT), 0); // shut down, and not before
        close(before[i]);
    }
}

static void form_and_free(void *context)
{
    set_up(NULL);
    closed_first = context != NULL ? *(const int *)context : -1;
    form();
    mesh->on_demand = (struct OnDemand *)&pg;
    mesh_scratch(mesh, 100);
    mesh->listen_fd = dup(STDERR_FILENO); // as in a group that could not be formed
    mesh_free(mesh);
    tear_down(NULL);
}

static void test_all_is_given_back(void **state)
{
    (void)state;
    needs_own_malloc();
    assert_leaves_nothing(form_and_free, NULL);
    assert_int_equal(num_ended, 1);
}

static void free_descriptor_0(const void *context)
{
    form_and_free((void *)context);
    _exit(fcntl(STDIN_FILENO, F_GETFD) < 0 ? 0 : 1);
}

static void test_a_connection_without_standard_input(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(child_run(free_descriptor_0, &i), 0);
}

static void test_ranks_with_a_core(void **state)
{
    (void)state;
    const int cores = host_num_cores();
    const struct {
        int local, world;
        bool has_core;
    } cases[] = { { 0, cores, true },
                  { 0, cores + 1, false },
                  { cores, cores + 1, true },
                  { cores + 1, cores + 1, false },
                  { 1, 1000, true } };
    forms = true;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", cases[i].local);
        cases[i].local > 0 ? setenv("LOCAL_WORLD_SIZE", text, 1) : unsetenv("LOCAL_WORLD_SIZE");
        pg.world_size = cases[i].world;
        pg.rank = 0;
        mesh_init(mesh, &pg);
        assert_int_equal(mesh->has_core, cases[i].has_core);
        assert_int_equal(num_made, 0);
        mesh_free(mesh);
        mesh->scratch = NULL;
    }
    unsetenv("LOCAL_WORLD_SIZE");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_rank_0_draws_the_key),
        CASE(test_others_get_the_key),
        CASE(test_a_group_that_survives_does_not_wait),
        CASE(test_all_connect),
        CASE(test_who_is_turned_away),
        CASE(test_the_first_who_does_not_connect),
        CASE(test_the_line_of_who_does_not_connect),
        CASE(test_all_are_told_and_waited_for),
        cmocka_unit_test(test_all_is_given_back),
        cmocka_unit_test(test_a_connection_without_standard_input),
        CASE(test_ranks_with_a_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
