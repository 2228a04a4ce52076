/* What one rank does with a message that comes, and one that it sends, connected or not yet. */
#include "tests/common/comm/tcp/rank_by_hand.h"

static int num_connected, connected; // calls of on_demand_connect, and its latest rank
static int far_data; // the other end of that connection
static int num_arrivals, arrives_from; // messages that extras/simulated_network was told of
static size_t arrival_bytes;
static double arrives_at;
static bool late_payload; // comes after the header

void __wrap_on_demand_connect(Mesh *m, int peer);
double __wrap_network_arrival(Mesh *m, int from, size_t bytes);

void __wrap_on_demand_connect(Mesh *m, int peer)
{
    int pair[2];
    SYS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    m->peer[peer].data = pair[0];
    far_data = pair[1];
    connected = peer;
    num_connected++;
}

double __wrap_network_arrival(Mesh *m, int from, size_t bytes)
{
    assert_ptr_equal(m, mesh);
    arrives_from = from;
    arrival_bytes = bytes;
    num_arrivals++;
    if (late_payload)
        assert_int_equal(write(data[from], "12345678", 8), 8);
    return arrives_at;
}

static int begin(void **state)
{
    num_connected = num_arrivals = 0;
    data_first = true;
    late_payload = false;
    arrives_at = 0;
    return set_up(state);
}

/* Returns the header of a message with `bytes` in the call in progress. */
static Header header_of(size_t bytes)
{
    return (Header){ mesh->call, HEADER_MAGIC, bytes };
}

/* Sends this as another rank. */
static void come(int rank, const void *bytes, size_t count)
{
    assert_int_equal(write(data[rank], bytes, count), count);
}

/* Returns true if receiving `count` bytes from this rank ends the group. */
static bool refuses(int rank, size_t count)
{
    static char bytes[64];
    if (setjmp(mesh->unwind) != 0)
        return true;
    message_receive(mesh, rank, bytes, count);
    return false;
}

static void test_a_message_each_way(void **state)
{
    (void)state;
    float sums[2] = { 1, 2 };
    const float theirs[2] = { 10, 20 };
    const Header header = header_of(sizeof sums);
    come(3, &header, sizeof header);
    come(3, theirs, sizeof theirs);
    arrives_at = 1005;
    exchange(mesh, (Outgoing){ 2, sums, sizeof sums }, (Incoming){ 3, sums, sizeof sums, sums });
    assert_true(sums[0] == 11 && sums[1] == 22);
    assert_true(num_arrivals == 1 && arrives_from == 3);
    assert_int_equal(arrival_bytes, sizeof header + sizeof sums);
    assert_true(clock_now == 1005); // on a slow network, as it is simulated
    assert_true(mesh->moved.sent_bytes == 8 && mesh->moved.received_bytes == 8 &&
                mesh->moved.sent_messages == 1 && num_connected == 0);
    struct {
        Header header;
        float values[2];
    } sent;
    assert_int_equal(recv(data[2], &sent, sizeof sent, MSG_DONTWAIT), sizeof sent);
    assert_memory_equal(&sent.header, &header, sizeof header);
    assert_true(sent.values[0] == 1 && sent.values[1] == 2);
}

static void test_one_direction(void **state)
{
    (void)state;
    const Header header = header_of(4);
    int32_t value = 5;
    mesh->wait.spins_until = mesh->wait.idle_since = 7;
    message_send(mesh, 0, &value, 4);
    assert_true(mesh->wait.spins_until == 0 && mesh->wait.idle_since == 0); // it waits anew
    assert_true(mesh->moved.sent_bytes == 4 && mesh->moved.received_bytes == 0 &&
                num_arrivals == 0);
    come(0, &header, sizeof header);
    come(0, &(int32_t){ 7 }, 4);
    message_receive(mesh, 0, &value, 4);
    assert_true(value == 7 && mesh->moved.received_bytes == 4 && mesh->moved.sent_messages == 1);
    assert_true(num_connected == 0 && clock_now == 1000);
}

static void test_ranks_that_have_not_met(void **state)
{
    (void)state;
    const int32_t value = 5;
    close(mesh->peer[2].data);
    mesh->peer[2].data = -1;
    message_send(mesh, 2, &value, 4);
    assert_true(num_connected == 1 && connected == 2);
    char sent[sizeof(Header) + 4];
    assert_int_equal(recv(far_data, sent, sizeof sent, MSG_DONTWAIT), sizeof sent);
    close(far_data);

    static int members[] = { 3, OWN }; // a group with numbers of its own
    ProcessGroup sub = { .rank = 1, .world_size = 2, .members = members, .parent = &pg };
    call.pg = &sub;
    mesh_begin(mesh, &call);
    close(mesh->peer[3].data);
    mesh->peer[3].data = -1;
    message_send(mesh, 0, &value, 4);
    assert_true(num_connected == 2 && connected == 3);
    close(far_data);
}

/* A header is checked as soon as all of it has come, whether or not anything follows. */
static void test_a_header_alone(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= 8; bytes += 8)
        for (int piece = 0; piece < 2; piece++) {
            tear_down(NULL);
            begin(NULL);
            Header header = header_of(bytes);
            header.call.count++;
            const size_t first = piece ? 40 : sizeof header;
            come(3, &header, first);
            late = piece ? (const char *)&header + first : NULL;
            late_bytes = sizeof header - first;
            late_to = data[3];
            assert_true(refuses(3, bytes));
            expect_end(NOBODY, "rank 1 calls all_reduce #7 of 5 float32 (sum), rank 3 calls "
                               "all_reduce #7 of 6 float32 (sum)");
            assert_int_equal(num_polls, piece);
        }
}

static void test_a_header_is_counted_once(void **state)
{
    (void)state;
    char bytes[8];
    const Header header = header_of(sizeof bytes);
    come(3, &header, sizeof header);
    late_payload = true;
    message_receive(mesh, 3, bytes, sizeof bytes);
    assert_memory_equal(bytes, "12345678", sizeof bytes);
    assert_int_equal(num_arrivals, 1);
}

static void test_nothing_but_a_header(void **state)
{
    (void)state;
    const Header header = header_of(0);
    come(3, &header, sizeof header);
    assert_false(refuses(3, 0));
    assert_true(num_arrivals == 1 && arrival_bytes == sizeof header);
}

static void test_messages_of_no_rank(void **state)
{
    (void)state;
    static const char text[] = "rank 1 does not understand rank 3: are they the same program?";
    for (int wrong = 0; wrong < 3; wrong++) {
        tear_down(NULL);
        begin(NULL);
        Header header = header_of(8);
        header.magic += wrong != 1;
        header.bytes += wrong != 0;
        come(3, &header, sizeof header);
        assert_true(refuses(3, 8));
        expect_end(NOBODY, text);
    }
}

/* What is received in a recv was sent in a send; other kinds are the same on both sides. */
static void test_a_send_is_a_recv(void **state)
{
    (void)state;
    call.kind = RECV;
    call.root = 3;
    mesh_begin(mesh, &call);
    Header header = header_of(8);
    header.call.kind = SEND;
    header.call.root = OWN;
    come(3, &header, sizeof header);
    come(3, "12345678", 8);
    assert_false(refuses(3, 8));
    header.call.root = 0;
    come(3, &header, sizeof header);
    assert_true(refuses(3, 8));
}

static void test_a_closed_connection(void **state)
{
    (void)state;
    clock_step = 0.4; // it waits a second for a reason
    shutdown(data[3], SHUT_WR);
    errno = EAGAIN; // of an earlier call
    assert_true(refuses(3, 8));
    expect_end(NOBODY, "rank 3 is gone: connection closed during all_reduce #7 of 5 float32 (sum)");
    assert_int_equal(num_polls, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_a_message_each_way),       CASE(test_one_direction),
        CASE(test_ranks_that_have_not_met),  CASE(test_a_header_alone),
        CASE(test_a_header_is_counted_once), CASE(test_nothing_but_a_header),
        CASE(test_messages_of_no_rank),      CASE(test_a_send_is_a_recv),
        CASE(test_a_closed_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
