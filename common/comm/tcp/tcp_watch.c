/* How a rank of the tcp backend waits without hanging, and finds out which rank is to blame.
 *
 * While waiting for data it reads the notices of all peers: the kernel closes the connections of a
 * process that dies, and a rank that gives up sends all the reason, so that every rank's last line
 * names the root cause. A rank that waits for a while notifies the others which rank it waits for.
 * At the timeout these notices form a chain from rank to rank; the rank at its end is silent
 * because it is stopped, or stuck, or never made the call. A rank that is late for a good reason
 * reports that it is alive, and the others' timeouts start again. */
#include "common/comm/tcp/tcp_mesh.h"

#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

#define SPIN_SECONDS 50e-6 // a few round trips between two ranks of a machine: see mesh_wait
#define NOTICE_SECONDS 0.1 // a waiting rank notifies the others after this, then each timeout / 4
#define POLL_MS 1
#define LAST_NOTICE_SECONDS 1.0 // a closed connection's last notice may take this long to arrive
#define CULPRIT_MS 200

static const char *call_describe(const CollectiveId *call, char text[DESCRIPTION_BYTES])
{
    const bool known = call->kind >= 0 && call->kind <= RECV && call->type >= 0 &&
                       call->type < NUM_DTYPES && call->op >= 0 && call->op <= REDUCE_MIN;
    if (!known)
        return "something unknown (is it another version of this program?)";
    ProcessGroup pg = { 0 };
    memcpy(pg.name, call->group, sizeof pg.name - 1);
    const Collective collective = { .pg = &pg,
                                    .sequence = call->sequence,
                                    .kind = (CollectiveKind)call->kind,
                                    .type = (DType)call->type,
                                    .op = (ReduceOp)call->op,
                                    .count = call->count,
                                    .root = call->root };
    return collective_describe(&collective, text);
}

/* ---- notifying the others ---- */

static void send_all(Mesh *mesh, const Notice *notice)
{
    for (Peer *peer = mesh->peer; peer < mesh->peer + mesh->world_size; peer++) {
        if (peer->notices < 0 || peer->notices_blocked)
            continue;
        const ssize_t sent =
            send(peer->notices, notice, sizeof *notice, MSG_DONTWAIT | MSG_NOSIGNAL);
        peer->notices_blocked = sent > 0 && sent < (ssize_t)sizeof *notice;
    }
}

void mesh_notify(Mesh *mesh, NoticeKind kind, int waits_for)
{
    send_all(mesh, &(Notice){ .kind = (int32_t)kind, .waits_for = waits_for, .call = mesh->call });
    mesh->wait.next_notice_time = seconds_awake() + mesh->timeout / 4;
}

/* Ends the group: passes the notice on, and dies with its text, or unwinds the call. If this rank
 * was stopped, and the notice names it as the missing one, its line reports that. */
static noreturn void end_group(Mesh *mesh, Notice notice)
{
    send_all(mesh, &notice);
    notice.text[sizeof notice.text - 1] = '\0';
    char text[DESCRIPTION_BYTES];
    if (notice.waits_for == mesh->rank)
        snprintf(notice.text, sizeof notice.text,
                 "the others gave up waiting for this rank in %s after %g s",
                 call_describe(&notice.call, text), mesh->timeout);
    const char *suffix = "";
    if (mesh->collective != NULL) {
        collective_report(mesh->collective, COLLECTIVE_FAILED);
        suffix = process_group_root(mesh->collective->pg)->calls.error_suffix;
    }

    if (mesh->survivor != NULL) {
        log_info("%s: this rank leaves the group", notice.text);
        mesh->survivor->revoked = true;
        mesh->survivor->missing = notice.waits_for;
        longjmp(mesh->unwind, 1); // to attempt in backend_tcp.c: nothing between is to be freed
    }
    log_last_error(notice.text, false, true);
    log_info("fatal: %s%s", notice.text, suffix);
    // A dying process closes its connections before its parent is notified. The launcher must see
    // the culprit's end first, because it blames the first process to end.
    poll(NULL, 0, CULPRIT_MS);
    _exit(EXIT_FAILURE);
}

void mesh_abort(Mesh *mesh, int missing, const char *format, ...)
{
    Notice notice = { .kind = NOTICE_ABORT, .waits_for = missing, .call = mesh->call };
    va_list args;
    va_start(args, format);
    vsnprintf(notice.text, sizeof notice.text, format, args);
    va_end(args);
    end_group(mesh, notice);
}

/* Returns our call with the peer's sequence number, perhaps completed already, or NULL. */
static const CollectiveId *counterpart(const Mesh *mesh, const CollectiveId *theirs)
{
    for (const CollectiveId *ours = mesh->recent; ours < mesh->recent + NUM_RECENT_CALLS; ours++)
        if (!collective_is_point_to_point(theirs->kind) && ours->sequence == theirs->sequence &&
            memcmp(ours->group, theirs->group, sizeof ours->group) == 0)
            return ours;
    return NULL;
}

void mesh_mismatch(Mesh *mesh, int peer, const CollectiveId *theirs)
{
    const CollectiveId *ours = counterpart(mesh, theirs);
    char our_text[DESCRIPTION_BYTES], their_text[DESCRIPTION_BYTES];
    mesh_abort(mesh, NOBODY, "rank %d calls %s, rank %d calls %s", mesh->rank,
               call_describe(ours != NULL ? ours : &mesh->call, our_text), peer,
               call_describe(theirs, their_text));
}

/* ---- reading the others' notices ---- */

typedef enum { NO_NOTICE, RECEIVED, LOST } ReadResult;

static ReadResult note_waiting(Mesh *mesh, int peer, const Notice *notice)
{
    if (notice->waits_for < 0 || notice->waits_for >= mesh->world_size)
        return LOST; // the notice is invalid
    mesh->peer[peer].last = *notice;
    mesh->peer[peer].reported_at = seconds_awake();
    // Ranks waiting for each other in different calls never see each other's messages.
    const CollectiveId *ours = counterpart(mesh, &notice->call);
    if (ours != NULL && memcmp(ours, &notice->call, sizeof *ours) != 0)
        mesh_mismatch(mesh, peer, &notice->call);
    return RECEIVED;
}

/* Reads the peer's next notice, the only place where that is done. Half a notice stays in the
 * socket until the rest has come. */
static ReadResult read_notice(Mesh *mesh, int peer)
{
    Notice notice;
    struct pollfd *watched = &mesh->watched[peer];
    if (peer == mesh->rank)
        return on_demand_arrive(mesh), NO_NOTICE;
    const ssize_t bytes = recv(watched->fd, &notice, sizeof notice, MSG_DONTWAIT | MSG_PEEK);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return NO_NOTICE;
    if (bytes < (ssize_t)sizeof notice)
        return bytes > 0 && (watched->revents & POLLRDHUP) == 0 ? NO_NOTICE : LOST;
    recv(watched->fd, &notice, sizeof notice, MSG_DONTWAIT);

    if (notice.kind == NOTICE_ABORT)
        end_group(mesh, notice);
    if (notice.kind == NOTICE_CLOSE)
        watched->fd = -1; // it may close now
    else if (notice.kind == NOTICE_ALIVE)
        mesh->deadline = fmax(mesh->deadline, seconds_awake() + mesh->timeout);
    else if (notice.kind == NOTICE_WAITING)
        return note_waiting(mesh, peer, &notice);
    if (mesh->on_demand != NULL)
        on_demand_receive(mesh, &notice);
    return RECEIVED;
}

void mesh_lost(Mesh *mesh, int peer)
{
    struct pollfd *watched = &mesh->watched[peer];
    const double deadline = seconds_awake() + LAST_NOTICE_SECONDS;
    while (watched->fd >= 0 && seconds_awake() < deadline && read_notice(mesh, peer) != LOST)
        poll(watched, 1, POLL_MS);
    char text[DESCRIPTION_BYTES];
    mesh_abort(mesh, NOBODY, "rank %d is gone: connection closed during %s", peer,
               call_describe(&mesh->call, text));
}

/* Sleeps until one of the first `num_watched` descriptors is ready, or `seconds` have passed. Reads
 * a notice of each peer that has sent one. Returns false if none has. */
static bool poll_peers(Mesh *mesh, int num_watched, double seconds)
{
    const int ready = poll_awake(mesh->watched, (nfds_t)num_watched, seconds);
    bool received = false;
    int lost = NOBODY;
    for (int peer = 0; ready > 0 && peer < mesh->world_size; peer++) {
        const ReadResult result =
            mesh->watched[peer].revents != 0 ? read_notice(mesh, peer) : NO_NOTICE;
        received |= result == RECEIVED;
        if (result == LOST)
            lost = peer; // handled later, since another peer's notice may have the reason
    }
    if (lost != NOBODY)
        mesh_lost(mesh, lost);
    return received;
}

void mesh_sleep_until(Mesh *mesh, double until)
{
    for (double now; (now = seconds_awake()) < until;)
        poll_peers(mesh, mesh->world_size, until - now);
}

/* ---- a call, and waiting in it ---- */

void mesh_begin(Mesh *mesh, const Collective *collective)
{
    mesh->collective = collective;
    mesh->call =
        (CollectiveId){ .sequence = collective->sequence,
                        .count = collective->count,
                        .kind = (int32_t)collective->kind,
                        .type = (int32_t)collective->type,
                        .op = (int32_t)collective->op,
                        .root = process_group_global_rank(collective->pg, collective->root) };
    memcpy(mesh->call.group, collective->pg->name, sizeof mesh->call.group);
    if (!collective_is_point_to_point(collective->kind))
        mesh->recent[mesh->num_calls++ % NUM_RECENT_CALLS] = mesh->call;

    const double now = seconds_awake_at_tick(); // the time that this takes matters in a short call
    mesh->deadline = now + mesh->timeout;
    mesh->wait.next_notice_time = now + NOTICE_SECONDS;
    mesh->wait.peer = NOBODY;
    // The slowest rank never waits, but must read notices too. Polling costs more than a call.
    if (now >= mesh->wait.next_poll_time) {
        mesh->wait.next_poll_time = now + 1e-3 * POLL_MS;
        while (poll_peers(mesh, mesh->world_size, 0))
            continue;
    }
}

/* Ends the group at the timeout: follows the chain of waiting ranks to the one that does not wait,
 * and names it. Returns if a rank has reported meanwhile that it is alive. */
static void end_by_timeout(Mesh *mesh, int waits_for)
{
    while (poll_peers(mesh, mesh->world_size, 0)) // if this rank was stopped, the others gave up
        continue;
    if (seconds_awake() < mesh->deadline || (mesh->on_demand && on_demand_query(mesh, waits_for)))
        return;
    const double recently = seconds_awake() - mesh->timeout / 2;
    int rank = waits_for;
    for (int i = 0; i < mesh->world_size && mesh->peer[rank].reported_at > recently; i++)
        rank = mesh->peer[rank].last.waits_for;

    char our_text[DESCRIPTION_BYTES], their_text[DESCRIPTION_BYTES];
    call_describe(&mesh->call, our_text);
    if (rank != mesh->rank && mesh->peer[rank].reported_at <= recently)
        mesh_abort(mesh, rank,
                   "rank %d is missing in %s after %g s: it is stopped or stuck, or does not make "
                   "this call",
                   rank, our_text, mesh->timeout);
    mesh_abort(mesh, NOBODY,
               "%s did not end within %g s: rank %d waits for rank %d, which is in %s", our_text,
               mesh->timeout, mesh->rank, waits_for,
               call_describe(&mesh->peer[waits_for].last.call, their_text));
}

/* Sleeps until data can be sent to peer[0] or received from peer[1], a notice has come, or
 * `seconds` have passed. */
static void sleep_for_data(Mesh *mesh, const int peer[2], double seconds)
{
    struct pollfd *data = mesh->watched + mesh->world_size;
    for (int i = 0; i < 2; i++) // the descriptor of our own entry is -1, which poll ignores
        data[i] = (struct pollfd){ .fd = mesh->peer[peer[i] != NOBODY ? peer[i] : mesh->rank].data,
                                   .events = i == 0 ? POLLOUT : POLLIN };
    if (pipes_sleep(mesh, peer, data))
        poll_peers(mesh, mesh->world_size + 2, seconds);
    const int lost = pipes_wake(mesh, peer);
    if (lost != NOBODY)
        mesh_lost(mesh, lost);
}

void mesh_wait(Mesh *mesh, int to, int from)
{
    const double begin = seconds_now(); // much faster than seconds_awake
    if (mesh->wait.spins_until == 0)
        mesh->wait.spins_until = begin + SPIN_SECONDS;
    // Waking up takes longer than most messages, so a rank whose caller waits looks again and again
    // for a while. If ranks share a core it yields: the rank that we wait for may need it.
    if (atomic_load(&mesh->wait.num_threads) > 0 && begin < mesh->wait.spins_until) {
        if (!mesh->has_core)
            sched_yield();
        return;
    }
    double now = seconds_awake();
    if (mesh->wait.idle_since == 0)
        mesh->wait.idle_since = now;
    const int waits_for = mesh->wait.peer = from != NOBODY ? from : to;
    sleep_for_data(mesh, (const int[]){ to, from },
                   fmin(mesh->deadline, mesh->wait.next_notice_time) - now);

    now = seconds_awake();
    if (now >= mesh->wait.idle_since + NOTICE_SECONDS)
        group_extras_waits_for(mesh, waits_for);
    if (now >= mesh->deadline)
        end_by_timeout(mesh, waits_for);
    if (now >= mesh->wait.next_notice_time) {
        char text[DESCRIPTION_BYTES];
        log_detail(LOG_DISTRIBUTED, "waiting for rank %d in %s", waits_for,
                   call_describe(&mesh->call, text));
        mesh_notify(mesh, NOTICE_WAITING, waits_for);
    }
}
