/* A rank of beyond/gloo beside a peer that this test plays byte by byte: what it says, whom it
 * calls, and that it trusts no number. tests/against/torch/gloo.bats has PyTorch's own ranks. */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include "beyond/gloo/gloo.h"
#include "beyond/gloo/gloo_messages.h"
#include "beyond/gloo/torch_ddp.h"
#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "tests/helpers/child.h"

typedef enum { CALL_BARRIER, CALL_SUM, CALL_GATHERED, CALL_BROADCAST, CALL_DDP, NO_CALL } Call;

typedef struct {
    int rank, world_size;
    int port_pipe[2]; // for the store's port
    double timeout;
    const char *master; // the store's host
    Call call;
} Own;

/* Trains a linear model for two steps, as torch_ddp.h says. */
static void run_ddp(ProcessGroup *pg, const Args *args)
{
    Device device;
    device_init(&device, args, 0);
    Rng rng;
    rng_seed(&rng, 0);
    Model model;
    model_init(&model, args, 4, &rng, &device);
    TorchDdp ddp;
    torch_ddp_init(&ddp, args, pg, &model);
    for (int step = 0; step < 2; step++) {
        torch_ddp_forward(&ddp);
        for (int i = model.num_parameters - 1; i >= 0; i--)
            torch_ddp_mark_ready(&ddp, i);
        torch_ddp_finalize(&ddp);
    }
    torch_ddp_free(&ddp);
}

static void own_body(const void *context)
{
    const Own *own = context;
    char port[16] = "";
    SYS_CHECK(read(own->port_pipe[0], port, sizeof port - 1));
    Args args;
    args_defaults(&args, "linear");
    args.timeout = own->timeout;
    args.backend = BACKEND_GLOO;
    args.device = DEVICE_CPU;
    args.threads = 1;
    log_set_rank(own->rank, own->world_size);
    ProcessGroup pg;
    setenv("MASTER_PORT", port, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1); // the test serves the store
    gloo_group_init(&pg, &args, own->master, atoi(port), own->rank, own->world_size,
                    (MemoryLocation){ 0 });
    float data[100] = { 1 }, all[300];
    if (own->call == CALL_BARRIER)
        barrier(&pg);
    else if (own->call == CALL_SUM)
        all_reduce(&pg, data, 100, FLOAT32, REDUCE_SUM);
    else if (own->call == CALL_GATHERED)
        all_gather(&pg, data, all, 100, FLOAT32);
    else if (own->call == CALL_BROADCAST)
        broadcast(&pg, data, 100, FLOAT32, 0);
    else if (own->call == CALL_DDP)
        run_ddp(&pg, &args);
    _exit(0); // a barrier is the peer's choice
}

/* The peer is rank 0, or the only one besides. */
typedef struct {
    pid_t pid;
    FILE *err_file;
    StoreServer *server;
    Store store;
    int port, fd;
} Played;

static Played play(Own own)
{
    Played played = { .fd = -1, .err_file = tmpfile() };
    SYS_CHECK(pipe(own.port_pipe));
    own.timeout = own.timeout > 0 ? own.timeout : 100;
    own.master = own.master != NULL ? own.master : "127.0.0.1";
    // First the rank: if the store had its thread, the thread sanitizer would let it start none.
    played.pid = child_start(own_body, &own, STDOUT_FILENO, fileno(played.err_file));
    played.server = store_server_start("localhost", &played.port, NULL);
    assert_non_null(played.server);
    dprintf(own.port_pipe[1], "%d", played.port);
    close(own.port_pipe[0]);
    close(own.port_pipe[1]);
    assert_true(store_connect(&played.store, "127.0.0.1", played.port, 100));
    return played;
}

static int finish(Played *played)
{
    const int status = child_wait(played->pid);
    read_back(played->err_file, err);
    if (played->fd >= 0)
        close(played->fd);
    store_free(&played->store);
    store_server_stop(played->server);
    return status;
}

static void expect_refused(Played *played, const char *text)
{
    const int status = finish(played);
    if (status != 1 || strstr(err, text) == NULL)
        fail_msg("status %d, and not \"%s\" but: %s", status, text, err);
}

typedef union {
    struct sockaddr_storage storage;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} Address;

/* Waits for a record in the store, and returns the address in it. */
static Address address_of(Played *played, int rank, size_t n)
{
    char key[64];
    uint8_t record[1024];
    snprintf(key, sizeof key, "default_pg/0//cpu//0/%d", rank);
    const size_t size = store_get(&played->store, key, record, sizeof record);
    uint64_t host, part, one;
    memcpy(&host, record, 8);
    assert_int_equal(size, 152 + host + 8 * n);
    memcpy(&part, record + 8 + host, 8);
    assert_int_equal(part, 136);
    for (size_t i = 0; i < n; i++) {
        memcpy(&one, record + 152 + host + 8 * i, 8);
        assert_int_equal(one, i);
    }
    Address address;
    memcpy(&address, record + 16 + host, sizeof address.storage);
    return address;
}

static void publish(Played *played, int rank, const Address *address, size_t numbers)
{
    char key[64];
    Bytes record = { 0 };
    bytes_put_blob(&record, blob_of("elsewhere"));
    bytes_put_u64(&record, 136);
    bytes_put(&record, address, sizeof *address);
    bytes_put_u64(&record, UINT64_MAX);
    for (size_t i = 0; i < numbers; i++)
        bytes_put_u64(&record, 40 + i); // not the ranks themselves: the list decides
    snprintf(key, sizeof key, "default_pg/0//cpu//0/%d", rank);
    store_set(&played->store, key, record.data, record.count);
    store_ping(&played->store);
    bytes_free(&record);
}

/* Listens at a loopback address. Returns -1 if the port is taken (0: a free one). */
static int listen_at(const char *ip, int port, Address *address)
{
    const int on = 1;
    *address = (Address){ 0 };
    const bool is_v6 = strchr(ip, ':') != NULL;
    address->storage.ss_family = is_v6 ? AF_INET6 : AF_INET;
    inet_pton(address->storage.ss_family, ip,
              is_v6 ? (void *)&address->v6.sin6_addr : (void *)&address->v4.sin_addr);
    *(is_v6 ? &address->v6.sin6_port : &address->v4.sin_port) = htons((in_port_t)port);
    const int fd = socket(address->storage.ss_family, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    socklen_t size = is_v6 ? sizeof address->v6 : sizeof address->v4;
    if (bind(fd, (struct sockaddr *)address, size) < 0 || listen(fd, 8) < 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

/* Returns a socket that listens, with a port that is larger than the other's as Gloo compares them,
 * or smaller: by the low byte first. These are outside of the ports that the system gives away, of
 * which none may be left beside the other. */
static int listen_beside(in_port_t other, bool larger, Address *address)
{
    for (int i = 0; i < 16; i++) {
        const int fd =
            listen_at("127.0.0.1", larger ? 0xffff - 256 * i : 0x1000 + 256 * i, address);
        if (fd >= 0 && (address->v4.sin_port > other) == larger)
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

static double soon(void)
{
    return seconds_awake() + 100;
}

/* Joins a rank in C that is rank 1, and leaves the connection in played->fd. */
static void meet(Played *played)
{
    Address theirs = address_of(played, 1, 2), own;
    const int fd = listen_beside(theirs.v4.sin_port, false, &own);
    publish(played, 0, &own, 2);
    played->fd = net_accept(fd, soon());
    assert_true(played->fd >= 0);
    uint64_t said;
    assert_int_equal(net_recv(played->fd, &said, sizeof said, soon()), 0);
    assert_int_equal(said, 41);
    close(fd);
}

static void say(const Played *played, uint64_t opcode, uint64_t kind, uint64_t tag, uint64_t nbytes,
                uint64_t length)
{
    const GlooHeader header = { nbytes, opcode, kind << 56 | tag << 24, 0, length, 0 };
    assert_int_equal(net_send(played->fd, &header, sizeof header, soon()), 0);
}

static void hear(const Played *played, uint64_t opcode, uint64_t kind, uint64_t tag,
                 uint64_t length)
{
    GlooHeader header;
    assert_int_equal(net_recv(played->fd, &header, sizeof header, soon()), 0);
    assert_int_equal(header.opcode, opcode);
    assert_int_equal(header.slot, kind << 56 | tag << 24);
    assert_int_equal(header.length, length);
    assert_int_equal(header.nbytes, 48 + (opcode == 1 ? length : 0));
    assert_int_equal(header.offset, 0);
    assert_int_equal(header.roffset, 0);
}

static void test_bytes_of_a_barrier(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_BARRIER });
    meet(&played);
    say(&played, 3, 7, 0, 48, 0);
    hear(&played, 3, 7, 0, 0);
    hear(&played, 2, 7, 0, 0);
    hear(&played, 1, 7, 0, 0);
    say(&played, 2, 7, 0, 48, 0);
    say(&played, 1, 7, 0, 48, 0);
    assert_int_equal(finish(&played), 0);
}

/* Each in turn: what the peer says to a rank in all_reduce #0 of 100 float32, and how that ends. */
static void test_nothing_is_trusted(void **state)
{
    (void)state;
    static const struct {
        uint64_t opcode, kind, tag, nbytes, length;
        const char *text;
    } said[] = {
        { 0, 4, 0, 48, 0, "rank 0 sent a message of another protocol in all_reduce #0" },
        { 9, 4, 0, 48, 0, "another protocol" },
        { 1, 4, 0, 48, 68, "another protocol" }, // nbytes and length contradict each other
        { 1, 4, 0, UINT64_MAX, UINT64_MAX - 48, "rank 0 sends 18446744073709551567 bytes where" },
        { 2, 4, 0, 12, 100, "another protocol" },
        { 1, 4, 0, 48 + 104, 104, "rank 0 sends 104 bytes where this rank has 100 in all_reduce" },
        { 1, 4, 0, 48 + 96, 96, "rank 0 sends 96 bytes" }, // Gloo takes that in silence
        { 1, 4, 1, 48 + 100, 100, "sent data that this rank has not asked for" },
        { 3, 4, 0, 48, 96, "rank 0 wants 96 bytes where this rank has 100" }, // ends PyTorch
        { 3, 6, 0, 48, 400, "rank 0 calls broadcast in all_reduce #0" },
        { 2, 7, 0, 48, 0, "rank 0 calls barrier in all_reduce #0" },
        { 2, 99, 0, 48, 0, "rank 0 calls something unknown" },
    };
    for (size_t i = 0; i < LENGTH(said); i++) {
        Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_SUM });
        meet(&played);
        hear(&played, 3, 4, 0, 100); // 400 bytes: four segments
        say(&played, said[i].opcode, said[i].kind, said[i].tag, said[i].nbytes, said[i].length);
        expect_refused(&played, said[i].text);
    }
}

static void test_ready_without_end(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_SUM });
    meet(&played);
    for (uint64_t tag = 1; tag <= GLOO_MAX_READY + 1; tag++)
        say(&played, 2, 4, tag, 48, 100);
    expect_refused(&played, "rank 0 is too many calls ahead in all_reduce #0");
}

static void test_closed(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_SUM });
    meet(&played);
    close(played.fd);
    played.fd = -1;
    expect_refused(&played,
                   "rank 0 is gone: connection closed during all_reduce #0 of 100 float32");
}

static void test_missing_in_a_call(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_SUM, .timeout = 2 });
    meet(&played);
    expect_refused(&played, "rank 0 is missing in all_reduce #0 of 100 float32 (sum) after 2 s");
    played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_SUM, .timeout = 2 });
    meet(&played);
    say(&played, 3, 4, 0, 48, 100);
    expect_refused(&played, "rank 0 does not go on in all_reduce #0 of 100 float32 (sum) for 2 s");
}

static void test_missing_rank(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 4, .call = NO_CALL, .timeout = 1 });
    Address address;
    close(listen_at("127.0.0.1", 0, &address));
    publish(&played, 2, &address, 4);
    expect_refused(&played, "ranks 0 and 3 of 4 did not come within 1 s");
}

/* The larger address connects; the 8 bytes are what the other's list has for it. */
static void test_who_connects(void **state)
{
    (void)state;
    for (int larger = 0; larger < 2; larger++) {
        Played played = play((Own){ .rank = 1, .world_size = 2, .call = NO_CALL });
        Address theirs = address_of(&played, 1, 2), own;
        const int fd = listen_beside(theirs.v4.sin_port, larger, &own);
        assert_true(fd >= 0);
        publish(&played, 0, &own, larger ? 0 : 2);
        if (larger) {
            const int stranger = net_connect("127.0.0.1", ntohs(theirs.v4.sin_port), soon());
            assert_int_equal(net_send(stranger, "GET / HTTP", 8, soon()), 0);
            played.fd = net_connect("127.0.0.1", ntohs(theirs.v4.sin_port), soon());
            assert_int_equal(net_send(played.fd, &(uint64_t){ 0 }, 8, soon()), 0);
            assert_int_equal(net_recv(stranger, &(char){ 0 }, 1, soon()), -1); // turned away
            close(stranger);
        } else {
            uint64_t said = 0;
            played.fd = net_accept(fd, soon());
            assert_int_equal(net_recv(played.fd, &said, sizeof said, soon()), 0);
            assert_int_equal(said, 41);
        }
        assert_int_equal(finish(&played), 0);
        close(fd);
    }
}

/* Of two loopback addresses the larger one connects, whatever the ports. */
static void test_two_addresses(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = NO_CALL });
    Address own;
    const int fd = listen_at("127.0.0.3", 0, &own);
    const Address theirs = address_of(&played, 1, 2);
    publish(&played, 0, &own, 2);
    played.fd = net_connect("127.0.0.1", ntohs(theirs.v4.sin_port), soon());
    assert_int_equal(net_send(played.fd, &(uint64_t){ 0 }, 8, soon()), 0);
    assert_int_equal(finish(&played), 0);
    close(fd);
}

static void test_ipv6(void **state)
{
    (void)state;
    Address own;
    const int fd = listen_at("::1", 0, &own);
    if (fd < 0)
        skip();
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = NO_CALL });
    address_of(&played, 1, 2);
    publish(&played, 0, &own, 2);
    expect_refused(&played, "rank 0 listens at an address of IPv6, this one of IPv4");
    close(fd);
}

/* Records that are no records: too short, with a length that is too large, with no address. */
static void test_records(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        Played played = play((Own){ .rank = 1, .world_size = 2, .call = NO_CALL });
        uint8_t record[168] = { 0 };
        const uint64_t host = i == 1 ? UINT64_MAX : i == 2 ? 1 : 0, part = i == 3 ? 135 : 136;
        memcpy(record, &host, 8);
        memcpy(record + 8, &part, 8);
        store_set(&played.store, "default_pg/0//cpu//0/0", record, i == 0 ? 151 : sizeof record);
        expect_refused(&played, i < 3 ? "rank 0's record in the store has"
                                      : "rank 0's record in the store has no address");
        assert_non_null(strstr(err, "PyTorch 2.5.1 and 2.15"));
    }
}

/* ---- DDP, whose rank 0 is played here ---- */

/* Sends a message when its RECV_READY has come, and passes over all else. */
static void send_message(const Played *played, uint64_t kind, uint64_t tag, const void *data,
                         size_t bytes)
{
    for (GlooHeader header = { 0 }; header.opcode != 3 || header.length != bytes;) {
        char skipped[128];
        assert_int_equal(net_recv(played->fd, &header, sizeof header, soon()), 0);
        assert_true(header.length <= sizeof skipped);
        if (header.opcode == 1)
            assert_int_equal(net_recv(played->fd, skipped, header.length, soon()), 0);
    }
    say(played, 2, kind, tag, 48, bytes);
    say(played, 1, kind, tag, 48 + bytes, bytes);
    assert_int_equal(net_send(played->fd, data, bytes, soon()), 0);
}

static void send_counts(Played *played, int32_t count)
{
    meet(played);
    for (int half = 0; half < 2; half++)
        say(played, 3, 2, 0, 48, 4);
    send_message(played, 2, 0, &count, 4);
    send_message(played, 2, 0, &(int32_t){ 0 }, 4);
}

static void test_other_models(void **state)
{
    (void)state;
    Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_DDP });
    send_counts(&played, 7);
    expect_refused(&played, "rank 0's model has 7 parameters, this rank's has 2");
    played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_DDP });
    send_counts(&played, 2);
    const int64_t shapes[] = { 1, 20, 21, 1, 1, 1 };
    send_message(&played, 6, 1, shapes, sizeof shapes);
    expect_refused(&played, "rank 0's parameter weight has another shape");
}

/* Rank 0's buckets for the second step, of two parameters: the last makes sense. */
static void test_buckets(void **state)
{
    (void)state;
    static const struct {
        int32_t indices[3], counts[2];
        const char *text;
    } told[] = {
        { { 0, 0, 1 }, { 2 }, "rank 0's buckets make no sense: parameter 0 of 2 is at place 1" },
        { { 2, 0, 1 }, { 2 }, "parameter 2 of 2 is at place 0" },
        { { 0, -1, 1 }, { 2 }, "parameter -1 of 2 is at place 1" },
        { { 1, 0, 0 }, { 2 }, "rank 0 has 0 buckets for 2 parameters" },
        { { 1, 0, 1 << 30 }, { 2 }, "rank 0 has 1073741824 buckets" },
        { { 1, 0, 1 }, { 1 }, "rank 0's buckets have 1 parameters, the model 2" },
        { { 1, 0, 2 }, { 3, -1 }, "rank 0's bucket 1 has -1 parameters" },
        { { 1, 0, 2 }, { 1, 1 }, NULL },
    };
    static const int64_t shapes[] = { 1, 20, 20, 1, 1, 1 };
    static const float zeros[21];
    static const size_t received[] = { 24, 24, 24, 12 }, sent[] = { 24, 12, 24, 24 };
    for (size_t i = 0; i < LENGTH(told); i++) {
        Played played = play((Own){ .rank = 1, .world_size = 2, .call = CALL_DDP });
        send_counts(&played, 2);
        send_message(&played, 6, 1, shapes, sizeof shapes);
        send_message(&played, 6, 2, zeros, sizeof zeros);
        for (size_t k = 0; k < 4; k++) // the first step's bucket
            say(&played, 3, 4, 3, 48, received[k]);
        for (size_t k = 0; k < 4; k++)
            send_message(&played, 4, 3, zeros, sent[k]);
        send_message(&played, 6, 4, told[i].indices, sizeof told[i].indices);
        const int32_t num_buckets = told[i].indices[2];
        if (num_buckets == 1 || num_buckets == 2)
            send_message(&played, 6, 5, told[i].counts, 4 * (size_t)num_buckets);
        if (told[i].text != NULL) {
            expect_refused(&played, told[i].text);
            continue;
        }
        say(&played, 3, 4, 6, 48, 4); // bucket 0, the bias: one segment, and the whole of it
        send_message(&played, 4, 6, zeros, 4);
        kill(played.pid, SIGKILL);
        assert_int_equal(finish(&played), 128 + SIGKILL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_a_barrier),
        cmocka_unit_test(test_nothing_is_trusted),
        cmocka_unit_test(test_ready_without_end),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_missing_in_a_call),
        cmocka_unit_test(test_missing_rank),
        cmocka_unit_test(test_who_connects),
        cmocka_unit_test(test_two_addresses),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_other_models),
        cmocka_unit_test(test_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
