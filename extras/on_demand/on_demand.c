/*
 * A rank connects to a few neighbors at the start, and to any other when the two first need each
 * other, so a group opens n log n connections and not n (n - 1).
 *
 * The neighbors are the two in the ring and those whose number differs in one bit: the partners of
 * the ring, of recursive doubling and of the tree from rank 0. A rank that needs another calls it.
 * A thread of each rank answers, so a rank need not wait for one that computes, and two ranks that
 * wait for each other can connect. If both call at the same time, the higher rank's call counts.
 *
 * Notices go to connected ranks only. A rank that ends sends them its reason, and each passes it on
 * as it ends, too. At a timeout a rank asks the one that it waits for, which passes the question on
 * to the rank that it waits for itself, as long as that one has reported that it waits. The last
 * rank of this chain knows the missing one.
 */
#include "extras/on_demand/on_demand.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/signals.h"
#include "common/comm/store/net.h"
#include "extras/on_demand/meeting.h"

#define CALL_SECONDS 1.0 // limit for the first call; it doubles for each further one
#define CONFIRM_SECONDS 1.0 // limit for the bytes that confirm a new connection
#define COMING_SECONDS (2 * CALL_SECONDS) // a call that takes longer no longer counts
#define ANSWER_SECONDS 3600.0 // how long the thread sleeps if no rank calls
#define PAUSE_MS 50 // before accepting again when no descriptor is free
#define LAST_NOTICE_SECONDS 1.0 // how much later a dead rank's notice may arrive
#define PAUSE 0.05 // between two calls, as a share of the first call's limit
#define IDLE_SECONDS 0.1 // a rank that has waited for less is making progress
#define NOTICE_QUERY (NOTICE_ALIVE + 1) // what does the peer wait for? waits_for: the asker
#define MAX_QUERIES 4 // questions at timeouts of a call; each adds a quarter to its timeout

typedef enum { UNKNOWN, COMING, ARRIVED, CONNECTED } ContactState;

/* What a rank knows of another. */
typedef struct {
    ContactState state; // if ARRIVED, the driver may take the connection
    int fd[NUM_CHANNELS]; // the channels of a rank that has called; -1 if not open yet
    struct Pipe *pipe;
    double since; // when it became COMING
} Contact;

struct OnDemand {
    Meeting *meeting; // used by the thread only, except for calls
    const ProcessGroup *pg;
    pthread_t thread; // valid if `answers`
    bool answers;
    pthread_mutex_t mutex; // guards contact[] and `calling`
    Contact *contact; // indexed by rank
    int num_connected; // used by the driver only
    int calling; // the rank that the driver calls, or NOBODY
    atomic_bool closing;
    int bell; // readable when a rank has arrived
    uint64_t query_sequence; // sequence of the call in which the driver last asked at a timeout ...
    int num_queries; // ... and how often it has asked in that call
    double next_alive; // when the driver may next pass on that a rank is alive
};

/* ---- neighbors ---- */

bool on_demand_is_neighbor(const Mesh *mesh, int peer)
{
    const int bits = mesh->rank ^ peer, distance = abs(mesh->rank - peer);
    return (bits & (bits - 1)) == 0 || distance == 1 || distance == mesh->world_size - 1;
}

/* Reserves two descriptors for each of num_peers peers, and one more: offered memory stays open
 * until the other rank has opened it. */
static void reserve_descriptors(const Mesh *mesh, int num_peers)
{
    net_reserve_descriptors(NET_SPARE_DESCRIPTORS + (NUM_CHANNELS + 1L) * num_peers,
                            mesh->world_size);
}

/* ---- answering, in the thread ---- */

static void reset_contact(Contact *contact)
{
    for (int i = 0; i < NUM_CHANNELS; i++) {
        if (contact->fd[i] >= 0)
            close(contact->fd[i]);
        contact->fd[i] = -1;
    }
    contact->state = UNKNOWN;
}

/* Returns true if the caller waits on both channels. It may have given up and called again. */
static bool is_waiting(const int fd[NUM_CHANNELS])
{
    char byte;
    return net_recv(fd[0], &byte, 1, seconds_awake() + CONFIRM_SECONDS) == 0 &&
           recv(fd[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Returns true if an own call to the peer, or an earlier connection, counts. The mutex is held. */
static bool has_own(const Mesh *mesh, int peer)
{
    const struct OnDemand *state = mesh->on_demand;
    return state->contact[peer].state >= ARRIVED || (state->calling == peer && peer < mesh->rank);
}

/* Answers a caller with both channels open. After the answer both ranks count on the connection. */
static void accept_peer(Mesh *mesh, int peer, const int fd[NUM_CHANNELS])
{
    struct OnDemand *state = mesh->on_demand;
    Contact *contact = &state->contact[peer];
    const bool is_there = is_waiting(fd);
    pthread_mutex_lock(&state->mutex);
    const bool counts = is_there && !has_own(mesh, peer);
    if (counts)
        contact->state = CONNECTED; // so the driver no longer calls it
    else
        reset_contact(contact);
    pthread_mutex_unlock(&state->mutex);
    if (!counts)
        return;
    // If the peer is gone now, the driver will find the connection closed.
    const double deadline = seconds_awake() + mesh->timeout;
    net_send(fd[0], "", 1, deadline);
    contact->pipe = pipe_open(mesh, peer, fd[0], deadline);
    pthread_mutex_lock(&state->mutex);
    contact->state = ARRIVED;
    pthread_mutex_unlock(&state->mutex);
    eventfd_write(state->bell, 1);
}

/* Takes a caller's channel. The data channel comes first. */
static void on_accept(Mesh *mesh, int peer, int channel, int fd)
{
    struct OnDemand *state = mesh->on_demand;
    Contact *contact = &state->contact[peer];
    pthread_mutex_lock(&state->mutex);
    const bool counts = !has_own(mesh, peer) && (channel == 0 || contact->state == COMING);
    if (counts && channel == 0) {
        reset_contact(contact); // the rest of an earlier call
        *contact = (Contact){ .state = COMING, .fd = { fd, -1 }, .since = seconds_awake() };
    } else if (counts) {
        contact->fd[channel] = fd;
    }
    const int both[NUM_CHANNELS] = { contact->fd[0], contact->fd[1] };
    pthread_mutex_unlock(&state->mutex);
    if (!counts)
        close(fd);
    else if (channel > 0)
        accept_peer(mesh, peer, both);
}

static void *answer(void *argument)
{
    Mesh *mesh = argument;
    struct OnDemand *state = mesh->on_demand;
    while (!atomic_load(&state->closing))
        if (!meeting_answer(state->meeting, ANSWER_SECONDS, on_accept))
            poll(NULL, 0, PAUSE_MS);
    return NULL;
}

/* ---- connecting, in the driver ---- */

static void connected(Mesh *mesh, int peer, const int fd[NUM_CHANNELS], struct Pipe *pipe)
{
    mesh->peer[peer].data = fd[0];
    mesh->peer[peer].notices = fd[1];
    mesh->on_demand->num_connected++;
    mesh_connected(mesh, peer, pipe);
}

/* Takes the connections that other ranks have opened. */
void on_demand_arrive(Mesh *mesh)
{
    struct OnDemand *state = mesh->on_demand;
    eventfd_t count;
    eventfd_read(state->bell, &count);
    pthread_mutex_lock(&state->mutex);
    for (int peer = 0; peer < mesh->world_size; peer++) {
        Contact *contact = &state->contact[peer];
        if (contact->state != ARRIVED)
            continue;
        connected(mesh, peer, contact->fd, contact->pipe);
        *contact = (Contact){ .state = CONNECTED, .fd = { -1, -1 } };
    }
    pthread_mutex_unlock(&state->mutex);
}

/* Returns false if the peer has called already, or is calling. */
static bool may_call(struct OnDemand *state, int peer)
{
    pthread_mutex_lock(&state->mutex);
    const Contact *contact = &state->contact[peer];
    const bool may =
        contact->state == UNKNOWN ||
        (contact->state == COMING && seconds_awake() > contact->since + COMING_SECONDS);
    state->calling = may ? peer : NOBODY;
    pthread_mutex_unlock(&state->mutex);
    return may;
}

/* Finds the peer's address over a connection of its own to the store, since another thread may be
 * using the group's, and calls it. Returns false and errno: ECONNREFUSED if the peer is gone. */
static bool open_channels(Mesh *mesh, int peer, double deadline, int fd[NUM_CHANNELS])
{
    const Store *groups = mesh->on_demand->pg->store;
    Store store;
    bool done = store_connect(&store, groups->host, groups->port, deadline - seconds_awake());
    errno = EAGAIN;
    if (!done)
        return false;
    store.may_fail = true;
    memcpy(store.prefix, groups->prefix, sizeof store.prefix);
    const Meeting *meeting = mesh->on_demand->meeting;
    fd[0] = meeting_call(meeting, &store, peer, 0, deadline);
    fd[1] = fd[0] < 0 ? -1 : meeting_call(meeting, &store, peer, 1, deadline);
    done = fd[1] >= 0;
    const int reason = store.failed ? EAGAIN : errno;
    if (!done && fd[0] >= 0)
        close(fd[0]);
    store_free(&store);
    errno = reason;
    return done;
}

/* Returns false and errno if the peer does not answer in time, or has called us. */
static bool call(Mesh *mesh, int peer, double deadline)
{
    int fd[NUM_CHANNELS];
    char byte;
    reserve_descriptors(mesh, mesh->on_demand->num_connected + 1);
    if (!open_channels(mesh, peer, deadline, fd))
        return false;
    if (net_send(fd[0], "", 1, deadline) < 0 || net_recv(fd[0], &byte, 1, mesh->deadline) < 0) {
        close(fd[0]);
        close(fd[1]);
        errno = EAGAIN;
        return false;
    }
    connected(mesh, peer, fd, pipe_open(mesh, peer, fd[0], mesh->deadline));
    return true;
}

static void end_call(struct OnDemand *state, int peer, bool done)
{
    pthread_mutex_lock(&state->mutex);
    state->calling = NOBODY;
    if (done) {
        reset_contact(&state->contact[peer]);
        state->contact[peer].state = CONNECTED;
    }
    pthread_mutex_unlock(&state->mutex);
}

void on_demand_connect(Mesh *mesh, int peer)
{
    struct OnDemand *state = mesh->on_demand;
    for (double timeout = CALL_SECONDS; mesh->peer[peer].data < 0; timeout *= 2) {
        errno = EAGAIN;
        const bool calls = may_call(state, peer);
        const bool done =
            calls && call(mesh, peer, fmin(mesh->deadline, seconds_awake() + timeout));
        const bool is_gone = calls && !done && errno == ECONNREFUSED;
        if (calls)
            end_call(state, peer, done);
        if (done)
            return;
        if (is_gone) // another rank may know why; or the peer has called us before
            mesh_sleep_until(mesh, seconds_awake() + LAST_NOTICE_SECONDS);
        if (is_gone && mesh->peer[peer].data < 0)
            mesh_lost(mesh, peer);
        // The peer's own call may arrive, or it is time for another.
        mesh->wait.next_notice_time =
            fmin(mesh->wait.next_notice_time, seconds_awake() + PAUSE * timeout);
        mesh_wait(mesh, peer, NOBODY);
    }
}

/* ---- the rank that is missing ---- */

/* Returns true if the peer has recently reported that it waits. */
static bool waits_too(const Mesh *mesh, int peer)
{
    return mesh->peer[peer].reported_at > seconds_awake() - mesh->timeout / 2;
}

/* Asks the peer that this rank waits for on behalf of `asking`. */
static void send_query(Mesh *mesh, int peer, int asking)
{
    Peer *other = &mesh->peer[peer];
    const Notice query = { .kind = NOTICE_QUERY, .waits_for = asking, .call = mesh->call };
    if (other->notices_blocked)
        return;
    const ssize_t sent = send(other->notices, &query, sizeof query, MSG_DONTWAIT | MSG_NOSIGNAL);
    other->notices_blocked = sent > 0 && sent < (ssize_t)sizeof query;
}

static noreturn void end_in_deadlock(Mesh *mesh, int waits_for)
{
    char text[DESCRIPTION_BYTES];
    mesh_abort(mesh, NOBODY,
               "%s did not end within %g s: rank %d waits for rank %d, which waits, too",
               collective_describe(mesh->collective, text), mesh->timeout, mesh->rank, waits_for);
}

/* Asks at this rank's timeout. Returns false if the peer itself is missing. */
bool on_demand_query(Mesh *mesh, int waits_for)
{
    struct OnDemand *state = mesh->on_demand;
    if (!waits_too(mesh, waits_for))
        return false;
    state->num_queries = state->query_sequence == mesh->call.sequence ? state->num_queries + 1 : 1;
    state->query_sequence = mesh->call.sequence;
    if (state->num_queries > MAX_QUERIES)
        end_in_deadlock(mesh, waits_for);
    send_query(mesh, waits_for, mesh->rank);
    mesh->deadline = seconds_awake() + mesh->timeout / 4;
    return true;
}

/* Answers a question from a rank that waits for this one. */
static void answer_query(Mesh *mesh, int asking)
{
    const int waits_for = mesh->wait.peer;
    const bool waits = mesh->collective != NULL && waits_for != NOBODY &&
                       mesh->wait.idle_since > 0 &&
                       seconds_awake() > mesh->wait.idle_since + IDLE_SECONDS;
    if (!waits)
        return;
    if (asking == mesh->rank)
        end_in_deadlock(mesh, waits_for);
    if (waits_too(mesh, waits_for)) {
        send_query(mesh, waits_for, asking);
        return;
    }
    char text[DESCRIPTION_BYTES];
    mesh_abort(mesh, waits_for,
               "rank %d is missing in %s after %g s: it is stopped or stuck, or does not make this "
               "call",
               waits_for, collective_describe(mesh->collective, text), mesh->timeout);
}

/* Passes on that a rank is alive, for ranks that are not connected to it, but only once in a while,
 * or the notice would circulate forever. */
void on_demand_receive(Mesh *mesh, const Notice *notice)
{
    struct OnDemand *state = mesh->on_demand;
    if (notice->kind == NOTICE_QUERY)
        answer_query(mesh, notice->waits_for);
    if (notice->kind != NOTICE_ALIVE || seconds_awake() < state->next_alive)
        return;
    state->next_alive = seconds_awake() + mesh->timeout / 8;
    mesh_notify(mesh, NOTICE_ALIVE, NOBODY);
}

/* ---- the beginning and the end ---- */

static int *channel_of(Mesh *mesh, int peer, int channel)
{
    return channel == 0 ? &mesh->peer[peer].data : &mesh->peer[peer].notices;
}

static void call_neighbor(Mesh *mesh, Meeting *meeting, Store *store, int peer)
{
    for (int i = 0; i < NUM_CHANNELS; i++)
        while ((*channel_of(mesh, peer, i) =
                    meeting_call(meeting, store, peer, i, mesh->deadline)) < 0) {
            if (seconds_awake() >= mesh->deadline)
                mesh_abort(mesh, NOBODY, "cannot reach rank %d: %s%s", peer, net_reason(errno),
                           interface_advice());
            poll(NULL, 0, PAUSE_MS);
        }
}

/* Lets a neighbor in. One that calls again did not get the first welcome. Other ranks are early:
 * they will call again. */
static void accept_neighbor(Mesh *mesh, int peer, int channel, int fd)
{
    int *own = channel_of(mesh, peer, channel);
    const int surplus = on_demand_is_neighbor(mesh, peer) ? *own : fd;
    if (surplus >= 0)
        close(surplus);
    *own = on_demand_is_neighbor(mesh, peer) ? fd : -1;
}

/* Returns the first absent higher neighbor; world_size if all are connected. */
static int first_absent(const Mesh *mesh)
{
    int peer = mesh->rank + 1;
    while (peer < mesh->world_size &&
           (!on_demand_is_neighbor(mesh, peer) ||
            (mesh->peer[peer].data >= 0 && mesh->peer[peer].notices >= 0)))
        peer++;
    return peer;
}

static void connect_neighbors(Mesh *mesh, Meeting *meeting, Store *store)
{
    for (int peer = 0; peer < mesh->rank; peer++)
        if (on_demand_is_neighbor(mesh, peer))
            call_neighbor(mesh, meeting, store, peer);
    for (int absent; (absent = first_absent(mesh)) < mesh->world_size;) {
        const double left = mesh->deadline - seconds_awake();
        errno = ETIMEDOUT;
        if (left <= 0 || !meeting_answer(meeting, fmin(left, 1), accept_neighbor))
            mesh_abort(mesh, NOBODY, "rank %d did not connect to %s within %g s: %s%s", absent,
                       meeting_address(meeting), mesh_connect_timeout(mesh->on_demand->pg),
                       strerror(errno), interface_advice());
    }
    // All ranks visit their peers in the same order, so some pair can always proceed.
    for (int peer = 0; peer < mesh->world_size; peer++)
        if (peer != mesh->rank && on_demand_is_neighbor(mesh, peer))
            mesh_connected(mesh, peer,
                           pipe_open(mesh, peer, mesh->peer[peer].data, mesh->deadline));
}

static void start_answer_thread(Mesh *mesh)
{
    const int n = mesh->world_size;
    struct OnDemand *state = mesh->on_demand;
    state->contact = mem_calloc((size_t)n, sizeof *state->contact);
    for (int peer = 0; peer < n; peer++) {
        const bool is_known = mesh->peer[peer].data >= 0;
        state->contact[peer] =
            (Contact){ .state = is_known ? CONNECTED : UNKNOWN, .fd = { -1, -1 } };
        state->num_connected += is_known;
    }
    pthread_mutex_init(&state->mutex, NULL);
    state->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    SYS_CHECK(state->bell);
    mesh->watched[mesh->rank] = (struct pollfd){ .fd = state->bell, .events = POLLIN };
    const int error = thread_start(&state->thread, answer, mesh);
    CHECK(error == 0, "cannot start the thread that answers other ranks: %s", strerror(error));
    state->answers = true;
}

static void free_state(Mesh *mesh)
{
    if (mesh->on_demand->meeting != NULL)
        meeting_end(mesh->on_demand->meeting);
    free(mesh->on_demand->contact);
    free(mesh->on_demand);
    mesh->on_demand = NULL;
}

bool on_demand_form(Mesh *mesh, const ProcessGroup *pg)
{
    const int n = mesh->world_size;
    int num_neighbors = 0;
    for (int peer = 0; peer < n; peer++)
        num_neighbors += peer != mesh->rank && on_demand_is_neighbor(mesh, peer);
    reserve_descriptors(mesh, num_neighbors);
    struct OnDemand *state = mesh->on_demand = mem_calloc(1, sizeof *state);
    *state = (struct OnDemand){ .pg = pg, .calling = NOBODY };
    state->meeting = meeting_begin(mesh, pg);
    connect_neighbors(mesh, state->meeting, pg->store);
    if (num_neighbors < n - 1)
        start_answer_thread(mesh);
    else
        free_state(mesh); // not needed in a small group
    return true;
}

void on_demand_close(Mesh *mesh)
{
    struct OnDemand *state = mesh->on_demand;
    if (!state->answers) { // the group was revoked while it was being formed
        free_state(mesh);
        return;
    }
    atomic_store(&state->closing, true);
    meeting_interrupt(state->meeting);
    pthread_join(state->thread, NULL);
    on_demand_arrive(mesh);
    mesh->watched[mesh->rank].fd = -1;
    for (int peer = 0; peer < mesh->world_size; peer++)
        reset_contact(&state->contact[peer]);
    close(state->bell);
    pthread_mutex_destroy(&state->mutex);
    free_state(mesh);
}
