/*
 * How a rank calls others and answers them. Many callers are read at once, so a connection that
 * sends nothing delays no rank. In a job with a secret each connection begins with a handshake
 * (handshake.h); otherwise the caller shows the group's key.
 */
#include "extras/on_demand/meeting.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"

#define MAX_CALLERS 64 // connections whose handshake is not done yet
#define MAX_WARNINGS 8

/* A connection whose other end has not shown yet which rank it is. */
typedef struct {
    int fd;
    double since; // on the clock of seconds_awake()
    HandshakeAnswer *answer; // used in a job with a secret
    bool is_sealed; // whether its Hello had a valid seal (handshake.h)
    Opening opening; // used in a job without a secret
    size_t bytes; // bytes received of `opening`
} Caller;

struct Meeting {
    Mesh *mesh;
    const ProcessGroup *pg;
    Key256 drawn; // the key drawn by rank 0
    const Key256 *key; // `drawn`, or the secret's key
    HandshakePurpose own; // this rank's purpose, which callers must share
    int listen_fd;
    char address[MESH_ADDRESS_BYTES]; // the address of listen_fd: "HOST PORT"
    Caller caller[MAX_CALLERS]; // oldest first
    int num_callers, num_rejected;
};

/* Shows the key, or makes the handshake. Returns 0 if this rank is let in. */
static int show_key(const Meeting *meeting, int fd, const HandshakePurpose *own, double deadline)
{
    if (meeting->pg->store->has_secret)
        return handshake_call(fd, meeting->key, own, deadline);
    const Opening opening = { meeting->drawn, own->caller, own->answerer, own->channel };
    uint8_t welcome = 0;
    return net_send(fd, &opening, sizeof opening, deadline) < 0 ||
           net_recv(fd, &welcome, 1, deadline) < 0 || welcome != HANDSHAKE_WELCOME;
}

int meeting_call(const Meeting *meeting, Store *store, int peer, int channel, double deadline)
{
    HandshakePurpose own = meeting->own;
    own.answerer = peer;
    own.channel = channel;
    const int fd = mesh_call(meeting->pg, store, peer, deadline);
    if (fd < 0 || show_key(meeting, fd, &own, deadline) == 0)
        return fd;
    close(fd); // a rank without a free slot hangs up, or another process answers
    errno = ETIMEDOUT;
    return -1;
}

/* ---- answering ----
 *
 * A caller that takes longer than HANDSHAKE_SECONDS is turned away, and when there are too many the
 * oldest is, first of those without a sealed Hello: a rank answers at once, or else calls again. */

static Caller remove_caller(Meeting *meeting, int i)
{
    const Caller caller = meeting->caller[i];
    free(caller.answer);
    meeting->num_callers--;
    memmove(&meeting->caller[i], &meeting->caller[i + 1],
            (size_t)(meeting->num_callers - i) * sizeof caller);
    return caller;
}

/* Closes a connection that is not of this group, and logs it (the first few). */
static void reject_caller(Meeting *meeting, int i)
{
    close(remove_caller(meeting, i).fd);
    if (++meeting->num_rejected <= MAX_WARNINGS)
        log_warning("turned away a connection that is not of this group%s",
                    meeting->num_rejected == MAX_WARNINGS ? " (and says no more of such)" : "");
}

/* Sleeps until a connection or bytes arrive, and accepts a connection if there is one. Returns
 * false and errno if none can be accepted, and turning others away would not help. */
static bool accept_caller(Meeting *meeting, double seconds)
{
    struct pollfd pollfds[MAX_CALLERS + 1] = { { .fd = meeting->listen_fd, .events = POLLIN } };
    for (int i = 0; i < meeting->num_callers; i++)
        pollfds[i + 1] = (struct pollfd){ .fd = meeting->caller[i].fd, .events = POLLIN };
    poll_awake(pollfds, (nfds_t)meeting->num_callers + 1, seconds);

    const int fd = net_accept(meeting->listen_fd, 0);
    if (fd < 0 && errno == ETIMEDOUT) // no connection is waiting
        return true;
    if (fd < 0 && meeting->num_callers == 0)
        return false;
    int oldest = 0;
    while (oldest < meeting->num_callers && meeting->caller[oldest].is_sealed)
        oldest++;
    if (fd < 0 || meeting->num_callers == MAX_CALLERS) // no free descriptor or slot
        reject_caller(meeting, oldest % meeting->num_callers);
    if (fd >= 0)
        meeting->caller[meeting->num_callers++] = (Caller){ .fd = fd, .since = seconds_awake() };
    return true;
}

/* Reads the available bytes; `purpose` is as for handshake_read. */
static HandshakeState read_caller(const Meeting *meeting, Caller *caller, HandshakePurpose *purpose)
{
    Opening *opening = &caller->opening;
    if (meeting->pg->store->has_secret)
        return handshake_read(caller->fd, &caller->answer, meeting->key, purpose);
    const ssize_t count = recv(caller->fd, (uint8_t *)opening + caller->bytes,
                               sizeof *opening - caller->bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDSHAKE_MORE;
    caller->bytes += count > 0 ? (size_t)count : 0;
    const size_t shown = caller->bytes < sizeof(Key256) ? caller->bytes : sizeof(Key256);
    if (count <= 0 || memcmp(&opening->key, &meeting->drawn, shown) != 0)
        return HANDSHAKE_REFUSED;
    if (caller->bytes < sizeof *opening)
        return HANDSHAKE_MORE;
    const bool is_accepted =
        opening->answerer == purpose->answerer && opening->caller != purpose->answerer &&
        opening->caller >= 0 && opening->caller < purpose->caller && opening->channel >= 0 &&
        opening->channel <= purpose->channel &&
        send(caller->fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1, MSG_NOSIGNAL) == 1;
    purpose->caller = opening->caller;
    purpose->channel = opening->channel;
    return is_accepted ? HANDSHAKE_DONE : HANDSHAKE_REFUSED;
}

bool meeting_answer(Meeting *meeting, double seconds, OnAccept *on_accept)
{
    if (!accept_caller(meeting, seconds))
        return false;
    for (int i = meeting->num_callers - 1; i >= 0; i--) {
        Caller *caller = &meeting->caller[i];
        HandshakePurpose purpose = meeting->own;
        purpose.answerer = meeting->own.caller;
        purpose.caller = meeting->pg->world_size; // any rank but the answerer
        purpose.channel = NUM_CHANNELS - 1;
        const HandshakeState state = read_caller(meeting, caller, &purpose);
        const bool is_late = seconds_awake() >= caller->since + HANDSHAKE_SECONDS;
        caller->is_sealed |= state == HANDSHAKE_SEALED;
        if (state == HANDSHAKE_DONE)
            on_accept(meeting->mesh, purpose.caller, purpose.channel, remove_caller(meeting, i).fd);
        else if (state == HANDSHAKE_REFUSED || is_late)
            reject_caller(meeting, i);
    }
    return true;
}

void meeting_end(Meeting *meeting)
{
    while (meeting->num_callers > 0)
        close(remove_caller(meeting, meeting->num_callers - 1).fd);
    close(meeting->listen_fd);
    free(meeting);
}

Meeting *meeting_begin(Mesh *mesh, const ProcessGroup *pg)
{
    const Key256 drawn = mesh_agree_on_key(mesh, pg);
    Meeting *meeting = mem_calloc(1, sizeof *meeting);
    *meeting = (Meeting){ .mesh = mesh, .pg = pg, .own = { .service = HANDSHAKE_BACKEND } };
    meeting->own.caller = pg->rank;
    meeting->own.attempt = host_env_count("TORCHELASTIC_RESTART_COUNT");
    meeting->own.group = pg->number;
    meeting->drawn = drawn;
    meeting->key = pg->store->has_secret ? secret_find(HANDSHAKE_BACKEND) : &meeting->drawn;
    meeting->listen_fd = mesh_listen(pg, meeting->address);
    return meeting;
}

const char *meeting_address(const Meeting *meeting)
{
    return meeting->address;
}

void meeting_interrupt(Meeting *meeting)
{
    shutdown(meeting->listen_fd, SHUT_RDWR);
}
